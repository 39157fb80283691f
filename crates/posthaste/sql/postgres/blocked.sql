-- blocked: ordering keys whose first event is dead or waits for its time, while others wait behind it.
-- $1 limit, $2 how many events to look at for such keys, $3 how far to count behind each.
with keys as (
  select ordering_key
  from (
    select ordering_key, dead_reason
    from {outbox}
    where dead_at is not null
    order by dead_at desc, sequence desc
    limit $2
  ) dead
  where ordering_key is not null and dead_reason <> 'discarded'
  union
  select ordering_key
  from (
    select ordering_key
    from {outbox}
    where delivered_at is null and dead_at is null and next_attempt_at > now()
    order by next_attempt_at, sequence
    limit $2
  ) waiting
  where ordering_key is not null
)
select head.*, behind.waiting
from keys
cross join lateral (
  select e.ordering_key, e.id, e.sequence, e.topic, e.status, e.dead_reason, e.attempts, e.last_error,
         e.updated_at, e.next_attempt_at, e.dead_at
  from {outbox} e
  where e.ordering_key = keys.ordering_key and e.delivered_at is null
    and e.dead_reason is distinct from 'discarded'
  order by e.sequence
  limit 1
) head
cross join lateral (
  select count(*) as waiting
  from (
    select from {outbox} e
    where e.ordering_key = keys.ordering_key and e.sequence > head.sequence
      and e.delivered_at is null and e.dead_at is null
    limit $3
  ) live
) behind
where (head.status = 'dead' or (head.status = 'pending' and head.next_attempt_at > now()))
  and behind.waiting > 0
order by behind.waiting desc, head.ordering_key
limit $1
