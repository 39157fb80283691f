-- letter: a copy of a dead event, under a topic for dead letters. ?1 sequence, ?2 topic, ?3 headers.
insert into {outbox}
  (namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, headers, content_type, payload,
   payload_bytes, traceparent, tracestate)
select namespace, ?2, tenant_id, aggregate_type, aggregate_id, event_type, ?3, content_type, payload,
       payload_bytes, traceparent, tracestate
from {outbox}
where sequence = ?1
