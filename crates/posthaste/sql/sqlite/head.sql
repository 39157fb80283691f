-- head: the first event of a key that is neither delivered nor discarded. ?1 key.
select ordering_key, id, topic, status, dead_reason, attempts, last_error, updated_at, next_attempt_at, dead_at, sequence
from {outbox} indexed by {name:keyed}
where ordering_key = ?1 and delivered_at is null and dead_reason is not 'discarded'
order by sequence
limit 1
