-- relays: who works here. $1 the key of the leader's lock, $2 how many live events to look for leases in.
-- A relay is there while its session holds the lock of its owner id; nobody is disturbed by looking.
with locks as materialized (
  select pid, (classid::bigint << 32) | objid::bigint as key
  from pg_locks
  where locktype = 'advisory' and objsubid = 1 and granted
    and database = (select oid from pg_database where datname = current_database())
), leases as materialized (
  select lease_owner, count(*) as leases, min(updated_at) as oldest_lease
  from (
    select lease_owner, updated_at
    from {outbox}
    where delivered_at is null and dead_at is null
    order by next_attempt_at, sequence
    limit $2
  ) live
  where lease_owner is not null
  group by lease_owner
)
select
  coalesce(r.owner, leases.lease_owner) as owner, r.name, r.started_at as since,
  coalesce(leases.leases, 0) as leases, leases.oldest_lease,
  alive.pid is not null as alive,
  exists (select from locks where locks.pid = alive.pid and locks.key = $1::bigint) as leads
from {outbox:relay} r
full join leases on leases.lease_owner = r.owner
left join lateral (
  select pid from locks
  where key = hashtextextended(coalesce(r.owner, leases.lease_owner)::text, 0)
  limit 1
) alive on true
order by alive.pid is null, r.started_at, owner
