//! Logistics on real servers: eight worker processes on one outbox, some of them killed; retries; and what a real
//! Prometheus reads. Each test has a database of its own; what arrived in RabbitMQ is read by a client in Python.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod scene;

mod kill;
mod metrics;
mod order;
mod profile;
mod program;
mod retry;
