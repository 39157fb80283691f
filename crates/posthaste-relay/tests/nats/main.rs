//! NATS JetStream, on real servers: one file for each theme. What arrives is read by nats-py.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

#[path = "../authority/mod.rs"]
mod authority;
mod keys;
mod stream;

mod answers;
mod check;
mod cluster;
mod contract;
mod faults;
mod login;
mod message;
mod order;
mod settings;
