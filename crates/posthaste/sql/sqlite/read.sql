-- read: what events say, before they are leased. ?1 sequences.
select
  sequence, id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
  headers, content_type, payload, payload_bytes, traceparent, tracestate, created_at, next_attempt_at,
  redeliveries
from {outbox}
where sequence in (select value from json_each(?1))
