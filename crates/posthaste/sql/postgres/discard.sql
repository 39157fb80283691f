-- discard: give events up for good; write it down. Leased events are left to their relay.
-- $1 ids, $2 actor, $3 why.
with discarded as (
  update {outbox}
  set status = 'dead', dead_at = coalesce(dead_at, clock_timestamp()), dead_reason = 'discarded',
      updated_at = clock_timestamp()
  where id = any ($1::uuid[]) and delivered_at is null and lease_owner is null
    and dead_reason is distinct from 'discarded'
  returning id, topic
), audit as (
  insert into {outbox:audit} (actor, act, event_id, topic, why)
  select $2::text, 'discard', id, topic, $3::text from discarded
)
select id from discarded
