//! What the crate does to a real PostgreSQL: one module for each theme.
//!
//! The server is the one of `POSTHASTE_TEST_POSTGRES`, which `cargo xtask test` sets.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "these are tests"
)]

mod aggregate;
mod bad_input;
#[cfg(feature = "zstd")]
mod compress;
mod drivers;
mod enqueue;
mod enqueue_twice;
mod foreign_rows;
mod inbox;
mod other_languages;
mod roles;
mod schema;
mod wire;
