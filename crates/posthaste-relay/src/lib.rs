//! Claims events from an outbox and delivers them at least once.
