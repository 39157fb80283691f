-- What the modules and the directory keep, besides their outboxes. Can be run at every start.
create schema if not exists org;
create schema if not exists hrm;
create schema if not exists directory;

create table if not exists org.organizations (
  id        uuid    primary key,
  tenant_id uuid    not null,
  name      text    not null,
  version   bigint  not null default 1,
  dissolved boolean not null default false,

  -- Found out by the commit: by then the event has been enqueued, and goes with the rest.
  constraint organizations_name unique (tenant_id, name) deferrable initially deferred
);

create table if not exists hrm.employees (
  id              uuid primary key,
  tenant_id       uuid not null,
  organization_id uuid not null,
  name            text not null
);

create table if not exists directory.organizations (
  id        uuid    primary key,
  tenant_id uuid    not null,
  name      text    not null,
  version   bigint  not null,
  dissolved boolean not null default false,
  employees bigint  not null default 0
);
