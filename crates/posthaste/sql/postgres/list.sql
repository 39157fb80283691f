-- list: events as an operator sees them, oldest first.
-- $1 namespace, $2 topics, $3 tenant, $4 status, $5 after this sequence, $6 ids, $7 limit.
select id, sequence, namespace, topic, tenant_id, ordering_key, status, attempts, next_attempt_at, lease_owner,
       lease_until, lease_epoch, last_error, dead_reason, created_at, updated_at, delivered_at
from {outbox}
where ($1::text is null or namespace = $1)
  and ($2::text[] is null or topic = any ($2))
  and ($3::uuid is null or tenant_id = $3)
  and ($4::text is null or status = $4)
  and ($4::text is distinct from 'dead' or dead_at is not null)
  and ($5::bigint is null or sequence > $5)
  and ($6::uuid[] is null or id = any ($6))
order by sequence
limit $7
