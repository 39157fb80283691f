-- attempt: write down how an attempt ended, while the event is still leased.
-- ?1 now, ?2 id, ?3 owner, ?4 epoch, ?5 how long it took in seconds, ?6 how it ended, ?7 error, ?8 the relay's
-- name, ?9 where to.
insert into {outbox:attempts}
  (event_id, epoch, number, claimed_at, ended_at, took, ending, error, relay, relay_name, destination)
select id, lease_epoch, attempts, updated_at, ?1, ?5, ?6, ?7, lease_owner, ?8, ?9
from {outbox}
where id = ?2 and lease_owner = ?3 and lease_epoch = ?4
on conflict do nothing
