-- A table for each producer, in the database that has the outbox.
create table go_orders         (number bigint primary key, item text not null);
create table java_orders       (number bigint primary key, item text not null);
create table python_orders     (number bigint primary key, item text not null);
create table sql_orders        (number bigint primary key, item text not null);
create table typescript_orders (number bigint primary key, item text not null);
