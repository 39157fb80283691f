-- What the chat and its billing keep, besides the outbox. Can be run at every start.
create schema if not exists chat;
create schema if not exists billing;

create table if not exists chat.quotas (
  tenant_id uuid   primary key,
  granted   bigint not null,
  reserved  bigint not null default 0 check (reserved >= 0),
  used      bigint not null default 0 check (used >= 0)
);

create table if not exists chat.turns (
  id         uuid   primary key,
  tenant_id  uuid   not null,
  request_id uuid   not null,
  prompt     text   not null,
  reserved   bigint not null,
  answer     text,
  outcome    text   check (outcome in ('completed', 'aborted', 'failed')),
  tokens     bigint,

  unique (tenant_id, request_id),
  check ((outcome is null) = (tokens is null))
);

-- The key is the one of the events: a turn is charged once, however often its event arrives.
create table if not exists billing.charges (
  tenant_id  uuid   not null,
  turn_id    uuid   not null,
  request_id uuid   not null,
  outcome    text   not null,
  tokens     bigint not null,

  primary key (tenant_id, turn_id, request_id)
);
