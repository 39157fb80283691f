-- register: be known as a relay for as long as this session lives. $1 owner, $2 name.
insert into {outbox:relay} (owner, name)
select $1::uuid, $2::text
where pg_try_advisory_lock(hashtextextended($1::text, 0))
