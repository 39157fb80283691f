-- old: what is past its retention, the delivered first.
-- ?1 delivered before this, ?2 dead before this or null, ?3 limit.
select sequence from (
  select sequence from {outbox} indexed by {name:delivered}
  where delivered_at is not null and delivered_at < ?1
  order by delivered_at, sequence
  limit ?3
)
union all
select sequence from (
  select sequence from {outbox} indexed by {name:dead}
  where dead_at is not null and dead_at < ?2
  order by dead_at, sequence
  limit ?3
)
limit ?3
