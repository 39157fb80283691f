//! Where claims go on from, for stores that look along an index of what is due.

use super::{Claim, Ordering, Reach};

/// At the end of the due events, look again at this much, in microseconds: commits do not come in
/// the order of their times.
const SLACK: i64 = 100_000;

/// A place among the due events: when due, in microseconds since the database's own epoch, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor(pub(super) i64, pub(super) i64);

const START: Cursor = Cursor(i64::MIN, 0);

/// Where claims go on from.
pub(super) struct Cursors {
    /// Where the last claim ended.
    onward: Cursor,
    /// The furthest that any claim has seen.
    latest: Cursor,
    /// Whether going onward came to the end. With order by key only then does it start over:
    /// a line of waiting events may be longer than what one claim looks at.
    at_end: bool,
}

impl Default for Cursors {
    fn default() -> Self {
        Self {
            onward: START,
            latest: START,
            at_end: true,
        }
    }
}

impl Cursors {
    /// Where a claim looks from.
    pub(super) fn from(&self, reach: Reach) -> Cursor {
        match reach {
            Reach::Oldest | Reach::Aside => START,
            Reach::Onward => self.onward,
            Reach::Latest => self.latest,
        }
    }

    /// Remembers where a claim ended: further on while there is more, and a little way back
    /// at the end, for those that commit late.
    pub(super) fn ended(&mut self, claim: &Claim, last: Option<Cursor>, more: bool) {
        let onward = match claim.reach {
            Reach::Oldest => claim.ordering == Ordering::None || self.at_end || !more,
            Reach::Onward => true,
            Reach::Latest => false,
            Reach::Aside => return,
        };
        if onward {
            self.at_end = !more;
        }
        let Some(Cursor(at, sequence)) = last else {
            return;
        };
        let ended = match more {
            true => Cursor(at, sequence),
            false => Cursor(at.saturating_sub(SLACK), 0),
        };
        self.latest = self.latest.max(ended);
        if onward {
            self.onward = ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_aside_leaves_the_place_where_others_go_on() {
        let mut cursors = Cursors::default();
        let claim = |reach| Claim {
            reach,
            ..Claim::new(10)
        };
        cursors.ended(&claim(Reach::Oldest), Some(Cursor(500, 5)), true);
        cursors.ended(&claim(Reach::Aside), Some(Cursor(100, 1)), true);
        assert_eq!(cursors.from(Reach::Onward), Cursor(500, 5));
        assert_eq!(cursors.from(Reach::Aside), START);
    }
}
