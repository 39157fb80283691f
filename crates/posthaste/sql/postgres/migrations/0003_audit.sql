-- The audit log by time: its latest entries are found without reading the others.
--
-- The log has a row for each thing that an operator did to an event, and is small beside the events.
create index {name:audit_at} on {outbox:audit} (at);
