-- What the service keeps beside its outbox. Can be run at every start, by many instances at once.
select pg_advisory_xact_lock(20020002);

create table if not exists orders (
  id          uuid        primary key,
  customer_id uuid        not null,
  total_cents bigint      not null,
  created_at  timestamptz not null default now()
);

create table if not exists order_lines (
  order_id uuid    not null references orders,
  sku      text    not null,
  quantity integer not null check (quantity > 0),
  cents    bigint  not null,
  primary key (order_id, sku)
);

create table if not exists stock (
  sku       text    primary key,
  available integer not null,
  constraint stock_available check (available >= 0)
);

-- Of another service in real life, with a database of its own.
create table if not exists invoices (
  order_id    uuid   primary key,
  event_id    uuid   not null,
  total_cents bigint not null
);

-- For debugging: all events of one order.
create index if not exists idx_outbox_aggregate on outbox (aggregate_id);

-- The outbox as the document writes it, for people and tools that know it so.
create or replace view order_events as
select
  id,
  aggregate_type,
  aggregate_id::uuid as aggregate_id,
  event_type,
  payload::text      as payload,
  case status when 'delivered' then 'SENT' when 'dead' then 'FAILED' else 'NEW' end as status,
  created_at,
  delivered_at       as sent_at,
  last_error         as error_message
from outbox;
