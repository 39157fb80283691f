-- forget: remove the attempts of one event. ?1 id.
delete from {outbox:attempts} where event_id = ?1
