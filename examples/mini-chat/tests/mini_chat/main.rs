//! Mini Chat does what its document says: each requirement, by its id in `requirements.toml`.
#![allow(missing_docs, clippy::unwrap_used, reason = "these are tests")]

mod configuration;
mod dispatch;
mod enqueue;
mod fail;
mod program;
mod recover;
mod support;
mod table;
