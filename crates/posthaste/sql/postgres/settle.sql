-- settle: end leases of events that were not delivered.
-- $1 owners, $2 ids, $3 epochs, $4 verdicts (retry, dead, release, postpone), $5 delays in seconds,
-- $6 dead reasons, $7 errors.
update {outbox} e
set status          = case s.verdict when 'dead' then 'dead' else 'pending' end,
    attempts        = case when s.verdict in ('release', 'postpone') then e.attempts - 1 else e.attempts end,
    next_attempt_at = case when s.verdict in ('retry', 'postpone')
                        then clock_timestamp() + make_interval(secs => s.delay)
                        else e.next_attempt_at
                      end,
    dead_at         = case s.verdict when 'dead' then clock_timestamp() end,
    dead_reason     = s.reason,
    last_error      = coalesce(s.error, e.last_error),
    lease_owner     = null,
    lease_until     = null,
    updated_at      = clock_timestamp()
from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::float8[], $6::text[], $7::text[])
  as s (owner, id, epoch, verdict, delay, reason, error)
where e.id = s.id and e.lease_owner = s.owner and e.lease_epoch = s.epoch
returning e.id, e.lease_epoch
