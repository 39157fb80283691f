-- settle: end leases of events that were not delivered.
-- $1 owners, $2 ids, $3 epochs, $4 verdicts (retry, dead, release, postpone), $5 delays in seconds,
-- $6 dead reasons, $7 errors, $8 topics for dead letters, $9 kinds of errors, $10 how the attempts ended (null:
-- there was none), $11 how long they took in seconds, $12 where to, $13 the relay's name.
with settled as (
  update {outbox} e
  set status          = case s.verdict when 'dead' then 'dead' else 'pending' end,
      attempts        = case when s.verdict in ('release', 'postpone') then e.attempts - 1 else e.attempts end,
      next_attempt_at = case when s.verdict in ('retry', 'postpone')
                          then clock_timestamp() + make_interval(secs => s.delay)
                          else e.next_attempt_at
                        end,
      dead_at         = case s.verdict when 'dead' then clock_timestamp() end,
      dead_reason     = s.reason,
      last_error      = coalesce(s.error, e.last_error),
      fingerprint     = coalesce(s.fingerprint, e.fingerprint),
      lease_owner     = null,
      lease_until     = null,
      updated_at      = clock_timestamp()
  from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::float8[], $6::text[], $7::text[],
              $8::text[], $9::text[], $10::text[], $11::float8[], $12::text[])
    as s (owner, id, epoch, verdict, delay, reason, error, letter, fingerprint, ending, took, destination)
  where e.id = s.id and e.lease_owner = s.owner and e.lease_epoch = s.epoch
  returning e.id, e.lease_epoch, s.reason, s.error, s.letter, s.ending, s.took, s.destination
), letters as (
  -- A copy of what dies, as an event of its own; but a letter that dies gets none.
  insert into {outbox}
    (namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, headers, content_type, payload,
     payload_bytes, traceparent, tracestate)
  select
    e.namespace, settled.letter, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type,
    case jsonb_typeof(e.headers)
      when 'object' then
        (select coalesce(jsonb_object_agg(key, coalesce(value, 'null')), '{}') from jsonb_each_text(e.headers))
      else '{}'
    end || jsonb_strip_nulls(jsonb_build_object(
      'posthaste-dead-letter-of', e.id,
      'posthaste-dead-topic', nullif(btrim(regexp_replace(e.topic, '[^ -~]', '?', 'g')), ''),
      'posthaste-dead-reason', settled.reason,
      'posthaste-dead-error',
        nullif(btrim(left(regexp_replace(settled.error collate "C", '[^ -~]', '?', 'g'), 512)), ''),
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
              -- The row as it was before: leased, and last changed when it was claimed.
              select e.lease_epoch, e.attempts, e.updated_at, settled.ending, settled.destination, $13::text,
                     settled.error
              where settled.ending is not null
            ) a
            order by a.epoch desc
            limit 10
          ) newest
        ) summed
        where bytes < 2048
      ))),
    e.content_type, e.payload, e.payload_bytes, e.traceparent, e.tracestate
  from settled join {outbox} e on e.id = settled.id
  where settled.letter is not null and settled.reason is not null
    and not e.headers ? 'posthaste-dead-letter-of'
  order by e.sequence
), attempts as (
  -- The row as it was before: leased, and last changed when it was claimed.
  insert into {outbox:attempts}
    (event_id, epoch, number, claimed_at, took, ending, error, relay, relay_name, destination)
  select e.id, e.lease_epoch, e.attempts, e.updated_at, settled.took, settled.ending, settled.error,
         e.lease_owner, $13::text, settled.destination
  from settled join {outbox} e on e.id = settled.id
  where settled.ending is not null
  on conflict do nothing
), surplus as (
  -- What was claimed a hundred times may have more attempts than are kept.
  delete from {outbox:attempts} a
  using settled
  where settled.lease_epoch > 100 and a.event_id = settled.id
    and a.epoch <= (
      select k.epoch from {outbox:attempts} k
      where k.event_id = settled.id
      order by k.epoch desc
      offset 99 limit 1
    )
)
select id, lease_epoch from settled
