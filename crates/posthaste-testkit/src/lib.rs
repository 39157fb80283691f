//! What every store and sink must pass, with real servers and real faults.
//!
//! [`server`] starts the servers and needs nothing but std; the feature `suite` (on by default)
//! adds [`outbox`] and [`mod@file`], a fresh outbox for each test, [`scene`], what tests of whole systems
//! share, and [`mod@conformance`], the behaviour of a store; `sinks` adds `sink_contract`, the behaviour of a sink.

#[cfg(feature = "suite")]
pub mod bed;
#[cfg(feature = "suite")]
pub mod conformance;
#[cfg(feature = "suite")]
pub mod disk;
#[cfg(feature = "suite")]
pub mod file;
#[cfg(feature = "suite")]
pub mod outbox;
#[cfg(feature = "suite")]
pub mod scene;
pub mod server;
#[cfg(feature = "sinks")]
pub mod sink_contract;
