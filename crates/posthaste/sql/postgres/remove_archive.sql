-- remove_archive: move those of these events to the archive that were delivered or died, without their history. $1 ids.
with moved as (
  delete from {outbox}
  where id = any ($1::uuid[]) and (delivered_at is not null or dead_at is not null)
  returning *
), attempts as (
  delete from {outbox:attempts} a using moved where a.event_id = moved.id
), kept as (
  insert into {outbox:archive} select * from moved
)
select count(*) from moved
