-- What operators see and steer: attempts, kinds of errors, pauses, and redeliveries as jobs.
--
-- Quick on a table of any size: nothing is rewritten, and no index is built on what is there.

-- The kind of the last error, computed by the library, if there was one. No index mentions it; and null takes no
-- room in a row, so that claims stay in their page as before.
alter table {outbox} add column fingerprint text collate "C";
alter table {outbox:archive} add column fingerprint text collate "C";

-- How often an operator redelivered the event, if one did: a header tells it to whoever receives it.
alter table {outbox} add column redeliveries integer;
alter table {outbox:archive} add column redeliveries integer;

-- Attempts that were no first one that succeeded. Removed with their event.
-- See docs/decisions/0020-history-costs-the-happy-path-nothing.md.
create table {outbox:attempts} (
  event_id    uuid        not null,
  epoch       bigint      not null,
  number      integer     not null,
  claimed_at  timestamptz not null,
  ended_at    timestamptz not null default clock_timestamp(),
  took        float8,
  ending      text        not null,
  error       text,
  relay       uuid        not null,
  relay_name  text,
  destination text,
  primary key (event_id, epoch)
);

-- What is left in peace until somebody resumes it: a destination, or, without a name, the outbox.
create table {outbox:pauses} (
  destination text        primary key,
  at          timestamptz not null default clock_timestamp(),
  actor       text        not null,
  why         text        not null
);

-- Redeliveries of many events, with how far each got. Events that ended after one began are not its own.
create table {outbox:jobs} (
  id              uuid        primary key,
  created_at      timestamptz not null default clock_timestamp(),
  updated_at      timestamptz not null default clock_timestamp(),
  ended_at        timestamptz,
  spent_at        timestamptz not null default clock_timestamp(),
  cursor_at       timestamptz not null default '-infinity',
  cursor_sequence bigint      not null default 0,
  total           bigint      not null,
  redelivered     bigint      not null default 0,
  rate            integer,
  state           text        not null default 'running',
  actor           text        not null,
  why             text        not null,
  filter          text        not null,

  constraint {name:job_state} check (state in ('running', 'paused', 'done', 'cancelled')),
  constraint {name:job_ended} check ((state in ('done', 'cancelled')) = (ended_at is not null)),
  constraint {name:job_rate} check (rate > 0)
);
create index {name:jobs_open} on {outbox:jobs} (created_at)
  where ended_at is null;
