-- deliver: end the lease of a delivered event, and keep the event. ?1 now, ?2 id, ?3 owner, ?4 epoch.
update {outbox}
set status = 'delivered', delivered_at = ?1, updated_at = ?1,
    lease_owner = null, lease_until = null, last_error = null
where id = ?2 and lease_owner = ?3 and lease_epoch = ?4
