-- settle: end the lease of an event that was not delivered. ?1 now, ?2 id, ?3 owner, ?4 epoch,
-- ?5 verdict (retry, dead, release, postpone), ?6 delay in microseconds, ?7 dead reason, ?8 error, ?9 its kind.
update {outbox}
set status          = case ?5 when 'dead' then 'dead' else 'pending' end,
    attempts        = case when ?5 in ('release', 'postpone') then attempts - 1 else attempts end,
    next_attempt_at = case when ?5 in ('retry', 'postpone') then ?1 + ?6 else next_attempt_at end,
    dead_at         = case ?5 when 'dead' then ?1 end,
    dead_reason     = ?7,
    last_error      = coalesce(?8, last_error),
    fingerprint     = coalesce(?9, fingerprint),
    lease_owner     = null,
    lease_until     = null,
    updated_at      = ?1
where id = ?2 and lease_owner = ?3 and lease_epoch = ?4
returning sequence
