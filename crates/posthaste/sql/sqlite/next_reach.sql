-- next_reach: how many events next looked at, and the last of them.
-- ?1 how many it may, ?2 statuses, ?3 and ?4 the job's place, ?5 when it began.
with arms as (
  select * from (
    select sequence as place, dead_at as place_at from {outbox} indexed by {name:dead}
    where 'dead' in (select value from json_each(?2))
      and dead_at is not null and dead_at <= ?5 and (dead_at, sequence) > (?3, ?4)
    order by dead_at, sequence
    limit ?1
  )
  union all
  select * from (
    select sequence, delivered_at from {outbox} indexed by {name:delivered}
    where 'delivered' in (select value from json_each(?2))
      and delivered_at is not null and delivered_at <= ?5 and (delivered_at, sequence) > (?3, ?4)
    order by delivered_at, sequence
    limit ?1
  )
), seen as (
  select place, place_at from arms order by place_at, place limit ?1
)
select place_at, place, (select count(*) from seen) from seen order by place_at desc, place desc limit 1
