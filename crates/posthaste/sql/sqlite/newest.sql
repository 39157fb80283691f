-- newest: when the latest event was enqueued.
select created_at from {outbox} order by sequence desc limit 1
