-- deliver_again: as deliver, of events that were claimed before: their history tells of it.
-- $1 owners, $2 ids, $3 epochs, $4 how long it took in seconds, $5 where to, $6 the relay's name.
with delivered as (
  update {outbox} e
  set status = 'delivered', delivered_at = clock_timestamp(), updated_at = clock_timestamp(),
      lease_owner = null, lease_until = null, last_error = null
  from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::float8[], $5::text[])
    as s (owner, id, epoch, took, destination)
  where e.id = s.id and e.lease_owner = s.owner and e.lease_epoch = s.epoch
  returning e.id, e.lease_epoch, s.took, s.destination
), attempts as (
  -- The row as it was before: leased, and last changed when it was claimed.
  insert into {outbox:attempts}
    (event_id, epoch, number, claimed_at, took, ending, relay, relay_name, destination)
  select e.id, e.lease_epoch, e.attempts, e.updated_at, delivered.took, 'delivered', e.lease_owner, $6::text,
         delivered.destination
  from delivered join {outbox} e on e.id = delivered.id
  on conflict do nothing
)
select id, lease_epoch from delivered
