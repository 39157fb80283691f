-- enqueue: one new event, in the caller's transaction.
-- ?1 id, ?2 namespace, ?3 topic, ?4 tenant_id, ?5 aggregate_type, ?6 aggregate_id, ?7 event_type,
-- ?8 ordering_key, ?9 dedupe_key, ?10 headers, ?11 content_type, ?12 payload, ?13 payload_bytes,
-- ?14 delay in seconds, ?15 due in seconds since 1970, ?16 traceparent, ?17 tracestate.
insert into {outbox}
  (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
   headers, content_type, payload, payload_bytes, next_attempt_at, traceparent, tracestate)
values
  (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
   max(coalesce(cast(?15 * 1000000 as integer), 0), {now} + cast(?14 * 1000000 as integer)), ?16, ?17)
returning id, sequence
