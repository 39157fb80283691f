-- forget: owners that are gone and hold no lease any more. $1 owners.
delete from {outbox:relay} r
where owner = any ($1::uuid[])
  and not exists (
    select from {outbox} e where e.delivered_at is null and e.dead_at is null and e.lease_owner = r.owner
  )
