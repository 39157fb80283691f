-- reach_oldest: where browse_oldest ended, if it looked at as many events as it may.
-- ?1 how many, ?2 statuses, ?3 and ?4 the place that it looked from.
select place_at, place
from (
  select * from (
    select sequence as place, next_attempt_at as place_at from {outbox} indexed by {name:due}
    where (?2 is null or 'pending' in (select value from json_each(?2))
           or 'processing' in (select value from json_each(?2)))
      and delivered_at is null and dead_at is null and (next_attempt_at, sequence) > (?3, ?4)
    order by next_attempt_at, sequence
    limit ?1
  )
  union all
  select * from (
    select sequence, delivered_at from {outbox} indexed by {name:delivered}
    where (?2 is null or 'delivered' in (select value from json_each(?2)))
      and delivered_at is not null and (delivered_at, sequence) > (?3, ?4)
    order by delivered_at, sequence
    limit ?1
  )
  union all
  select * from (
    select sequence, dead_at from {outbox} indexed by {name:dead}
    where (?2 is null or 'dead' in (select value from json_each(?2)))
      and dead_at is not null and (dead_at, sequence) > (?3, ?4)
    order by dead_at, sequence
    limit ?1
  )
)
order by place_at, place
limit 1 offset ?1 - 1
