-- redeliver: bring dead events back, and enqueue delivered ones anew; write it down.
-- $1 ids, $2 actor, $3 why.
with revived as (
  update {outbox}
  set status = 'pending', attempts = 0, next_attempt_at = clock_timestamp(), updated_at = clock_timestamp(),
      dead_at = null, dead_reason = null, redeliveries = coalesce(redeliveries, 0) + 1
  where id = any ($1::uuid[]) and dead_at is not null
  returning id, topic
), anew as (
  insert into {outbox}
    (namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, headers, content_type,
     payload, payload_bytes, traceparent, tracestate, redeliveries)
  select namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
         headers || jsonb_build_object('posthaste-redelivery-of', id), content_type,
         payload, payload_bytes, traceparent, tracestate, coalesce(redeliveries, 0) + 1
  from {outbox}
  where id = any ($1::uuid[]) and delivered_at is not null
  order by sequence
  returning id, topic, headers ->> 'posthaste-redelivery-of' as origin
), audit as (
  insert into {outbox:audit} (actor, act, event_id, topic, why)
  select $2::text, 'redeliver', id, topic, $3::text from revived
  union all
  select $2::text, 'redeliver', origin::uuid, topic, $3::text || ' (as ' || id || ')' from anew
)
select id from revived union all select id from anew
