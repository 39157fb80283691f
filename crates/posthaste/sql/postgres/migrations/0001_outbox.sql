-- One outbox: its table, what belongs to it, and the functions that other languages call.
--
-- An event is live until delivered_at or dead_at is set, and the indexes of the hot path
-- hold live events only. They do not mention status or the lease: so a claim changes no
-- indexed column, stays in its page (a HOT update, which is what the fillfactor leaves room
-- for), and costs no index entry. See docs/decisions/0002-claims-stay-in-their-page.md.
create table {outbox} (
  id              uuid        not null default gen_random_uuid(),
  sequence        bigint      generated always as identity,
  next_attempt_at timestamptz not null default clock_timestamp(),
  created_at      timestamptz not null default clock_timestamp(),
  updated_at      timestamptz not null default clock_timestamp(),
  delivered_at    timestamptz,
  dead_at         timestamptz,
  lease_until     timestamptz,
  lease_epoch     bigint      not null default 0,
  lease_owner     uuid,
  tenant_id       uuid,
  attempts        integer     not null default 0,
  status          text        not null default 'pending',
  namespace       text        not null default '',
  topic           text        not null,
  aggregate_type  text,
  aggregate_id    text,
  event_type      text,
  ordering_key    text,
  dedupe_key      text,
  content_type    text        not null default 'application/json',
  traceparent     text,
  tracestate      text,
  last_error      text,
  dead_reason     text,
  headers         jsonb       not null default '{}',
  payload         jsonb,
  payload_bytes   bytea,

  constraint {name:pkey} primary key (id),
  constraint {name:status} check (status in ('pending', 'processing', 'delivered', 'dead')),
  constraint {name:delivered_at} check ((status = 'delivered') = (delivered_at is not null)),
  constraint {name:dead_at} check
    ((status = 'dead') = (dead_at is not null) and (status = 'dead') = (dead_reason is not null)),
  constraint {name:lease} check
    ((status = 'processing') = (lease_owner is not null) and (status = 'processing') = (lease_until is not null)),
  constraint {name:attempts} check (attempts >= 0),
  constraint {name:topic} check (octet_length(topic) between 1 and 255),
  constraint {name:tenant} check (starts_with(dedupe_key, tenant_id::text || '/')),
  constraint {name:finite} check
    (isfinite(next_attempt_at) and isfinite(created_at) and isfinite(lease_until)),
  constraint {name:epoch} check (lease_epoch >= 0),
  constraint {name:payload} check (num_nonnulls(payload, payload_bytes) = 1)
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.2,
  autovacuum_analyze_scale_factor = 0.1,
  autovacuum_analyze_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0
);

create index {name:due} on {outbox} (next_attempt_at, sequence)
  where delivered_at is null and dead_at is null;
create index {name:keyed} on {outbox} (ordering_key, sequence)
  where ordering_key is not null and delivered_at is null;
create unique index {name:dedupe} on {outbox} (namespace, topic, dedupe_key)
  where dedupe_key is not null;
create index {name:delivered} on {outbox} (delivered_at, sequence)
  where delivered_at is not null;
create index {name:dead} on {outbox} (dead_at, sequence)
  where dead_at is not null;

-- The relays at work on this outbox. Each holds the session lock of its owner id; whoever
-- can take that lock knows that the owner is gone.
create table {outbox:relay} (
  owner      uuid        primary key,
  name       text        not null,
  started_at timestamptz not null default clock_timestamp()
);

-- What operators did, and why. Only ever appended to.
create table {outbox:audit} (
  at       timestamptz not null default clock_timestamp(),
  actor    text        not null,
  act      text        not null,
  event_id uuid        not null,
  topic    text        not null,
  why      text        not null
);
create index {name:audit_event} on {outbox:audit} (event_id);

-- Where the cleaner puts delivered events, if it is told to keep them.
create table {outbox:archive} (like {outbox});

-- existing: the event that a message collided with. It is a function because it must see
-- what was committed after the statement began, as the winner of a race was.
create function {outbox:existing}(uuid, text, text, text, out id uuid, out sequence bigint)
language plpgsql volatile as $$
begin
  select e.id, e.sequence into id, sequence from {outbox} e where e.id = $1;
  if not found and $4 is not null then
    select e.id, e.sequence into id, sequence
    from {outbox} e where e.namespace = $2 and e.topic = $3 and e.dedupe_key = $4;
  end if;
end $$;

-- enqueue: for every language that can call a function. Inside the caller's transaction:
--   select * from orders_outbox_enqueue(topic => 'shop.order.placed.v1', payload => '{"order": 42}');
create function {outbox:enqueue}(
  topic          text,
  payload        jsonb    default null,
  id             uuid     default gen_random_uuid(),
  namespace      text     default '',
  tenant_id      uuid     default null,
  aggregate_type text     default null,
  aggregate_id   text     default null,
  event_type     text     default null,
  ordering_key   text     default null,
  dedupe_key     text     default null,
  headers        jsonb    default '{}',
  content_type   text     default 'application/json',
  payload_bytes  bytea    default null,
  delay          interval default '0',
  traceparent    text     default null,
  tracestate     text     default null,
  strict_topic   boolean  default true,
  out event_id   uuid,
  out sequence   bigint,
  out new        boolean
)
language plpgsql volatile as $$
#variable_conflict use_variable
begin
  if strict_topic and (length(topic) > 127 or topic !~ '^[a-z0-9-]+(\.[a-z0-9-]+){2,}\.v[0-9]+$') then
    raise exception 'topic "%" is not valid', left(topic, 64)
      using errcode = 'invalid_parameter_value',
            hint = 'Write it as <module>.<aggregate>.<event>.vN, or pass strict_topic => false.';
  end if;
  loop
    insert into {outbox} as e
      (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
       headers, content_type, payload, payload_bytes, next_attempt_at, traceparent, tracestate)
    values
      (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
       headers, content_type, payload, payload_bytes, clock_timestamp() + delay, traceparent, tracestate)
    on conflict do nothing
    returning e.id, e.sequence into event_id, sequence;
    new := found;
    if not new then
      select x.id, x.sequence into event_id, sequence
      from {outbox:existing}(id, namespace, topic, dedupe_key) x;
    end if;
    exit when event_id is not null;
  end loop;
end $$;

-- notify: wakes relays that listen. Attached to the table only where that is switched on.
create function {outbox:notify}() returns trigger language plpgsql as $$
begin
  perform pg_notify('posthaste', {literal});
  return null;
end $$;
