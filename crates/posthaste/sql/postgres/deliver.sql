-- deliver: end leases of delivered events, and keep the events. $1 owners, $2 ids, $3 epochs.
update {outbox} e
set status = 'delivered', delivered_at = clock_timestamp(), updated_at = clock_timestamp(),
    lease_owner = null, lease_until = null, last_error = null
from unnest($1::uuid[], $2::uuid[], $3::bigint[]) as s (owner, id, epoch)
where e.id = s.id and e.lease_owner = s.owner and e.lease_epoch = s.epoch
returning e.id, e.lease_epoch
