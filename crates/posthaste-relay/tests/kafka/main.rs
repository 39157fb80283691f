//! Kafka, as a real server: one file for each theme. What arrived is read by a client in Python.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod cluster;
mod load;

mod access;
mod contract;
mod failures;
mod flow;
mod looks;
mod message;
mod order;
mod outage;
mod settings;
