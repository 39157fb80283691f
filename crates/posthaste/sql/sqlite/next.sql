-- next: which events a job is to redeliver next.
-- ?1 namespace, ?2 topics, ?3 tenant, ?4 after this sequence, ?5 topic (glob), ?6 enqueued before and
-- ?7 enqueued since, ?8 text in the last error, ?9 reason of death, ?10 event type, ?11 aggregate type,
-- ?12 aggregate id, ?13 ended before, ?14 kind of error,
-- ?15 statuses, ?16 and ?17 the job's place, ?18 when it began, ?19 how many events of each status to look at,
-- ?20 limit, ?21 whether what an operator gave up is meant, too. Events that ended since it began are none of
-- its own.
with arms as (
  select * from (
    select sequence as place, dead_at as place_at from {outbox} indexed by {name:dead}
    where 'dead' in (select value from json_each(?15))
      and dead_at is not null and dead_at <= ?18 and (dead_at, sequence) > (?16, ?17)
    order by dead_at, sequence
    limit ?19
  )
  union all
  select * from (
    select sequence, delivered_at from {outbox} indexed by {name:delivered}
    where 'delivered' in (select value from json_each(?15))
      and delivered_at is not null and delivered_at <= ?18 and (delivered_at, sequence) > (?16, ?17)
    order by delivered_at, sequence
    limit ?19
  )
), seen as (
  select place, place_at from arms order by place_at, place limit ?19
)
select id, place_at, place
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
  and (?21 or dead_reason is not 'discarded')
order by place_at, place
limit ?20
