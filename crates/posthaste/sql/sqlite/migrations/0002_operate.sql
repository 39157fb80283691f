-- What operators see and steer: attempts, kinds of errors, pauses, and redeliveries as jobs.

-- The kind of the last error, computed by the library, if there was one. No index mentions it; and null takes no
-- room in a row, so that claims stay in their page as before.
alter table {outbox} add column fingerprint text;
alter table {outbox:archive} add column fingerprint text;

-- How often an operator redelivered the event, if one did: a header tells it to whoever receives it.
alter table {outbox} add column redeliveries integer;
alter table {outbox:archive} add column redeliveries integer;

-- Attempts that were no first one that succeeded. Removed with their event.
-- See docs/decisions/0020-history-costs-the-happy-path-nothing.md.
create table {outbox:attempts} (
  event_id    text    not null,
  epoch       integer not null,
  number      integer not null,
  claimed_at  integer not null,
  ended_at    integer not null,
  took        real,
  ending      text    not null,
  error       text,
  relay       text    not null,
  relay_name  text,
  destination text,
  primary key (event_id, epoch)
) strict, without rowid;

-- What is left in peace until somebody resumes it: a destination, or, without a name, the outbox.
create table {outbox:pauses} (
  destination text    not null primary key,
  at          integer not null,
  actor       text    not null,
  why         text    not null
) strict;

-- Redeliveries of many events, with how far each got. Events that ended after one began are not its own.
create table {outbox:jobs} (
  id              text    not null primary key,
  created_at      integer not null,
  updated_at      integer not null,
  ended_at        integer,
  spent_at        integer not null,
  cursor_at       integer not null default (-4611686018427387904),
  cursor_sequence integer not null default 0,
  total           integer not null,
  redelivered     integer not null default 0,
  rate            integer,
  state           text    not null default 'running',
  actor           text    not null,
  why             text    not null,
  filter          text    not null,

  constraint {name:job_state} check (state in ('running', 'paused', 'done', 'cancelled')),
  constraint {name:job_ended} check ((state in ('done', 'cancelled')) = (ended_at is not null)),
  constraint {name:job_rate} check (rate > 0)
) strict;
