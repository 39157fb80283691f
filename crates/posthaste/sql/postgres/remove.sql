-- remove: delete those of these events that were delivered or died, with their history. $1 ids.
with removed as (
  delete from {outbox}
  where id = any ($1::uuid[]) and (delivered_at is not null or dead_at is not null)
  returning id
), attempts as (
  delete from {outbox:attempts} a using removed where a.event_id = removed.id
)
select count(*) from removed
