-- Which migrations each outbox and inbox of this file has had. Created before all others.
create table if not exists posthaste_migrations (
  object     text    not null collate nocase,
  version    integer not null,
  name       text    not null,
  checksum   text    not null,
  applied_at integer not null default ({now}),

  primary key (object, version)
) strict;
