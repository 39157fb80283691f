-- advance: redeliver the next events of a job, as many as its rate allows by now, and record how far it got.
-- $1 namespace, $2 topics, $3 tenant, $4 statuses, $5 after this sequence, $6 ids, $7 topic (like),
-- $8 older than and $9 not older than, in seconds, $10 text in the last error, $11 reason of death,
-- $12 event type, $13 aggregate type, $14 aggregate id, $15 ended for, in seconds, $16 kind of error,
-- $17 job, $18 limit, $19 how many events of each status to look at.
-- Whoever has the job locked is at it: others do nothing. Events that ended since it began are none of its own.
with job as materialized (
  select *,
         case
           when rate is null then $18::bigint
           else least($18, floor(rate * saved + 1e-6)::bigint)
         end as allowed
  from (
    -- A clock that was set back owes nothing.
    select *, greatest(0, least(extract(epoch from clock_timestamp() - spent_at), greatest(1, 1.0 / rate)))::float8 as saved
    from {outbox:jobs}
    where id = $17::uuid and state = 'running'
    for update skip locked
  ) running
), seen as materialized (
  select *
  from (
    (select ctid as found, dead_at as found_at, sequence as found_sequence
     from {outbox}
     where 'dead' = any ($4::text[])
       and dead_at is not null and dead_at <= (select created_at from job)
       and (dead_at, sequence) > ((select cursor_at from job), (select cursor_sequence from job))
     order by dead_at, sequence
     limit $19)
    union all
    (select ctid, delivered_at, sequence
     from {outbox}
     where 'delivered' = any ($4)
       and delivered_at is not null and delivered_at <= (select created_at from job)
       and (delivered_at, sequence) > ((select cursor_at from job), (select cursor_sequence from job))
     order by delivered_at, sequence
     limit $19)
  ) arms
  order by found_at, found_sequence
  limit $19
), picked as materialized (
  select id, found_at, found_sequence
  from seen join {outbox} on ctid = found
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
    -- What an operator gave up stays so, unless it is named.
    and ($6 is not null or $11 is not null or dead_reason is distinct from 'discarded')
  order by found_at, found_sequence
  limit (select allowed from job)
), revived as (
  update {outbox}
  set status = 'pending', attempts = 0, next_attempt_at = clock_timestamp(), updated_at = clock_timestamp(),
      dead_at = null, dead_reason = null, redeliveries = coalesce(redeliveries, 0) + 1
  where id = any (array(select id from picked)) and dead_at is not null
    -- Also if that was but now.
    and ($11 is null or dead_reason = $11)
    and ($6 is not null or $11 is not null or dead_reason is distinct from 'discarded')
  returning id, topic
), anew as (
  insert into {outbox}
    (namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, headers, content_type,
     payload, payload_bytes, traceparent, tracestate, redeliveries)
  select namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key,
         headers || jsonb_build_object('posthaste-redelivery-of', id), content_type,
         payload, payload_bytes, traceparent, tracestate, coalesce(redeliveries, 0) + 1
  from {outbox}
  where id = any (array(select id from picked)) and delivered_at is not null
  order by sequence
  returning id, topic, headers ->> 'posthaste-redelivery-of' as origin
), audit as (
  insert into {outbox:audit} (actor, act, event_id, topic, why)
  select (select actor from job), 'redeliver', id, topic, (select why || ' (job ' || id || ')' from job) from revived
  union all
  select (select actor from job), 'redeliver', origin::uuid, topic, (select why || ' (job ' || id || ')' from job) || ' (as ' || id || ')' from anew
), told as (
  select
    (select count(*) from picked) as picked,
    (select count(*) from revived) + (select count(*) from anew) as redelivered,
    (select count(*) from seen) as looked
), progress as (
  update {outbox:jobs} j
  set cursor_at       = coalesce(last.found_at, j.cursor_at),
      cursor_sequence = coalesce(last.found_sequence, j.cursor_sequence),
      redelivered     = j.redelivered + told.redelivered,
      spent_at        = case
                          when j.rate is null then j.spent_at
                          else clock_timestamp() - make_interval(secs =>
                            greatest(0, job.saved - told.picked::float8 / j.rate))
                        end,
      updated_at      = clock_timestamp(),
      state           = case when job.allowed > told.picked and told.looked < $19 then 'done' else j.state end,
      ended_at        = case when job.allowed > told.picked and told.looked < $19 then clock_timestamp() end
  from job
  cross join told
  left join lateral (
    -- Those that were looked at and not picked are passed, unless there was no room for more.
    select * from (
      (select found_at, found_sequence from picked where told.picked >= job.allowed
       order by found_at desc, found_sequence desc limit 1)
      union all
      (select found_at, found_sequence from seen where told.picked < job.allowed
       order by found_at desc, found_sequence desc limit 1)
    ) ends
  ) last on true
  where j.id = job.id
  returning j.*
)
select * from progress
