-- letter: a copy of a dead event, under a topic for dead letters, without what the table would refuse.
-- ?1 sequence, ?2 topic, ?3 headers, ?4 tenant.
insert into {outbox}
  (namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, headers, content_type, payload,
   payload_bytes, traceparent, tracestate)
select namespace, ?2, ?4, aggregate_type, aggregate_id, event_type, ?3, content_type,
       case when json_valid(payload) then payload end,
       case when json_valid(payload) then null else coalesce(payload_bytes, cast(payload as blob), x'') end,
       traceparent, tracestate
from {outbox}
where sequence = ?1
