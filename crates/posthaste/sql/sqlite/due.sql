-- due: which events can be leased, oldest first.
-- ?1 now, ?2 and ?3 the place to look from, ?4 namespace, ?5 topics, ?6 tenant, ?7 topics to leave alone,
-- ?8 owners that are gone, ?9 limit. Lists are JSON arrays.
select sequence, next_attempt_at, lease_owner is not null, octet_length(coalesce(payload, payload_bytes))
from {outbox} indexed by {name:due}
where delivered_at is null and dead_at is null
  and next_attempt_at <= ?1
  and (next_attempt_at, sequence) > (?2, ?3)
  and (lease_owner is null or lease_until < ?1 or lease_owner in (select value from json_each(?8)))
  and (?4 is null or namespace = ?4)
  and (?5 is null or topic in (select value from json_each(?5)))
  and (?6 is null or tenant_id = ?6)
  and topic not in (select value from json_each(?7))
order by next_attempt_at, sequence
limit ?9
