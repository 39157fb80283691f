//! What the daemon answers operators with, asked over real sockets of a real process.
#![allow(missing_docs, clippy::unwrap_used, reason = "these are tests")]

mod act;
mod client;
mod fuzz;
mod guard;
mod health;
mod job;
mod live;
mod look;
mod metrics;
mod prometheus;
mod roles;
mod scene;
mod shape;
mod tls;
mod token;
