-- ended: those of these events that were delivered or died. ?1 ids.
select sequence from {outbox}
where id in (select value from json_each(?1)) and (delivered_at is not null or dead_at is not null)
