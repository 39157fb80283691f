//! What the whole of the configuration promises.
