-- reach_oldest: where browse_oldest ended, if it looked at as many events as it may.
-- $1 how many, $2 statuses, $3 and $4 the place that it looked from.
select place, sequence
from (
    (select next_attempt_at as place, sequence from {outbox}
     where ($2::text[] is null or $2 && array['pending', 'processing'])
       and delivered_at is null and dead_at is null
       and (next_attempt_at, sequence) > ($3::timestamptz, $4::bigint)
     order by next_attempt_at, sequence
     limit $1)
    union all
    (select delivered_at as place, sequence from {outbox}
     where ($2 is null or 'delivered' = any ($2))
       and delivered_at is not null and (delivered_at, sequence) > ($3, $4)
     order by delivered_at, sequence
     limit $1)
    union all
    (select dead_at as place, sequence from {outbox}
     where ($2 is null or 'dead' = any ($2))
       and dead_at is not null and (dead_at, sequence) > ($3, $4)
     order by dead_at, sequence
     limit $1)
) arms
order by place, sequence
offset $1 - 1 limit 1
