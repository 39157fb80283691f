//! Webhooks, to real servers over real sockets: one file for each theme.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod endpoint;

mod answers;
mod busy;
mod contract;
mod faults;
mod flow;
mod guard;
mod message;
mod order;
mod outage;
mod settings;
mod tls;
