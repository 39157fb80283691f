-- A table for each producer, in the database that has the outbox.
create table go_orders         (number bigint primary key, item text not null);
create table java_orders       (number bigint primary key, item text not null);
create table python_orders     (number bigint primary key, item text not null);
create table sql_orders        (number bigint primary key, item text not null);
create table typescript_orders (number bigint primary key, item text not null);

-- The rule for topics, for plain inserts as well. The function has it anyway.
alter table orders_outbox add constraint orders_outbox_topic_rule
  check (length(topic) <= 127 and topic ~ '^[a-z0-9-]+(\.[a-z0-9-]+){2,}\.v[0-9]+$');
