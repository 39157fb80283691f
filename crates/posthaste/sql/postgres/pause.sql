-- pause: leave a destination, or the outbox, in peace; write it down. $1 destination, $2 actor, $3 why, $4 why as told.
with paused as (
  insert into {outbox:pauses} (destination, actor, why)
  values ($1::text, $2::text, $3::text)
  on conflict do nothing
  returning destination
), audit as (
  insert into {outbox:audit} (actor, act, event_id, topic, why)
  select $2, 'pause', '00000000-0000-0000-0000-000000000000', '', $4::text from paused
)
select destination from paused
