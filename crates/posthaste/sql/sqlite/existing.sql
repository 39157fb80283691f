-- existing: the event that a message collided with. ?1 id, ?2 namespace, ?3 topic, ?4 dedupe key.
select id, sequence from {outbox} where id = ?1
union all
select id, sequence from {outbox} where namespace = ?2 and topic = ?3 and dedupe_key = ?4
limit 1
