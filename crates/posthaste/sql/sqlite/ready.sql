-- ready: which due events can be leased, those of one key only in sequence.
-- ?1 to ?9 as in due, ?10 how many due events to look at, ?11 max attempts, ?12 block, park or skip, ?13 only these keys,
-- as a JSON array, from the first event of each on: then ?2 and ?3 say nothing, and ?10 is for each of them.
--
-- Of each key, what goes is a run from its first live event on, up to its barrier: the first event
-- that cannot go now, as it is leased, due later, not among what was seen, or dead and to block.
-- Gives how many events it looked at and the last of them, and the keys in which some wait for one that is leased, as a
-- JSON array, beside each that goes.
with seen as materialized (
  select * from (
    select sequence, next_attempt_at, ordering_key,
           lease_owner is not null as was_leased, octet_length(coalesce(payload, payload_bytes)) as size
    from {outbox} indexed by {name:due}
    where ?13 is null
      and delivered_at is null and dead_at is null
      and next_attempt_at <= ?1
      and (next_attempt_at, sequence) > (?2, ?3)
      and (lease_owner is null or lease_until < ?1 or lease_owner in (select value from json_each(?8)))
      and (?4 is null or namespace = ?4)
      and (?5 is null or topic in (select value from json_each(?5)))
      and (?6 is null or tenant_id = ?6)
      and topic not in (select value from json_each(?7))
    order by next_attempt_at, sequence
    limit ?10
  )
  union all
  select e.sequence, e.next_attempt_at, e.ordering_key,
         e.lease_owner is not null, octet_length(coalesce(e.payload, e.payload_bytes))
  from (select distinct value as key from json_each(?13)) wanted
  -- An array and cross joins, for none but this order, whatever the statistics say.
  cross join json_each((
    select json_group_array(sequence)
    from (
      select sequence
      from {outbox} indexed by {name:keyed}
      where ordering_key = wanted.key
        and delivered_at is null and dead_at is null
        and next_attempt_at <= ?1
        and (lease_owner is null or lease_until < ?1 or lease_owner in (select value from json_each(?8)))
        and (?4 is null or namespace = ?4)
        and (?5 is null or topic in (select value from json_each(?5)))
        and (?6 is null or tenant_id = ?6)
        and topic not in (select value from json_each(?7))
      order by sequence
      limit ?10
    )
  )) first
  cross join {outbox} e on e.sequence = first.value
), free as materialized (
  -- A head that was retried is due later than its followers, and yet its turn comes first.
  select sequence, next_attempt_at, ordering_key, was_leased, size,
         max(next_attempt_at) over (partition by ordering_key order by sequence) as turn
  from seen
  where ordering_key is not null
), keys as materialized (
  select ordering_key,
         (select e.sequence
          from {outbox} e indexed by {name:keyed}
          where e.ordering_key = k.ordering_key and e.sequence <= k.last and e.delivered_at is null
            and case
                  when e.dead_at is not null then ?12 = 'block' and e.dead_reason <> 'discarded'
                  -- One that has no attempt left dies of this claim, before those that follow it go.
                  when e.sequence in (select sequence from free) then ?12 = 'block' and e.attempts >= ?11
                  else true
                end
          order by e.sequence
          limit 1) as barrier,
         (select e.sequence
          from {outbox} e indexed by {name:keyed}
          where ?12 = 'park'
            and e.ordering_key = k.ordering_key and e.sequence <= k.last and e.delivered_at is null
            and case when e.dead_at is not null then e.dead_reason <> 'discarded' else e.attempts >= ?11 end
          order by e.sequence
          limit 1) as death
  from (select ordering_key, max(sequence) as last from free group by ordering_key) k
), ready as (
  select sequence, next_attempt_at, next_attempt_at as turn, false as parked, was_leased, size
  from seen
  where ordering_key is null
  union all
  select free.sequence, free.next_attempt_at, free.turn, keys.death is not null and free.sequence > keys.death,
         free.was_leased, free.size
  from free
  join keys on keys.ordering_key = free.ordering_key
  where keys.barrier is null or free.sequence <= keys.barrier
), going as (
  select sequence, next_attempt_at, parked, was_leased, size from ready order by turn, sequence limit ?9
)
select looked.looked_at, last.next_attempt_at as last_at, last.sequence as last_sequence,
       going.sequence, going.next_attempt_at, going.parked, going.was_leased, going.size,
       (select json_group_array(keys.ordering_key)
        from keys cross join {outbox} e on e.sequence = keys.barrier
        -- One that was seen had its lease, and dies of this claim.
        where e.lease_owner is not null and keys.barrier not in (select sequence from free)) as waiting
from (select count(*) as looked_at from seen) looked
left join (select * from seen order by next_attempt_at desc, sequence desc limit 1) last on true
left join going on true
