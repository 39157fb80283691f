//! The daemon, and what sets it up and examines it, as real processes on real databases.
#![allow(missing_docs, clippy::unwrap_used, reason = "these are tests")]

mod canary;
mod demo;
mod doctor;
mod help;
mod issue;
mod migrate;
mod outage;
mod place;
mod process;
#[path = "../pty/mod.rs"]
mod pty;
mod rabbitmq;
mod refuse;
mod run;
mod sink;
mod stop;
mod supervisor;
mod switch;
mod trace;
