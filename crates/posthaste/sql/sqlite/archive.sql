-- archive: copy events to the archive. ?1 sequences.
insert into {outbox:archive}
select * from {outbox} where sequence in (select value from json_each(?1))
