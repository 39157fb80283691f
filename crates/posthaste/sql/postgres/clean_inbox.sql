-- clean_inbox: forget what was handled long ago. $1 retention in seconds, $2 limit, both as text.
with old as materialized (
  select ctid as place from {outbox}
  where handled_at < now() - make_interval(secs => $1::text::float8)
  order by handled_at
  limit $2::text::bigint
  for update skip locked
)
delete from {outbox} e using old where e.ctid = old.place
