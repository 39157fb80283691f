-- job: one redelivery, and how far it got. ?1 id.
select id, created_at, updated_at, ended_at, total, redelivered, rate, state, actor, why, filter,
       spent_at, cursor_at, cursor_sequence
from {outbox:jobs}
where id = ?1
