-- park: events that come after a dead one of their key die with it. ?1 now, ?2 sequences, ?3 owners that are gone.
update {outbox}
set status = 'dead', dead_at = ?1, dead_reason = 'parked', updated_at = ?1,
    lease_owner = null, lease_until = null, lease_epoch = max(min(lease_epoch, 9223372036854775806), 0) + 1
where sequence in (select value from json_each(?2))
  and delivered_at is null and dead_at is null
  and (lease_owner is null or lease_until < ?1 or lease_owner in (select value from json_each(?3)))
returning id, sequence, topic, tenant_id, attempts
