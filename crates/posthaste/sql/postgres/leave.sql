-- leave: be gone at once. $1 owner.
with gone as (delete from {outbox:relay} where owner = $1::uuid)
select pg_advisory_unlock_all()
