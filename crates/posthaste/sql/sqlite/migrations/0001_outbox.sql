-- One outbox: its table, and what belongs to it.
--
-- Times are microseconds since 1970: select datetime(created_at / 1000000, 'unixepoch') shows one.
-- Ids are uuids as text, in lower case. An event is live until delivered_at or dead_at is set, and the
-- indexes of the hot path hold live events only. They do not mention status or the lease: so a claim
-- writes to no index. See docs/decisions/0015-sqlite.md.
create table {outbox} (
  sequence        integer primary key autoincrement,
  id              text    not null default (
                    lower(hex(randomblob(4))) || '-' || lower(hex(randomblob(2)))
                    || '-4' || substr(lower(hex(randomblob(2))), 2)
                    || '-' || substr('89ab', 1 + (random() & 3), 1) || substr(lower(hex(randomblob(2))), 2)
                    || '-' || lower(hex(randomblob(6)))),
  status          text    not null default 'pending',
  namespace       text    not null default '',
  topic           text    not null,
  tenant_id       text,
  aggregate_type  text,
  aggregate_id    text,
  event_type      text,
  ordering_key    text,
  dedupe_key      text,
  attempts        integer not null default 0,
  next_attempt_at integer not null default ({now}),
  created_at      integer not null default ({now}),
  updated_at      integer not null default ({now}),
  delivered_at    integer,
  dead_at         integer,
  dead_reason     text,
  last_error      text,
  lease_owner     text,
  lease_until     integer,
  lease_epoch     integer not null default 0,
  traceparent     text,
  tracestate      text,
  content_type    text    not null default 'application/json',
  headers         text    not null default '{}',
  payload         text,
  payload_bytes   blob,

  constraint {name:id} check (id glob '[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]'),
  constraint {name:status} check (status in ('pending', 'processing', 'delivered', 'dead')),
  constraint {name:delivered_at} check ((status = 'delivered') = (delivered_at is not null)),
  constraint {name:dead_at} check
    ((status = 'dead') = (dead_at is not null) and (status = 'dead') = (dead_reason is not null)),
  constraint {name:lease} check
    ((status = 'processing') = (lease_owner is not null) and (status = 'processing') = (lease_until is not null)),
  constraint {name:owner} check (lease_owner glob '[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]'),
  constraint {name:attempts} check (attempts between 0 and 2147483647),
  constraint {name:topic} check (length(cast(topic as blob)) between 1 and 255),
  constraint {name:tenant_id} check (tenant_id glob '[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]'),
  constraint {name:tenant} check (substr(dedupe_key, 1, length(tenant_id) + 1) = tenant_id || '/'),
  constraint {name:epoch} check (lease_epoch >= 0),
  constraint {name:headers} check (json_valid(headers)),
  constraint {name:payload} check ((payload is null) <> (payload_bytes is null) and (payload is null or json_valid(payload)))
) strict;

create unique index {name:event} on {outbox} (id);
create index {name:due} on {outbox} (next_attempt_at)
  where delivered_at is null and dead_at is null;
create index {name:keyed} on {outbox} (ordering_key)
  where ordering_key is not null and delivered_at is null;
create unique index {name:dedupe} on {outbox} (namespace, topic, dedupe_key)
  where dedupe_key is not null;
create index {name:delivered} on {outbox} (delivered_at)
  where delivered_at is not null;
create index {name:dead} on {outbox} (dead_at)
  where dead_at is not null;

-- What operators did, and why. Only ever appended to.
create table {outbox:audit} (
  at       integer not null default ({now}),
  actor    text    not null,
  act      text    not null,
  event_id text    not null,
  topic    text    not null,
  why      text    not null
) strict;
create index {name:audit_event} on {outbox:audit} (event_id);

-- Where the cleaner puts delivered events, if it is told to keep them.
create table {outbox:archive} (
  sequence        integer not null,
  id              text    not null,
  status          text    not null,
  namespace       text    not null,
  topic           text    not null,
  tenant_id       text,
  aggregate_type  text,
  aggregate_id    text,
  event_type      text,
  ordering_key    text,
  dedupe_key      text,
  attempts        integer not null,
  next_attempt_at integer not null,
  created_at      integer not null,
  updated_at      integer not null,
  delivered_at    integer,
  dead_at         integer,
  dead_reason     text,
  last_error      text,
  lease_owner     text,
  lease_until     integer,
  lease_epoch     integer not null,
  traceparent     text,
  tracestate      text,
  content_type    text    not null,
  headers         text    not null,
  payload         text,
  payload_bytes   blob
) strict;
