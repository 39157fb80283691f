-- stats: the outbox in numbers. $1 how many live and dead events to count, $2 the table, $3 and $4 its indexes
-- of live and of dead events, as names. What was not counted is estimated by the caller.
select
  live.*,
  (select count(*) from (select from {outbox} where dead_at is not null limit $1) counted) as dead,
  (select reltuples::bigint from pg_class where oid = to_regclass($3::text)) as live_estimate,
  (select reltuples::bigint from pg_class where oid = to_regclass($4::text)) as dead_estimate,
  -- Not every user may know.
  has_sequence_privilege(pg_get_serial_sequence($2::text, 'sequence'), 'select') as may_know,
  (select case when has_sequence_privilege(s.oid, 'select') then pg_sequence_last_value(s.oid) end
   from pg_class s where s.oid = to_regclass(pg_get_serial_sequence($2, 'sequence'))) as enqueued
from (
  select
    count(*) as looked,
    count(*) filter (where status = 'pending') as pending,
    count(*) filter (where status = 'processing') as processing,
    count(*) filter (where status = 'processing' and updated_at < now() - interval '5 minutes') as stuck,
    coalesce(extract(epoch from
      now() - min(next_attempt_at) filter (where status = 'pending' and next_attempt_at <= now())), 0)::float8
      as oldest_pending
  from (
    select status, updated_at, next_attempt_at
    from {outbox}
    where delivered_at is null and dead_at is null
    order by next_attempt_at, sequence
    limit $1
  ) counted
) live
