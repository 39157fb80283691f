-- deliver_delete_again: as deliver_delete, of events that were claimed before: their history goes with them.
-- $1 owners, $2 ids, $3 epochs.
with delivered as (
  delete from {outbox} e
  using unnest($1::uuid[], $2::uuid[], $3::bigint[]) as s (owner, id, epoch)
  where e.id = s.id and e.lease_owner = s.owner and e.lease_epoch = s.epoch
  returning e.id, e.lease_epoch
), attempts as (
  delete from {outbox:attempts} a using delivered where a.event_id = delivered.id
)
select id, lease_epoch from delivered
