//! Which destination an event goes to: by its topic, first match wins.

pub use posthaste::Pattern;
