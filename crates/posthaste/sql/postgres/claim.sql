-- claim: lease due events, oldest first.
-- $1 limit, $2 lease in seconds, $3 owner, $4 max attempts, $5 namespace, $6 topics, $7 tenant,
-- $8 topics to leave alone, $9 and $10 the place to look from, $11 owners that are gone.
with due as materialized (
  select ctid as place
  from {outbox}
  where delivered_at is null and dead_at is null
    and next_attempt_at <= now()
    and (next_attempt_at, sequence) > ($9::timestamptz, $10::bigint)
    and (lease_owner is null or lease_until < now() or lease_owner = any ($11::uuid[]))
    and ($5::text is null or namespace = $5)
    and ($6::text[] is null or topic = any ($6))
    and ($7::uuid is null or tenant_id = $7)
    and topic <> all ($8::text[])
  order by next_attempt_at, sequence
  limit $1
  for update skip locked
)
update {outbox} e
set status      = case when e.attempts < $4::integer then 'processing' else 'dead' end,
    attempts    = case when e.attempts < $4 then e.attempts + 1 else e.attempts end,
    lease_owner = case when e.attempts < $4 then $3::uuid end,
    lease_until = case when e.attempts < $4 then clock_timestamp() + make_interval(secs => $2::float8) end,
    lease_epoch = least(e.lease_epoch, 9223372036854775806) + 1,
    dead_at     = case when e.attempts < $4 then null else clock_timestamp() end,
    dead_reason = case when e.attempts < $4 then null when e.lease_owner is null then 'exhausted' else 'crashed' end,
    updated_at  = clock_timestamp()
from due
where e.ctid = due.place
returning
  e.id, e.sequence, e.namespace, e.topic, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type,
  e.ordering_key, e.dedupe_key, e.headers, e.content_type, e.payload, e.payload_bytes, e.traceparent,
  e.tracestate, e.attempts, e.created_at, e.next_attempt_at, e.lease_epoch, e.dead_reason, now() as claimed_at
