-- enqueue_once: one event that may be in the outbox already, by its id or its dedupe key.
-- The parameters are those of enqueue. Gives nothing if it is there.
insert into {outbox}
  (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
   headers, content_type, payload, payload_bytes, next_attempt_at, traceparent, tracestate)
values
  (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
   max(coalesce(cast(?15 * 1000000 as integer), 0), {now} + cast(?14 * 1000000 as integer)), ?16, ?17)
on conflict do nothing
returning id, sequence
