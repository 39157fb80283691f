//! The whole flow with real processes and real faults. Two ledgers decide: what producers
//! committed, and what consumers were given. See `ledger.rs` for the verdict.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod ledger;
mod producer;
mod proxy;
mod scene;

mod crowd;
mod database;
mod kill;
mod lead;
mod machine;
mod sqlite;
mod stop;
mod zombie;
