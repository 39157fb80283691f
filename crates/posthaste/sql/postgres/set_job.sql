-- set_job: pause, resume or cancel a redelivery that is not over; write it down.
-- $1 id, $2 state, $3 actor, $4 act, $5 why as told.
with changed as (
  update {outbox:jobs}
  set state = $2::text, updated_at = clock_timestamp(),
      ended_at = case when $2 in ('done', 'cancelled') then clock_timestamp() end
  where id = $1::uuid and ended_at is null and state <> $2
  returning id, created_at, updated_at, ended_at, total, redelivered, rate, state, actor, why, filter
), audit as (
  insert into {outbox:audit} (actor, act, event_id, topic, why)
  select $3::text, $4::text, '00000000-0000-0000-0000-000000000000', '', $5::text from changed
)
select * from changed
union all
select id, created_at, updated_at, ended_at, total, redelivered, rate, state, actor, why, filter
from {outbox:jobs}
where id = $1 and not exists (select from changed)
