-- resume: end a pause; write it down. $1 destination, $2 actor, $3 why as told.
with resumed as (
  delete from {outbox:pauses} where destination = $1::text
  returning destination
), audit as (
  insert into {outbox:audit} (actor, act, event_id, topic, why)
  select $2::text, 'resume', '00000000-0000-0000-0000-000000000000', '', $3::text from resumed
)
select destination from resumed
