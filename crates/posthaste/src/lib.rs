//! Enqueue events inside your own database transaction.
