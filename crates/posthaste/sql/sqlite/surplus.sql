-- surplus: remove attempts of an event beyond those that are kept. ?1 id, ?2 how many are kept.
delete from {outbox:attempts}
where event_id = ?1
  and epoch <= (select epoch from {outbox:attempts} where event_id = ?1 order by epoch desc limit 1 offset ?2)
