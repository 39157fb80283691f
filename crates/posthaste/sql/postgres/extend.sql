-- extend: prolong leases. $1 owners, $2 ids, $3 epochs, $4 lease in seconds from now.
-- updated_at stays what it was at the claim, so that what has been leased for long is seen as stuck. What somebody has
-- locked is left out: whoever waited for it would let all the others run out.
with free as materialized (
  select e.ctid as place
  from unnest($1::uuid[], $2::uuid[], $3::bigint[]) as s (owner, id, epoch)
  join {outbox} e on e.id = s.id and e.lease_owner = s.owner and e.lease_epoch = s.epoch
  for no key update of e skip locked
)
update {outbox} e
set lease_until = clock_timestamp() + make_interval(secs => $4::float8)
from free
where e.ctid = free.place
returning e.id, e.lease_epoch
