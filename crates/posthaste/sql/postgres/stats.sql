-- stats: the outbox in numbers. Reads live and dead events only.
select live.*, (select count(*) from {outbox} where dead_at is not null) as dead
from (
  select
    count(*) filter (where status = 'pending') as pending,
    count(*) filter (where status = 'processing') as processing,
    count(*) filter (where status = 'processing' and updated_at < now() - interval '5 minutes') as stuck,
    coalesce(extract(epoch from
      now() - min(next_attempt_at) filter (where status = 'pending' and next_attempt_at <= now())), 0)::float8
      as oldest_pending
  from {outbox}
  where delivered_at is null and dead_at is null
) live
