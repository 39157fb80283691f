-- enqueue_once: one event that may be in the outbox already, by its id or its dedupe key.
-- The parameters are those of enqueue.
with fresh as (
  insert into {outbox}
    (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
     headers, content_type, payload, payload_bytes, next_attempt_at, traceparent, tracestate)
  values
    ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb, $11, $12::text::jsonb, $13,
     greatest(to_timestamp($15::float8), clock_timestamp() + make_interval(secs => $14)), $16, $17)
  on conflict do nothing
  returning id, sequence
)
select id, sequence, true as new from fresh
union all
select id, sequence, false from {outbox:existing}($1, $2, $3, $9)
where not exists (select from fresh) and sequence is not null
