-- examine: what a relay here depends on, and what may trouble it. $1 schema, $2 table. One row.
with table_of as (
  select c.relname, c.oid
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = $1::text and c.relname in
    ($2::text, $2 || '_relay', $2 || '_archive', $2 || '_attempts', $2 || '_pauses', $2 || '_jobs', $2 || '_audit')
), outbox as (
  select oid from table_of where relname = $2
), activity as (
  select * from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
), holding as (
  -- What keeps vacuum from removing dead rows: transactions, and those that were prepared and forgotten.
  select *
  from (
    select pid, clock_timestamp() - xact_start as age, null as prepared
    from activity
    where backend_type = 'client backend' and xact_start is not null
    union all
    select null, clock_timestamp() - prepared, gid from pg_prepared_xacts where database = current_database()
  ) held
  order by age desc
  limit 1
)
select
  current_setting('server_version_num')::integer as version,
  current_setting('server_version') as version_text,
  extract(epoch from clock_timestamp())::float8 as clock,
  pg_is_in_recovery() as is_standby,
  current_setting('fsync') = 'on' as fsync,
  current_setting('synchronous_commit') as synchronous_commit,
  current_setting('autovacuum') = 'on' as autovacuum,
  current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
    as connection_limit,
  (select sum(numbackends)::bigint from pg_stat_database) as connections,
  -- Of what roles.sql grants to a relay, what this user lacks.
  array(
    select needed.what
    from (values
      ('read events', has_table_privilege(outbox.oid, 'select')),
      ('delete events', has_table_privilege(outbox.oid, 'delete')),
      ('move events through their states', has_column_privilege(outbox.oid, 'status', 'update')),
      ('enqueue dead letters', has_column_privilege(outbox.oid, 'headers', 'insert')),
      ('tell other relays of itself',
       (select bool_and(has_table_privilege(oid, act)) from table_of, unnest(array['select', 'insert', 'delete']) as t (act)
        where relname = $2 || '_relay')),
      ('write down attempts',
       (select bool_and(has_table_privilege(oid, act)) from table_of, unnest(array['select', 'insert', 'delete']) as t (act)
        where relname = $2 || '_attempts')),
      ('look whether it is paused', (select has_table_privilege(oid, 'select') from table_of where relname = $2 || '_pauses')),
      ('work on redeliveries',
       (select bool_and(has_table_privilege(oid, act)) from table_of, unnest(array['select', 'update']) as t (act)
        where relname = $2 || '_jobs')
       and (select has_table_privilege(oid, 'insert') from table_of where relname = $2 || '_audit')),
      ('archive events', (select has_table_privilege(oid, 'insert') from table_of where relname = $2 || '_archive'))
    ) as needed (what, is_granted)
    where needed.is_granted is not true
  ) as lacking,
  exists (select from pg_trigger where tgrelid = outbox.oid and tgname = $2 || '_notify') as notifies,
  coalesce(pg_stat_get_live_tuples(outbox.oid), 0) as live,
  coalesce(pg_stat_get_dead_tuples(outbox.oid), 0) as dead,
  pg_total_relation_size(outbox.oid) as bytes,
  (select pid from holding) as holding_pid,
  (select prepared from holding) as holding_prepared,
  -- A slot that nobody reads from holds back vacuum, too, and has no time.
  (select slot_name::text from pg_replication_slots
   where not active and (xmin is not null or catalog_xmin is not null) limit 1) as holding_slot,
  -- A user without pg_read_all_stats is told of no other's transactions.
  not exists (select from activity where backend_type is null) as sees_all,
  coalesce((select extract(epoch from age) from holding), 0)::float8 as holding_seconds
from outbox
