-- finished: events that were delivered or died after a mark, in the order in which they did.
-- $1 and $2 the mark, $3 limit.
select *
from (
  (select id, sequence, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
          dedupe_key, content_type, traceparent, status, attempts, next_attempt_at, lease_owner, lease_until,
          lease_epoch, last_error, dead_reason, created_at, updated_at, delivered_at, dead_at,
          delivered_at as finished_at
   from {outbox}
   where delivered_at is not null and (delivered_at, sequence) > ($1::timestamptz, $2::bigint)
   order by delivered_at, sequence
   limit $3)
  union all
  (select id, sequence, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
          dedupe_key, content_type, traceparent, status, attempts, next_attempt_at, lease_owner, lease_until,
          lease_epoch, last_error, dead_reason, created_at, updated_at, delivered_at, dead_at,
          dead_at
   from {outbox}
   where dead_at is not null and (dead_at, sequence) > ($1, $2)
   order by dead_at, sequence
   limit $3)
) ended
order by finished_at, sequence
limit $3
