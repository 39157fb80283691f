-- behind: how many live events of a key come after its first. ?1 key, ?2 sequence, ?3 how far to count.
select count(*)
from (
  select 1
  from {outbox} indexed by {name:keyed}
  where ordering_key = ?1 and sequence > ?2 and delivered_at is null and dead_at is null
  limit ?3
)
