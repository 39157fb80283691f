//! The relay on a real PostgreSQL: one file for each theme.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod support;

mod bus;
mod clean;
mod database;
mod deliver;
mod failure;
mod letters;
mod observe;
mod order;
mod outage;
mod room;
mod route;
mod settings;
mod single_active;
mod stdout;
mod steer;
mod stop;
mod view;
mod wake;
