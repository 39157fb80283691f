//! What the crate does to a real SQLite file: one module for each theme.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "these are tests"
)]

#[cfg(feature = "zstd")]
mod compress;
mod drivers;
mod enqueue;
mod foreign_rows;
mod other_languages;
mod schema;
mod store;
