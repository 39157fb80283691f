-- discard: give events up for good. Leased events are left to their relay. ?1 now, ?2 ids.
update {outbox}
set status = 'dead', dead_at = coalesce(dead_at, ?1), dead_reason = 'discarded', updated_at = ?1
where id in (select value from json_each(?2)) and delivered_at is null and lease_owner is null
  and dead_reason is not 'discarded'
returning id, topic
