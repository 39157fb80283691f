-- What the farm keeps beside its outbox. Can be run at every start, by many instances at once.
select pg_advisory_xact_lock(20020004);

create table if not exists fields (
  id      uuid   primary key,
  name    text   not null,
  crop    text,
  version bigint not null
);

create table if not exists barns (
  id       uuid   primary key,
  capacity bigint not null,
  stored   bigint not null,
  version  bigint not null,
  constraint barn_not_overfull check (stored <= capacity)
);

-- Of the subscriber, which in real life has a database of its own.
create table if not exists deliveries (
  event_id   uuid        primary key,
  event_type text        not null,
  handled_at timestamptz not null default now()
);

-- The outbox as the document writes it, for people and tools that know it so.
create or replace view "OutboxMessage" as
select
  id           as "Id",
  event_type   as "EventType",
  payload::text as "Payload",
  case status when 'pending' then 'Pending' when 'processing' then 'Processing'
              when 'delivered' then 'Processed' else 'Failed' end as "Status",
  created_at   as "CreatedAt",
  delivered_at as "ProcessedAt",
  -- Attempts are counted when they begin: the one under way, or the last good one, was no failure.
  case when status in ('processing', 'delivered') then attempts - 1 else attempts end as "RetryCount",
  last_error   as "Error"
from outbox_messages;
