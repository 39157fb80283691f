//! Runs the producers of this folder, and keeps the ledgers that show what became of their orders.
//!
//! The producers themselves are in `go/`, `java/`, `python/`, `sql/` and `typescript/`: each is a program of
//! its own, and knows nothing of Rust. Here is only what starts and watches them.

mod gate;
mod ledger;
mod plan;
mod producer;
mod shop;

pub use ledger::{Ledger, Totals};
pub use plan::{Run, orders, produce, races, runs};
pub use producer::{LANGUAGES, Line, Mode, Outcome, Producer, Way};
pub use shop::{Relaying, Shop};

/// What goes wrong is told, and ends everything.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
