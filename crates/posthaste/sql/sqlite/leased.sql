-- leased: who holds leases.
select distinct lease_owner
from {outbox} indexed by {name:due}
where delivered_at is null and dead_at is null and lease_owner is not null
