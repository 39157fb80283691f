-- Which migrations each outbox and inbox of this schema has had. Created before all others.
create table if not exists {schema}.posthaste_migrations (
  object     text        not null,
  version    integer     not null,
  name       text        not null,
  checksum   text        not null,
  applied_at timestamptz not null default clock_timestamp(),

  primary key (object, version)
);
