-- take: lease events, if they can still be leased; what has no attempt left dies. Gives no more than what it
-- changed: SQLite keeps all that is to be returned in a table of its own first. Numbers that the table would
-- refuse are mended: one such row must not cost the others.
-- ?1 now, ?2 sequences, ?3 lease in microseconds, ?4 owner, ?5 max attempts, ?6 owners that are gone.
update {outbox}
set status      = case when attempts < ?5 then 'processing' else 'dead' end,
    attempts    = case when attempts < ?5 then max(attempts, 0) + 1 else min(attempts, 2147483647) end,
    lease_owner = case when attempts < ?5 then ?4 end,
    lease_until = case when attempts < ?5 then ?1 + ?3 end,
    lease_epoch = max(min(lease_epoch, 9223372036854775806), 0) + 1,
    dead_at     = case when attempts < ?5 then null else ?1 end,
    dead_reason = case when attempts < ?5 then null when lease_owner is null then 'exhausted' else 'crashed' end,
    updated_at  = ?1
where sequence in (select value from json_each(?2))
  and delivered_at is null and dead_at is null and next_attempt_at <= ?1
  and (lease_owner is null or lease_until < ?1 or lease_owner in (select value from json_each(?6)))
returning sequence, attempts, lease_epoch, dead_reason
