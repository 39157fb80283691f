//! Redis streams, on real servers: one file for each theme. What arrives is read by redis-py.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

#[path = "../authority/mod.rs"]
mod authority;
mod stream;

mod answers;
mod check;
mod contract;
mod faults;
mod message;
mod order;
mod settings;
mod tls;
