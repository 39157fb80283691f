//! What every store and sink must pass.
