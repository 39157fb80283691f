//! The store on SQLite does what every store does, and what only SQLite can be asked.

use posthaste_testkit::bed::OnSqlite;

posthaste_testkit::conformance!(OnSqlite::new());
