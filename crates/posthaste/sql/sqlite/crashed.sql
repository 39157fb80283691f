-- crashed: write down the attempts of owners that are gone or came too late. ?1 now, ?2 sequences,
-- ?3 owners that are gone.
insert into {outbox:attempts} (event_id, epoch, number, claimed_at, ended_at, ending, relay)
select id, lease_epoch, attempts, updated_at, ?1, 'crashed', lease_owner
from {outbox}
where sequence in (select value from json_each(?2)) and delivered_at is null and dead_at is null
  and (lease_until < ?1 or lease_owner in (select value from json_each(?3)))
on conflict do nothing
