-- job: one redelivery, and for how long it has been there. $1 id.
select id, created_at, updated_at, ended_at, total, redelivered, rate, state, actor, why, filter,
       extract(epoch from clock_timestamp() - created_at)::float8 as age
from {outbox:jobs}
where id = $1
