-- roles: what each part of a system may do to an outbox, and nothing else.
-- Grant the producer to services, the relay to relays, the reader to dashboards and the
-- operator to people on call.
{create:producer};
{create:relay};
{create:reader};
{create:operator};

revoke all on {outbox}, {outbox:relay}, {outbox:audit}, {outbox:archive}, {outbox:attempts}, {outbox:pauses}, {outbox:jobs}
  from public;
revoke all on {outbox}, {outbox:relay}, {outbox:audit}, {outbox:archive}, {outbox:attempts}, {outbox:pauses}, {outbox:jobs}
  from {producer}, {relay}, {reader}, {operator};
revoke all on function {outbox:enqueue}, {outbox:existing} from public;
grant usage on schema {schema} to {producer}, {relay}, {reader}, {operator};
grant select on {schema}.posthaste_migrations to {producer}, {relay}, {reader}, {operator};

-- A producer adds events, and is told which event it met. It sees no payload and changes nothing.
grant insert
  (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key,
   headers, content_type, payload, payload_bytes, next_attempt_at, traceparent, tracestate)
  on {outbox} to {producer};
grant select (id, sequence, namespace, topic, dedupe_key) on {outbox} to {producer};
grant execute on function {outbox:enqueue}, {outbox:existing} to {producer};

-- A relay moves events through their states, cleans, and works on redeliveries that operators began. It
-- cannot change what they say. What it inserts are copies of events: dead letters, and what is sent again.
grant select, delete on {outbox} to {relay};
grant insert
  (namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
   headers, content_type, payload, payload_bytes, traceparent, tracestate, redeliveries)
  on {outbox} to {relay};
grant update
  (status, attempts, next_attempt_at, lease_owner, lease_until, lease_epoch, last_error, fingerprint, dead_at,
   dead_reason, delivered_at, updated_at, redeliveries)
  on {outbox} to {relay};
grant select, insert, delete on {outbox:relay}, {outbox:attempts} to {relay};
grant insert on {outbox:archive}, {outbox:audit} to {relay};
grant select on {outbox:pauses} to {relay};
grant select, update on {outbox:jobs} to {relay};
grant select on sequence {outbox:sequence_seq} to {relay}, {reader}, {operator};

-- A reader sees how things stand, without what they say.
grant select
  (id, sequence, next_attempt_at, created_at, updated_at, delivered_at, dead_at, lease_until, lease_epoch,
   lease_owner, tenant_id, attempts, status, namespace, topic, aggregate_type, aggregate_id, event_type,
   ordering_key, dedupe_key, content_type, traceparent, tracestate, last_error, fingerprint, dead_reason,
   redeliveries)
  on {outbox} to {reader};
grant select on {outbox:relay}, {outbox:audit}, {outbox:attempts}, {outbox:pauses}, {outbox:jobs} to {reader};

-- An operator brings events back and gives them up, pauses and resumes, each time with an entry in the audit
-- log, which can only be added to. To enqueue a delivered event anew is to copy what it says.
grant select on {outbox}, {outbox:relay}, {outbox:attempts} to {operator};
grant update (status, attempts, next_attempt_at, dead_at, dead_reason, updated_at, redeliveries)
  on {outbox} to {operator};
grant insert
  (namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
   headers, content_type, payload, payload_bytes, traceparent, tracestate, redeliveries)
  on {outbox} to {operator};
grant select, insert on {outbox:audit} to {operator};
grant select, insert, delete on {outbox:pauses} to {operator};
grant select, insert, update on {outbox:jobs} to {operator};
