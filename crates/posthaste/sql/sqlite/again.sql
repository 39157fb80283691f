-- again: enqueue delivered events anew, in their sequence. ?1 ids.
insert into {outbox}
  (namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, headers, content_type,
   payload, payload_bytes, traceparent, tracestate, redeliveries)
select namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
       json_set(headers, '$."posthaste-redelivery-of"', id), content_type,
       payload, payload_bytes, traceparent, tracestate, coalesce(redeliveries, 0) + 1
from {outbox}
where id in (select value from json_each(?1)) and delivered_at is not null
order by sequence
returning id, topic, headers ->> '$."posthaste-redelivery-of"'
