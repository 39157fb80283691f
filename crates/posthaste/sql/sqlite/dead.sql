-- dead: what a letter tells of a dead event. ?1 id.
select headers, topic, dead_reason, last_error, attempts, created_at from {outbox} where id = ?1
