-- audit: what operators did, the latest first. ?1 event or null, ?2 limit, ?3 not after this time, or null,
-- ?4 how many to leave out.
select at, actor, act, event_id, topic, why
from {outbox:audit}
where (?1 is null or event_id = ?1)
  and (?3 is null or at <= ?3)
order by at desc, rowid desc
limit ?2 offset ?4
