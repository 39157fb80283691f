-- audit: what operators did, the latest first. ?1 event or null, ?2 limit.
select at, actor, act, event_id, topic, why
from {outbox:audit}
where ?1 is null or event_id = ?1
order by at desc, rowid desc
limit ?2
