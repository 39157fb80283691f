-- browse_oldest: a page of events by when they ended or are due, the oldest first.
-- $1 namespace, $2 topics, $3 tenant, $4 statuses, $5 after this sequence, $6 ids, $7 topic (like),
-- $8 older than and $9 not older than, in seconds, $10 text in the last error, $11 reason of death,
-- $12 event type, $13 aggregate type, $14 aggregate id, $15 ended for, in seconds, $16 kind of error,
-- $17 limit, $18 and $19 the place to look from, $20 how many events of each status to look at.
-- Each arm goes along its index, and what needs no more events reads no more of them. If it looked at as many
-- as it may and found too few, a row without an id says where it ended: from the same moment, as relays go on.
(
  select id, sequence, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
         dedupe_key, content_type, traceparent, status, attempts, next_attempt_at, lease_owner, lease_until,
         lease_epoch, last_error, dead_reason, created_at, updated_at, delivered_at, dead_at, place
  from (
    select *
    from (
      (select id, sequence, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
              dedupe_key, content_type, traceparent, status, attempts, next_attempt_at, lease_owner, lease_until,
              lease_epoch, last_error, dead_reason, created_at, updated_at, delivered_at, dead_at, fingerprint,
              next_attempt_at as place
       from {outbox}
       where ($4::text[] is null or $4 && array['pending', 'processing'])
         and delivered_at is null and dead_at is null
         and (next_attempt_at, sequence) > ($18::timestamptz, $19::bigint)
       order by next_attempt_at, sequence
       limit $20)
      union all
      (select id, sequence, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
              dedupe_key, content_type, traceparent, status, attempts, next_attempt_at, lease_owner, lease_until,
              lease_epoch, last_error, dead_reason, created_at, updated_at, delivered_at, dead_at, fingerprint,
              delivered_at as place
       from {outbox}
       where ($4 is null or 'delivered' = any ($4))
         and delivered_at is not null and (delivered_at, sequence) > ($18, $19)
       order by delivered_at, sequence
       limit $20)
      union all
      (select id, sequence, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
              dedupe_key, content_type, traceparent, status, attempts, next_attempt_at, lease_owner, lease_until,
              lease_epoch, last_error, dead_reason, created_at, updated_at, delivered_at, dead_at, fingerprint,
              dead_at as place
       from {outbox}
       where ($4 is null or 'dead' = any ($4))
         and dead_at is not null and (dead_at, sequence) > ($18, $19)
       order by dead_at, sequence
       limit $20)
    ) arms
    order by place, sequence
    limit $20
  ) seen
  where ($1::text is null or namespace = $1)
    and ($2::text[] is null or topic = any ($2))
    and ($3::uuid is null or tenant_id = $3)
    and ($4::text[] is null or status = any ($4))
    -- What the statuses imply, in the words of the partial indexes.
    and ($4 is null
         or ($4 && array['pending', 'processing'] and delivered_at is null and dead_at is null)
         or ('dead' = any ($4) and dead_at is not null)
         or ('delivered' = any ($4) and delivered_at is not null))
    and ($5::bigint is null or sequence > $5)
    and ($6::uuid[] is null or id = any ($6))
    and ($7::text is null or topic like $7)
    and ($8::float8 is null or created_at < now() - make_interval(secs => $8))
    and ($9::float8 is null or created_at >= now() - make_interval(secs => $9))
    and ($10::text is null or strpos(last_error, $10) > 0)
    and ($11::text is null or dead_reason = $11)
    and ($12::text is null or event_type = $12)
    and ($13::text is null or aggregate_type = $13)
    and ($14::text is null or aggregate_id = $14)
    and ($15::float8 is null or coalesce(delivered_at, dead_at) < now() - make_interval(secs => $15))
    and ($16::text is null or (dead_at is not null and coalesce(fingerprint, '') = $16))
  order by place, sequence
  limit $17
)
union all
(
  select null, sequence, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
         null, null, null, null, null, null, null, null, place
  from (
    (select next_attempt_at as place, sequence from {outbox}
     where ($4::text[] is null or $4 && array['pending', 'processing'])
       and delivered_at is null and dead_at is null
       and (next_attempt_at, sequence) > ($18::timestamptz, $19::bigint)
     order by next_attempt_at, sequence
     limit $20)
    union all
    (select delivered_at as place, sequence from {outbox}
     where ($4 is null or 'delivered' = any ($4))
       and delivered_at is not null and (delivered_at, sequence) > ($18, $19)
     order by delivered_at, sequence
     limit $20)
    union all
    (select dead_at as place, sequence from {outbox}
     where ($4 is null or 'dead' = any ($4))
       and dead_at is not null and (dead_at, sequence) > ($18, $19)
     order by dead_at, sequence
     limit $20)
  ) arms
  order by place, sequence
  offset $20 - 1 limit 1
)
limit $17
