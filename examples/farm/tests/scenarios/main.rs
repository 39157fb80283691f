//! The farm on real servers: what is saved, what arrives, and the four failures of the document, played out. Each
//! test has a database of its own; what arrived in RabbitMQ is read by a client in Python.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod scene;

mod broker;
mod deserialise;
mod flow;
mod health;
mod profile;
mod program;
mod save;
