-- groups: dead events by kind of error and reason, the largest groups first.
-- $1 namespace, $2 topics, $3 tenant, $4 statuses, $5 after this sequence, $6 ids, $7 topic (like),
-- $8 older than and $9 not older than, in seconds, $10 text in the last error, $11 reason of death,
-- $12 event type, $13 aggregate type, $14 aggregate id, $15 ended for, in seconds, $16 kind of error,
-- $17 limit, $18 how many topics to tell of each group, $19 how many of the latest dead events to look at.
with dead as (
  select coalesce(fingerprint, '') as fingerprint, dead_reason collate "C" as dead_reason, topic,
         count(*) as events, min(dead_at) as oldest, max(dead_at) as newest
  from (
    select id, sequence, created_at, delivered_at, dead_at, tenant_id, status, namespace, topic, aggregate_type,
           aggregate_id, event_type, last_error, fingerprint, dead_reason
    from {outbox}
    where dead_at is not null
    order by dead_at desc, sequence desc
    limit $19
  ) latest
  where ($1::text is null or namespace = $1)
    and ($2::text[] is null or topic = any ($2))
    and ($3::uuid is null or tenant_id = $3)
    and ($4::text[] is null or status = any ($4))
    -- What the statuses imply, in the words of the partial indexes.
    and ($4 is null
         or ($4 && array['pending', 'processing'] and delivered_at is null and dead_at is null)
         or ('dead' = any ($4) and dead_at is not null)
         or ('delivered' = any ($4) and delivered_at is not null))
    and ($5::bigint is null or sequence > $5)
    and ($6::uuid[] is null or id = any ($6))
    and ($7::text is null or topic like $7)
    and ($8::float8 is null or created_at < now() - make_interval(secs => $8))
    and ($9::float8 is null or created_at >= now() - make_interval(secs => $9))
    and ($10::text is null or strpos(last_error, $10) > 0)
    and ($11::text is null or dead_reason = $11)
    and ($12::text is null or event_type = $12)
    and ($13::text is null or aggregate_type = $13)
    and ($14::text is null or aggregate_id = $14)
    and ($15::float8 is null or coalesce(delivered_at, dead_at) < now() - make_interval(secs => $15))
    and ($16::text is null or (dead_at is not null and coalesce(fingerprint, '') = $16))
    and dead_at is not null
  group by 1, 2, 3
), groups as (
  select fingerprint, dead_reason, sum(events)::bigint as events, min(oldest) as oldest, max(newest) as newest,
         (array_agg(topic order by topic))[1:$18::integer] as topics
  from dead
  group by fingerprint, dead_reason
  order by events desc, newest desc
  limit $17
)
select groups.*, sample.id, sample.last_error
from groups
cross join lateral (
  select e.id, e.last_error
  from {outbox} e
  where e.dead_at is not null and e.dead_at = groups.newest
    and coalesce(e.fingerprint, '') = groups.fingerprint and e.dead_reason = groups.dead_reason
  order by e.sequence desc
  limit 1
) sample
order by groups.events desc, groups.newest desc
