-- One inbox: which events each consumer has handled.
create table {outbox} (
  consumer   text        not null,
  event_id   uuid        not null,
  handled_at timestamptz not null default clock_timestamp(),

  constraint {name:pkey} primary key (consumer, event_id),
  constraint {name:consumer} check (octet_length(consumer) between 1 and 255)
);

create index {name:handled} on {outbox} (handled_at);
