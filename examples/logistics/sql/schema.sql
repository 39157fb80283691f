-- What the service keeps beside its outbox. Can be run at every start, by many processes at once.
select pg_advisory_xact_lock(20020003);

create table if not exists orders (
  id          uuid        primary key,
  destination text        not null,
  kilograms   integer     not null,
  created_at  timestamptz not null default now(),
  constraint order_weighs_something check (kilograms > 0)
);

-- Of the warehouse, which in real life has a database of its own.
create table if not exists shipments (
  order_id    uuid primary key,
  destination text not null
);

-- To trace the history of an order.
create index if not exists idx_outbox_aggregate on outbox_events (aggregate_type, aggregate_id);

-- The outbox as the document writes it, for people and tools that know it so.
create or replace view outbox_events_view as
select
  id,
  aggregate_type,
  aggregate_id::uuid as aggregate_id,
  event_type,
  payload,
  created_at         as occurred_at,
  case status when 'delivered' then 'PUBLISHED' when 'dead' then 'FAILED' else 'PENDING' end as status,
  -- Attempts are counted when they begin: the first one is no retry.
  greatest(attempts - 1, 0) as retry_count,
  next_attempt_at,
  last_error,
  delivered_at       as processed_at
from outbox_events;
