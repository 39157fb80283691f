//! The order service on real servers. Each test has a database of its own; what arrived in Kafka is read by a
//! client in Python. The settings are always those of the document.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod scene;

mod failed;
mod order;
mod outage;
mod profile;
