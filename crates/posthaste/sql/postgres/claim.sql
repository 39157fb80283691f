-- claim: lease due events, oldest first.
-- $1 limit, $2 lease in seconds, $3 owner, $4 max attempts, $5 namespace, $6 topics, $7 tenant,
-- $8 topics to leave alone, $9 and $10 the place to look from, $11 owners that are gone,
-- $12 the topic for dead letters, $13 how many bytes of payload.
with locked as materialized (
  select ctid as place, attempts, lease_owner,
         -- Of what is compressed, only its text tells how large it is.
         coalesce(octet_length(payload_bytes),
                  case when pg_column_compression(payload) is null then pg_column_size(payload)
                       else octet_length(payload::text) end) as size
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
), due as materialized (
  -- As many as fit, and at least one. What is only locked is free again when this commits.
  select place, attempts, lease_owner
  from (select *, sum(size) over (rows unbounded preceding) - size as before from locked) summed
  where before < $13::bigint
), letters as (
  -- A copy of what dies, as an event of its own; but a letter that dies gets none.
  insert into {outbox}
    (namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, headers, content_type, payload,
     payload_bytes, traceparent, tracestate)
  select
    e.namespace, $12::text, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type,
    case jsonb_typeof(e.headers)
      when 'object' then
        (select coalesce(jsonb_object_agg(key, coalesce(value, 'null')), '{}') from jsonb_each_text(e.headers))
      else '{}'
    end || jsonb_strip_nulls(jsonb_build_object(
      'posthaste-dead-letter-of', e.id,
      'posthaste-dead-topic', nullif(btrim(regexp_replace(e.topic, '[^ -~]', '?', 'g')), ''),
      'posthaste-dead-reason', case when e.lease_owner is null then 'exhausted' else 'crashed' end,
      'posthaste-dead-error',
        nullif(btrim(left(regexp_replace(e.last_error collate "C", '[^ -~]', '?', 'g'), 512)), ''),
      'posthaste-dead-attempts', e.attempts::text,
      'posthaste-dead-created-at', to_char(e.created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
      'posthaste-dead-history', (
        -- The newest attempts that fit, from the oldest of them on.
        select '[' || string_agg(entry, ',' order by epoch) || ']'
        from (
          select epoch, entry, sum(length(entry) + 1) over (order by epoch desc) as bytes
          from (
            select a.epoch, json_strip_nulls(json_build_object(
              'attempt', a.number,
              'at', to_char(a.claimed_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
              'ending', a.ending,
              'destination',
                nullif(btrim(left(regexp_replace(a.destination collate "C", '[^ -~]', '?', 'g'), 64)), ''),
              'relay', nullif(btrim(left(regexp_replace(a.relay_name collate "C", '[^ -~]', '?', 'g'), 64)), ''),
              'error',
                nullif(btrim(left(regexp_replace(a.error collate "C", '[^ -~]', '?', 'g'), 128)), '')))::text as entry
            from (
              select epoch, number, claimed_at, ending, destination, relay_name, error
              from {outbox:attempts}
              where event_id = e.id
              union all
              select e.lease_epoch, e.attempts, e.updated_at, 'crashed', null,
                     (select r.name from {outbox:relay} r where r.owner = e.lease_owner), null
              where e.lease_owner is not null
            ) a
            order by a.epoch desc
            limit 10
          ) newest
        ) summed
        where bytes < 2048
      ))),
    e.content_type, e.payload, e.payload_bytes, e.traceparent, e.tracestate
  from due join {outbox} e on e.ctid = due.place
  where $12 is not null and due.attempts >= $4 and not e.headers ? 'posthaste-dead-letter-of'
  order by e.sequence
), crashed as (
  -- The attempt of whoever had it before, and is gone or came too late.
  insert into {outbox:attempts} (event_id, epoch, number, claimed_at, ending, relay, relay_name)
  select e.id, e.lease_epoch, e.attempts, e.updated_at, 'crashed', due.lease_owner,
         (select r.name from {outbox:relay} r where r.owner = due.lease_owner)
  from due join {outbox} e on e.ctid = due.place
  where due.lease_owner is not null
  on conflict do nothing
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
  e.tracestate, e.attempts, e.created_at, e.next_attempt_at, e.lease_epoch, e.dead_reason, now() as claimed_at,
  e.redeliveries, (select count(*) from locked) > (select count(*) from due) as cut
