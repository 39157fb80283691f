-- claim_keyed: lease due events, oldest first, those of one key only in sequence.
-- $1 to $11 as in claim, $12 how many due events to look at, $13 block, park or skip.
--
-- A key's event may go if every live event before it in the key goes with it. That is looked at
-- twice: before locking, so that blocked keys do not fill the batch (barrier), and after it, as
-- another relay may have locked some of them (gap).
with seen as materialized (
  select ctid as place, next_attempt_at, sequence, ordering_key
  from {outbox}
  where delivered_at is null and dead_at is null
    and next_attempt_at <= now()
    and (next_attempt_at, sequence) > ($9::timestamptz, $10::bigint)
    and ($5::text is null or namespace = $5)
    and ($6::text[] is null or topic = any ($6))
    and ($7::uuid is null or tenant_id = $7)
    and topic <> all ($8::text[])
  order by next_attempt_at, sequence
  limit $12
), keys as materialized (
  select ordering_key, max(sequence) as last from seen where ordering_key is not null group by ordering_key
), barriers as materialized (
  select keys.ordering_key, barrier.sequence, barrier.is_dead
  from keys
  cross join lateral (
    select e.sequence, e.dead_at is not null as is_dead
    from {outbox} e
    where e.ordering_key = keys.ordering_key and e.sequence <= keys.last and e.delivered_at is null
      and case
            when e.dead_at is not null then $13::text <> 'skip' and e.dead_reason <> 'discarded'
            else e.next_attempt_at > now()
              or (e.lease_owner is not null and e.lease_until >= now() and e.lease_owner <> all ($11::uuid[]))
          end
    order by e.sequence
    limit 1
  ) barrier
), locked as materialized (
  select e.ctid as place, e.id, e.ordering_key, e.sequence, barriers.is_dead is true as parked
  from seen
  join {outbox} e on e.ctid = seen.place
  left join barriers on barriers.ordering_key = seen.ordering_key and barriers.sequence < seen.sequence
  where (e.lease_owner is null or e.lease_until < now() or e.lease_owner = any ($11))
    and (barriers.sequence is null or ($13 = 'park' and barriers.is_dead))
  order by seen.next_attempt_at, seen.sequence
  limit $1
  for update of e skip locked
), gaps as materialized (
  select keys.ordering_key, gap.sequence
  from keys
  cross join lateral (
    select e.sequence
    from {outbox} e
    where e.ordering_key = keys.ordering_key and e.sequence <= keys.last
      and e.delivered_at is null and e.dead_at is null
      and e.id <> all (array (select id from locked))
    order by e.sequence
    limit 1
  ) gap
), due as materialized (
  select locked.place, locked.parked
  from locked
  left join gaps on gaps.ordering_key = locked.ordering_key and gaps.sequence < locked.sequence
  where gaps.sequence is null
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
    e.tracestate, e.attempts, e.created_at, e.next_attempt_at, e.lease_epoch, e.dead_reason, now() as claimed_at
)
select taken.*, looked.count as looked_at, last.next_attempt_at as last_at, last.sequence as last_sequence
from (select count(*) from seen) looked
left join (select * from seen order by next_attempt_at desc, sequence desc limit 1) last on true
left join taken on true
