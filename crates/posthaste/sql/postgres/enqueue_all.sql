-- enqueue_all: many new events, in the caller's transaction.
-- The parameters are those of enqueue, an array each.
insert into {outbox}
  (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
   headers, content_type, payload, payload_bytes, next_attempt_at, traceparent, tracestate)
select
  id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
  headers::jsonb, content_type, payload::jsonb, payload_bytes,
  greatest(to_timestamp(due), clock_timestamp() + make_interval(secs => delay)), traceparent, tracestate
from unnest
  ($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
   $10::text[], $11::text[], $12::text[], $13::bytea[], $14::float8[], $15::float8[], $16::text[], $17::text[])
  with ordinality as input
  (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
   headers, content_type, payload, payload_bytes, delay, due, traceparent, tracestate, place)
order by place
returning id, sequence, true as new
