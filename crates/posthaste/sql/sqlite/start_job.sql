-- start_job: begin to redeliver many events, unless there is a job of this id.
-- ?1 id, ?2 now, ?3 total, ?4 rate, ?5 actor, ?6 why, ?7 filter, ?8 until when its rate is used up.
insert into {outbox:jobs} (id, created_at, updated_at, total, rate, actor, why, filter, spent_at)
values (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (id) do nothing
