-- enqueue_all_once: events that may be in the outbox already, by their id or their dedupe key.
-- The parameters are those of enqueue, an array each. Gives one row for each, in order.
with input as materialized (
  select * from unnest
    ($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
     $10::text[], $11::text[], $12::text[], $13::bytea[], $14::float8[], $15::float8[], $16::text[], $17::text[])
    with ordinality as input
    (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
     headers, content_type, payload, payload_bytes, delay, due, traceparent, tracestate, place)
), fresh as (
  insert into {outbox}
    (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
     headers, content_type, payload, payload_bytes, next_attempt_at, traceparent, tracestate)
  select
    id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
    headers::jsonb, content_type, payload::jsonb, payload_bytes,
    greatest(to_timestamp(due), clock_timestamp() + make_interval(secs => delay)), traceparent, tracestate
  from input
  order by place
  on conflict do nothing
  returning id, sequence
), placed as (
  -- The same id twice in one call: the first made the event, the second met it.
  select input.*, fresh.sequence as fresh_sequence,
         row_number() over (partition by input.id order by place) = 1 and fresh.id is not null as new
  from input left join fresh on fresh.id = input.id
)
select coalesce(existing.id, placed.id) as id, coalesce(existing.sequence, placed.fresh_sequence) as sequence, placed.new
from placed
left join lateral (
  select * from {outbox:existing}(placed.id, placed.namespace, placed.topic, placed.dedupe_key)
  where placed.fresh_sequence is null
) existing on true
where existing.sequence is not null or placed.fresh_sequence is not null
order by placed.place
