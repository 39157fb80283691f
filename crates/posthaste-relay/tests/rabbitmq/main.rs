//! RabbitMQ, a real one: one file for each theme. What arrives is read with pika.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod place;

mod check;
mod contract;
mod failures;
mod faults;
mod flow;
mod message;
mod order;
mod returns;
mod tls;
