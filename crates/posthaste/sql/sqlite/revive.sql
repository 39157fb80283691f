-- revive: bring dead events back. ?1 now, ?2 ids.
update {outbox}
set status = 'pending', attempts = 0, next_attempt_at = ?1, updated_at = ?1, dead_at = null, dead_reason = null,
    redeliveries = coalesce(redeliveries, 0) + 1
where id in (select value from json_each(?2)) and dead_at is not null
returning id, topic
