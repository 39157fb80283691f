-- extend: prolong a lease. ?1 until when, ?2 id, ?3 owner, ?4 epoch.
-- updated_at stays what it was at the claim, so that what has been leased for long is seen as stuck.
update {outbox}
set lease_until = ?1
where id = ?2 and lease_owner = ?3 and lease_epoch = ?4
