-- extend: prolong leases. $1 owners, $2 ids, $3 epochs, $4 lease in seconds from now.
-- updated_at stays what it was at the claim, so that what has been leased for long is seen as stuck.
update {outbox} e
set lease_until = clock_timestamp() + make_interval(secs => $4::float8)
from unnest($1::uuid[], $2::uuid[], $3::bigint[]) as s (owner, id, epoch)
where e.id = s.id and e.lease_owner = s.owner and e.lease_epoch = s.epoch
returning e.id, e.lease_epoch
