-- blocking: ordering keys of events that are dead or wait for their time. ?1 now, ?2 how many to look at.
select ordering_key
from (
  select ordering_key, dead_reason
  from {outbox} indexed by {name:dead}
  where dead_at is not null
  order by dead_at desc, sequence desc
  limit ?2
)
where ordering_key is not null and dead_reason <> 'discarded'
union
select ordering_key
from (
  select ordering_key
  from {outbox} indexed by {name:due}
  where delivered_at is null and dead_at is null and next_attempt_at > ?1
  order by next_attempt_at, sequence
  limit ?2
)
where ordering_key is not null
