-- clean: delete what is past its retention, with its history, and tell how many events that were.
-- $1 retention, $2 dead retention or null, in seconds, $3 limit.
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
), removed as (
  delete from {outbox} e
  using (select place from delivered union all select place from dead limit $3) old
  where e.ctid = old.place
  returning e.id, e.lease_epoch, e.dead_at
), attempts as (
  -- What was delivered at its first claim has none.
  delete from {outbox:attempts} a
  where a.event_id = any (array(select id from removed where lease_epoch > 1 or dead_at is not null))
)
select count(*) from removed
