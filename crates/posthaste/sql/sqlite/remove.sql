-- remove: delete events. ?1 sequences.
delete from {outbox} where sequence in (select value from json_each(?1))
