-- deliver_delete: end the lease of a delivered event by deleting the event. ?1 id, ?2 owner, ?3 epoch.
delete from {outbox}
where id = ?1 and lease_owner = ?2 and lease_epoch = ?3
