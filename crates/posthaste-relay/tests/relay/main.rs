//! The relay on a real PostgreSQL: one file for each theme.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod support;

mod deliver;
mod failure;
