-- jobs: redeliveries, those that are not over first, then the latest. $1 limit.
select *
from (
  (select id, created_at, updated_at, ended_at, total, redelivered, rate, state, actor, why, filter
   from {outbox:jobs} where ended_at is null order by created_at desc limit $1)
  union all
  (select id, created_at, updated_at, ended_at, total, redelivered, rate, state, actor, why, filter
   from {outbox:jobs} where ended_at is not null order by created_at desc limit $1)
) known
order by ended_at is not null, created_at desc
limit $1
