-- dead: what a letter tells of a dead event. ?1 sequence.
select id, headers, topic, dead_reason, last_error, attempts, created_at, tenant_id
from {outbox}
where sequence = ?1
