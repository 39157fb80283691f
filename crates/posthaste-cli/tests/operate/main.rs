//! The commands as a user runs them: a real process on a real database, in a pipe and in a terminal.
#![allow(missing_docs, clippy::unwrap_used, reason = "these are tests")]

mod act;
mod ends;
mod follow;
mod job;
mod look;
#[path = "../pty/mod.rs"]
mod pty;
mod steer;
mod support;
mod terminal;
