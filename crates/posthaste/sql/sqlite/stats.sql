-- stats: the outbox in numbers. Reads live and dead events only. ?1 now, ?2 stuck is what was claimed before this.
select
  count(*) filter (where status = 'pending') as pending,
  count(*) filter (where status = 'processing') as processing,
  count(*) filter (where status = 'processing' and updated_at < ?2) as stuck,
  min(next_attempt_at) filter (where status = 'pending' and next_attempt_at <= ?1) as oldest_pending,
  (select count(*) from {outbox} indexed by {name:dead} where dead_at is not null) as dead
from {outbox} indexed by {name:due}
where delivered_at is null and dead_at is null
