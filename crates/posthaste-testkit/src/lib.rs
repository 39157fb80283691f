//! What every store and sink must pass.

pub mod server;
