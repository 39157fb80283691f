-- latest: the last events that were delivered or died, in the order in which they did. $1 limit.
select *
from (
  select *
  from (
    (select id, sequence, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
            dedupe_key, content_type, traceparent, status, attempts, next_attempt_at, lease_owner, lease_until,
            lease_epoch, last_error, dead_reason, created_at, updated_at, delivered_at, dead_at,
            delivered_at as finished_at
     from {outbox}
     where delivered_at is not null
     order by delivered_at desc, sequence desc
     limit $1)
    union all
    (select id, sequence, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
            dedupe_key, content_type, traceparent, status, attempts, next_attempt_at, lease_owner, lease_until,
            lease_epoch, last_error, dead_reason, created_at, updated_at, delivered_at, dead_at,
            dead_at
     from {outbox}
     where dead_at is not null
     order by dead_at desc, sequence desc
     limit $1)
  ) ended
  order by finished_at desc, sequence desc
  limit $1
) latest
order by finished_at, sequence
