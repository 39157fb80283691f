-- clean: delete what is past its retention. $1 retention, $2 dead retention or null, in seconds, $3 limit.
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
)
delete from {outbox} e
using (select place from delivered union all select place from dead limit $3) old
where e.ctid = old.place
