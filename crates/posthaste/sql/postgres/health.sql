-- health: how the server copes with this outbox. $1 schema, $2 table. One row.
with outbox as (
  select c.oid
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = $1::text and c.relname = $2::text
), activity as (
  select * from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
), holding as (
  -- What keeps vacuum from removing dead rows: transactions, and those that were prepared and forgotten.
  select *
  from (
    select pid, extract(epoch from clock_timestamp() - xact_start)::float8 as age, state, application_name
    from activity
    where backend_type = 'client backend' and xact_start is not null
      and (backend_xmin is not null or backend_xid is not null)
    union all
    select 0, extract(epoch from clock_timestamp() - prepared)::float8, 'prepared', gid
    from pg_prepared_xacts
    where database = current_database()
  ) held
  order by age desc
  limit 1
)
select
  'PostgreSQL ' || current_setting('server_version') as server,
  pg_table_size(outbox.oid) as table_bytes,
  pg_indexes_size(outbox.oid) as index_bytes,
  pg_stat_get_live_tuples(outbox.oid) as live_rows,
  pg_stat_get_dead_tuples(outbox.oid) as dead_rows,
  greatest(pg_stat_get_last_vacuum_time(outbox.oid), pg_stat_get_last_autovacuum_time(outbox.oid)) as vacuumed_at,
  greatest(pg_stat_get_last_analyze_time(outbox.oid), pg_stat_get_last_autoanalyze_time(outbox.oid)) as analyzed_at,
  (select sum(numbackends)::bigint from pg_stat_database) as connections,
  -- A user without pg_read_all_stats is told of no other's transactions.
  not exists (select from activity where backend_type is null) as sees_all,
  current_setting('max_connections')::bigint as connection_limit,
  holding.pid, holding.age, coalesce(holding.state, '') as state,
  coalesce(holding.application_name, '') as application
from outbox left join holding on true
