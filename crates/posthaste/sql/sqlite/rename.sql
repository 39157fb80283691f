-- rename: give an event an id that can be named. ?1 sequence, ?2 id.
update {outbox} set id = ?2 where sequence = ?1
