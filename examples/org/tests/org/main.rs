//! The service does what its document says: each requirement, by its id in `requirements.toml`.
#![allow(missing_docs, clippy::unwrap_used, reason = "these are tests")]

mod active;
mod clean;
mod enqueue;
mod environment;
mod fail;
mod handle;
mod program;
mod support;
mod table;
