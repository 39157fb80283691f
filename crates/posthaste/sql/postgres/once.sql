-- once: a consumer handles an event, unless it did before. $1 consumer, $2 event, both as text.
-- Whoever comes second waits here for the first one's commit or rollback.
insert into {outbox} (consumer, event_id)
values ($1::text, $2::text::uuid)
on conflict do nothing
