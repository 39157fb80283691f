-- groups: what tells dead events apart, in sequence.
-- ?1 namespace, ?2 topics, ?3 tenant, ?4 after this sequence, ?5 topic (glob), ?6 enqueued before and
-- ?7 enqueued since, ?8 text in the last error, ?9 reason of death, ?10 event type, ?11 aggregate type,
-- ?12 aggregate id, ?13 ended before, ?14 kind of error, ?15 how many of the latest dead events to look at.
select coalesce(fingerprint, ''), dead_reason, topic, dead_at, id, last_error
from (
  select * from {outbox} indexed by {name:dead}
  where dead_at is not null
  order by dead_at desc, sequence desc
  limit ?15
)
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
  and dead_at is not null
order by dead_at, sequence
