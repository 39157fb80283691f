-- once: a consumer handles an event, unless it did before. ?1 consumer, ?2 event.
insert into {outbox} (consumer, event_id) values (?1, ?2)
on conflict do nothing
