-- forget_some: remove the attempts of events that are about to be removed. ?1 sequences.
-- What was delivered at its first claim has none.
delete from {outbox:attempts}
where event_id in (
  select id from {outbox}
  where sequence in (select value from json_each(?1)) and (lease_epoch > 1 or dead_at is not null)
)
