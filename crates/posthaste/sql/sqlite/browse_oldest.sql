-- browse_oldest: a page of events by when they ended or are due, the oldest first.
-- ?1 namespace, ?2 topics, ?3 tenant, ?4 after this sequence, ?5 topic (glob), ?6 enqueued before and
-- ?7 enqueued since, ?8 text in the last error, ?9 reason of death, ?10 event type, ?11 aggregate type,
-- ?12 aggregate id, ?13 ended before, ?14 kind of error,
-- ?15 statuses, ?16 and ?17 the place to look from, ?18 how many events of each status to look at, ?19 limit.
with arms as (
  -- Each arm goes along its index, or reads nothing at all.
  select * from (
    select sequence as place, next_attempt_at as place_at from {outbox} indexed by {name:due}
    where (?15 is null or 'pending' in (select value from json_each(?15))
           or 'processing' in (select value from json_each(?15)))
      and delivered_at is null and dead_at is null and (next_attempt_at, sequence) > (?16, ?17)
    order by next_attempt_at, sequence
    limit ?18
  )
  union all
  select * from (
    select sequence, delivered_at from {outbox} indexed by {name:delivered}
    where (?15 is null or 'delivered' in (select value from json_each(?15)))
      and delivered_at is not null and (delivered_at, sequence) > (?16, ?17)
    order by delivered_at, sequence
    limit ?18
  )
  union all
  select * from (
    select sequence, dead_at from {outbox} indexed by {name:dead}
    where (?15 is null or 'dead' in (select value from json_each(?15)))
      and dead_at is not null and (dead_at, sequence) > (?16, ?17)
    order by dead_at, sequence
    limit ?18
  )
), seen as (
  select place, place_at from arms order by place_at, place limit ?18
)
select id, sequence, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
       content_type, traceparent, status, attempts, next_attempt_at, lease_owner, lease_until, lease_epoch,
       last_error, dead_reason, created_at, updated_at, delivered_at, dead_at
from seen cross join {outbox} on sequence = place
where (?1 is null or namespace = ?1)
  and (?2 is null or topic in (select value from json_each(?2)))
  and (?3 is null or tenant_id = ?3)
  and (?4 is null or sequence > ?4)
  and (?5 is null or topic glob ?5)
  and (?6 is null or created_at < ?6)
  and (?7 is null or created_at >= ?7)
  and (?8 is null or instr(last_error, ?8) > 0)
  and (?9 is null or dead_reason = ?9)
  and (?10 is null or event_type = ?10)
  and (?11 is null or aggregate_type = ?11)
  and (?12 is null or aggregate_id = ?12)
  and (?13 is null or coalesce(delivered_at, dead_at) < ?13)
  and (?14 is null or (dead_at is not null and coalesce(fingerprint, '') = ?14))
  and (?15 is null or status in (select value from json_each(?15)))
order by place_at, place
limit ?19
