-- start_job: begin to redeliver many events, unless there is a job of this id; write it down.
-- $1 id, $2 total, $3 rate, $4 actor, $5 why, $6 filter, $7 saved up already, in seconds, $8 why as told.
with job as (
  insert into {outbox:jobs} (id, total, rate, actor, why, filter, spent_at)
  values ($1::uuid, $2::bigint, $3::integer, $4::text, $5::text, $6::text,
          clock_timestamp() - make_interval(secs => $7::float8))
  on conflict (id) do nothing
  returning id, created_at, updated_at, ended_at, total, redelivered, rate, state, actor, why, filter
), audit as (
  insert into {outbox:audit} (actor, act, event_id, topic, why)
  select $4, 'start job', '00000000-0000-0000-0000-000000000000', '', $8::text from job
)
select * from job
