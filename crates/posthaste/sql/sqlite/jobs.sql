-- jobs: redeliveries, those that are not over first, then the latest. ?1 limit.
select id, created_at, updated_at, ended_at, total, redelivered, rate, state, actor, why, filter
from {outbox:jobs}
order by ended_at is not null, created_at desc, rowid desc
limit ?1
