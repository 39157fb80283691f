-- enqueue_all: many new events, in the caller's transaction.
-- ?1 a JSON array of arrays: the parameters of enqueue, the payload's bytes in hexadecimal digits.
insert into {outbox}
  (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
   headers, content_type, payload, payload_bytes, next_attempt_at, traceparent, tracestate)
select
  value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
  value ->> 8, value ->> 9, value ->> 10, value ->> 11, unhex(value ->> 12),
  max(coalesce(cast((value ->> 14) * 1000000 as integer), 0), {now} + cast((value ->> 13) * 1000000 as integer)),
  value ->> 15, value ->> 16
from json_each(?1)
order by key
returning id, sequence
