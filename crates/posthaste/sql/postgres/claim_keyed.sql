-- claim_keyed: lease due events, oldest first, those of one key only in sequence.
-- $1 to $13 as in claim, $14 how many due events to look at, $15 block, park or skip, $16 only these keys, from the
-- first event of each on: then $9 and $10 say nothing, and $14 is for each of them.
--
-- Of each key, what goes is a run from its first live event on, up to its barrier: the first event
-- that cannot go now, as it is leased, due later, not among what was seen, or dead and to block.
-- Gives, beside what it took, a row that is no event: how many events it looked at, whether it locked as many as it may,
-- the last that it locked, or looked at if there are no more, and the keys in which some wait for one that is leased.
-- Runs are looked for before locking, so that blocked keys do not fill the batch, and counted
-- again after it (nth), as another relay may have locked a part of one.
with seen as materialized (
  (
    select ctid as place, xmin as version, next_attempt_at, sequence, ordering_key
    from {outbox}
    where $16::text[] is null
      and delivered_at is null and dead_at is null
      and next_attempt_at <= now()
      and (next_attempt_at, sequence) > ($9::timestamptz, $10::bigint)
      and (lease_owner is null or lease_until < now() or lease_owner = any ($11::uuid[]))
      and ($5::text is null or namespace = $5)
      and ($6::text[] is null or topic = any ($6))
      and ($7::uuid is null or tenant_id = $7)
      and topic <> all ($8::text[])
    order by next_attempt_at, sequence
    limit $14
  )
  union all
  select first.*
  from (select distinct key from unnest($16) key) wanted
  cross join lateral (
    select ctid as place, xmin as version, next_attempt_at, sequence, ordering_key
    from {outbox}
    where ordering_key = wanted.key and delivered_at is null
      -- In a CASE, so that only the index of keys is of use, whatever the statistics say.
      and case when dead_at is null then next_attempt_at <= now() else false end
      and (lease_owner is null or lease_until < now() or lease_owner = any ($11))
      and ($5 is null or namespace = $5)
      and ($6 is null or topic = any ($6))
      and ($7 is null or tenant_id = $7)
      and topic <> all ($8)
    order by sequence
    limit $14
  ) first
), keys as materialized (
  select ordering_key, max(sequence) as last, array_agg(place) as places, array_agg(version) as versions,
         array_agg(turn) as turns, array_agg(sequence) as sequences, array_agg(nth) as nths
  from (
    -- A head that was retried is due later than its followers, and yet its turn comes first.
    select *, max(next_attempt_at) over up_to_here as turn, row_number() over up_to_here as nth
    from seen
    where ordering_key is not null
    window up_to_here as (partition by ordering_key order by sequence)
  ) free
  group by ordering_key
), runs as materialized (
  select keys.*, barrier.sequence as barrier, barrier.is_leased, death.sequence as death
  from keys
  left join lateral (
    -- One that was seen had its lease, and dies of this claim.
    select e.sequence, e.lease_owner is not null and e.ctid not in (select place from seen) as is_leased
    from {outbox} e
    where e.ordering_key = keys.ordering_key and e.sequence <= keys.last and e.delivered_at is null
      and case
            when e.dead_at is not null then $15::text = 'block' and e.dead_reason <> 'discarded'
            -- One that has no attempt left dies of this claim, before those that follow it go.
            when e.ctid in (select place from seen) then $15 = 'block' and e.attempts >= $4::integer
            else true
          end
    order by e.sequence
    limit 1
  ) barrier on true
  left join lateral (
    select e.sequence
    from {outbox} e
    where $15 = 'park'
      and e.ordering_key = keys.ordering_key and e.sequence <= keys.last and e.delivered_at is null
      and case when e.dead_at is not null then e.dead_reason <> 'discarded' else e.attempts >= $4 end
    order by e.sequence
    limit 1
  ) death on true
), ready as materialized (
  select place, version, next_attempt_at as turn, sequence, ordering_key, null as nth, false as parked
  from seen
  where ordering_key is null
  union all
  -- Arrays in place of a join: there may be as many keys as events.
  select event.place, event.version, event.turn, event.sequence, runs.ordering_key, event.nth,
         runs.death is not null and event.sequence > runs.death
  from runs
  cross join lateral unnest(runs.places, runs.versions, runs.turns, runs.sequences, runs.nths)
    as event (place, version, turn, sequence, nth)
  where runs.barrier is null or event.sequence <= runs.barrier
), locked as materialized (
  select e.ctid as place, e.attempts, e.lease_owner, e.next_attempt_at, ready.ordering_key, ready.sequence, ready.nth,
         ready.parked,
         -- Of what is compressed, only its text tells how large it is.
         coalesce(octet_length(e.payload_bytes),
                  case when pg_column_compression(e.payload) is null then pg_column_size(e.payload)
                       else octet_length(e.payload::text) end) as size
  from ready
  -- The very version that was seen: what has changed since then may not be what its followers wait for.
  join {outbox} e on e.ctid = ready.place and e.xmin = ready.version
  order by ready.turn, ready.sequence
  limit $1
  for update of e skip locked
), fits as materialized (
  -- As many as fit, and at least one: of each key its first ones, as they stand in that order.
  select place, attempts, lease_owner, next_attempt_at, ordering_key, sequence, nth, parked
  from (select *, sum(size) over (rows unbounded preceding) - size as before from locked) summed
  where before < $13::bigint
), due as materialized (
  -- Of each run those before which none is missing.
  select place, parked, attempts, lease_owner
  from (select *, row_number() over (partition by ordering_key order by sequence) as now_nth from fits) counted
  where ordering_key is null or now_nth = nth
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
      'posthaste-dead-reason',
        case when due.parked then 'parked' when e.lease_owner is null then 'exhausted' else 'crashed' end,
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
  where $12 is not null and (due.parked or due.attempts >= $4) and not e.headers ? 'posthaste-dead-letter-of'
  order by e.sequence
), crashed as (
  -- The attempt of whoever had it before, and is gone or came too late.
  insert into {outbox:attempts} (event_id, epoch, number, claimed_at, ending, relay, relay_name)
  select e.id, e.lease_epoch, e.attempts, e.updated_at, 'crashed', due.lease_owner,
         (select r.name from {outbox:relay} r where r.owner = due.lease_owner)
  from due join {outbox} e on e.ctid = due.place
  where due.lease_owner is not null
  on conflict do nothing
), taken as (
  update {outbox} e
  set status      = case when e.attempts < $4::integer and not due.parked then 'processing' else 'dead' end,
      attempts    = case when e.attempts < $4 and not due.parked then e.attempts + 1 else e.attempts end,
      lease_owner = case when e.attempts < $4 and not due.parked then $3::uuid end,
      lease_until = case when e.attempts < $4 and not due.parked
                      then clock_timestamp() + make_interval(secs => $2::float8) end,
      lease_epoch = least(e.lease_epoch, 9223372036854775806) + 1,
      dead_at     = case when e.attempts < $4 and not due.parked then null else clock_timestamp() end,
      dead_reason = case
                      when due.parked then 'parked'
                      when e.attempts < $4 then null
                      when e.lease_owner is null then 'exhausted'
                      else 'crashed'
                    end,
      updated_at  = clock_timestamp()
  from due
  where e.ctid = due.place
  returning
    e.id, e.sequence, e.namespace, e.topic, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type,
    e.ordering_key, e.dedupe_key, e.headers, e.content_type, e.payload, e.payload_bytes, e.traceparent,
    e.tracestate, e.attempts, e.created_at, e.next_attempt_at, e.lease_epoch, e.dead_reason, now() as claimed_at,
    e.redeliveries
)
select taken.*, looked.*
from taken
full join (
  select looked_at, is_full, waiting, last.next_attempt_at as last_at, last.sequence as last_sequence
  from (select count(*) as looked_at from seen) seen_all
  -- What is locked and yet not due had its place among those that may be locked.
  cross join (
    select count(*) >= $1 or count(*) > (select count(*) from fits) as is_full from locked
  ) locked_all
  cross join (select array_agg(ordering_key) as waiting from runs where is_leased) runs_that_wait
  left join lateral (
    select next_attempt_at, sequence from fits where is_full
    union all
    select next_attempt_at, sequence from seen where not is_full
    order by next_attempt_at desc, sequence desc
    limit 1
  ) last on true
) looked on false
