-- clean_archive: move what is past its retention to the archive, without its history. The parameters are those of clean.
with delivered as materialized (
  select ctid as place from {outbox}
  where delivered_at is not null and delivered_at < now() - make_interval(secs => $1::float8)
  order by delivered_at, sequence
  limit $3
  for update skip locked
), dead as materialized (
  select ctid as place from {outbox}
  where dead_at is not null and dead_at < now() - make_interval(secs => $2::float8)
  order by dead_at, sequence
  limit $3
  for update skip locked
), moved as (
  delete from {outbox} e
  using (select place from delivered union all select place from dead limit $3) old
  where e.ctid = old.place
  returning e.*
), attempts as (
  -- What was delivered at its first claim has none.
  delete from {outbox:attempts} a
  where a.event_id = any (array(select id from moved where lease_epoch > 1 or dead_at is not null))
), kept as (
  insert into {outbox:archive} select * from moved
)
select count(*) from moved
