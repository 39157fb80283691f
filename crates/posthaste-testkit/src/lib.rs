//! What every store and sink must pass.

#[cfg(feature = "suite")]
pub mod outbox;
pub mod server;
