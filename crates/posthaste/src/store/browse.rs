//! Browsing: pages of events by the time at which they ended or are due, whatever the size of the outbox.
//!
//! A page follows the indexes that the relay needs anyway, and looks at a bounded number of events. See
//! docs/decisions/0021-pages-follow-the-indexes-that-are-there.md.

use super::Mark;
use crate::event::Record;

/// A page looks at so many events of each status at most, however few of them match.
pub const PAGE_LOOK: u32 = 10_000;

/// Which end of the outbox comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// What ended, or is due, last.
    #[default]
    NewestFirst,
    /// What ended, or is due, first.
    OldestFirst,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The events, in order.
    pub records: Vec<Record>,
    /// Where to go on. It may be there although fewer events were found than asked for, or none:
    /// then those that were looked at do not match, and the next ones may. `None`: that was all.
    pub next: Option<Mark>,
}

impl Page {
    /// The page of these events, which are all that match.
    pub(super) fn of(
        mut records: Vec<Record>,
        order: Order,
        from: Option<Mark>,
        limit: u32,
    ) -> Self {
        records.sort_by_key(Record::place);
        match order {
            Order::OldestFirst => records.retain(|record| from.is_none_or(|f| record.place() > f)),
            Order::NewestFirst => {
                records.retain(|record| from.is_none_or(|f| record.place() < f));
                records.reverse();
            }
        }
        let limit = limit as usize;
        records.truncate(limit);
        let next = records.last().filter(|_| records.len() == limit);
        Self {
            next: next.map(Record::place),
            records,
        }
    }
}

impl Record {
    /// Where it stands among others: when it was delivered or died, or else when it is due.
    pub fn place(&self) -> Mark {
        self.mark().unwrap_or(Mark {
            at: self.next_attempt_at,
            sequence: self.sequence,
        })
    }
}
