-- finished: events that were delivered or died after a mark, in the order in which they did.
-- ?1 and ?2 the mark, ?3 limit.
with ended as (
  select * from (
    select sequence as place, delivered_at as finished_at from {outbox} indexed by {name:delivered}
    where delivered_at is not null and (delivered_at, sequence) > (?1, ?2)
    order by delivered_at, sequence
    limit ?3
  )
  union all
  select * from (
    select sequence, dead_at from {outbox} indexed by {name:dead}
    where dead_at is not null and (dead_at, sequence) > (?1, ?2)
    order by dead_at, sequence
    limit ?3
  )
)
select id, sequence, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
       content_type, traceparent, status, attempts, next_attempt_at, lease_owner, lease_until, lease_epoch,
       last_error, dead_reason, created_at, updated_at, delivered_at, dead_at
from ended cross join {outbox} on sequence = place
order by finished_at, sequence
limit ?3
