-- One inbox: which events each consumer has handled. Times are microseconds since 1970.
create table {outbox} (
  consumer   text    not null,
  event_id   text    not null,
  handled_at integer not null default ({now}),

  constraint {name:pkey} primary key (consumer, event_id),
  constraint {name:consumer} check (length(cast(consumer as blob)) between 1 and 255)
) strict;

create index {name:handled} on {outbox} (handled_at);
