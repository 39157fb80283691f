-- deliver_delete: end leases of delivered events by deleting the events. $1 owners, $2 ids, $3 epochs.
delete from {outbox} e
using unnest($1::uuid[], $2::uuid[], $3::bigint[]) as s (owner, id, epoch)
where e.id = s.id and e.lease_owner = s.owner and e.lease_epoch = s.epoch
returning e.id, e.lease_epoch
