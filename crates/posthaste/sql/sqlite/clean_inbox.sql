-- clean_inbox: forget what was handled long ago. ?1 retention in seconds, ?2 limit, both as text.
-- Its clock counts milliseconds: what was handled in this one is as old as no retention asks.
delete from {outbox}
where rowid in (
  select rowid from {outbox}
  where handled_at <= {now} - cast(cast(?1 as real) * 1000000 as integer)
  order by handled_at
  limit cast(?2 as integer)
)
