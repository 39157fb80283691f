-- leases: how many each owner holds, and when it claimed the oldest. ?1 how many live events to look at.
select lease_owner, count(*), min(updated_at)
from (
  select lease_owner, updated_at
  from {outbox} indexed by {name:due}
  where delivered_at is null and dead_at is null
  order by next_attempt_at, sequence
  limit ?1
)
where lease_owner is not null
group by lease_owner
