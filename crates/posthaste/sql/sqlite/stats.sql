-- stats: the outbox in numbers. ?1 now, ?2 stuck is what was claimed before this, ?3 how many live and dead
-- events to count.
select
  count(*) filter (where status = 'pending') as pending,
  count(*) filter (where status = 'processing') as processing,
  count(*) filter (where status = 'processing' and updated_at < ?2) as stuck,
  min(next_attempt_at) filter (where status = 'pending' and next_attempt_at <= ?1) as oldest_pending,
  (select count(*)
   from (select 1 from {outbox} indexed by {name:dead} where dead_at is not null limit ?3)) as dead,
  count(*) as looked,
  (select seq from sqlite_sequence where name = {literal} collate nocase) as enqueued
from (
  select status, updated_at, next_attempt_at
  from {outbox} indexed by {name:due}
  where delivered_at is null and dead_at is null
  order by next_attempt_at, sequence
  limit ?3
)
