-- count_some: how many events list_some would find, without a limit.
-- ?1 namespace, ?2 topics, ?3 tenant, ?4 after this sequence, ?5 topic (glob), ?6 enqueued before and
-- ?7 enqueued since, ?8 text in the last error, ?9 reason of death, ?10 event type, ?11 aggregate type,
-- ?12 aggregate id, ?13 ended before, ?14 kind of error, ?15 ids, ?16 statuses.
with some as (
  -- Each arm reads its index, or nothing at all.
  select sequence as place from {outbox} where id in (select value from json_each(?15))
  union all
  select sequence from {outbox} indexed by {name:due}
  where ?15 is null and delivered_at is null and dead_at is null
    and ('pending' in (select value from json_each(?16)) or 'processing' in (select value from json_each(?16)))
  union all
  select sequence from {outbox} indexed by {name:delivered}
  where ?15 is null and delivered_at is not null and 'delivered' in (select value from json_each(?16))
  union all
  select sequence from {outbox} indexed by {name:dead}
  where ?15 is null and dead_at is not null and 'dead' in (select value from json_each(?16))
)
select count(*)
from some cross join {outbox} on sequence = place
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
  and (?16 is null or status in (select value from json_each(?16)))
