//! Where claims go on from, and how far they look, for stores that look along an index of what is due.
//!
//! A claim may leave topics out, or be about some events only. What it has passed says nothing about those
//! that it was not about: claims of each kind go on from a place of their own.

use std::collections::{BTreeSet, HashSet};

use super::{Claim, Ordering, Reach, Scope};

/// At the end of the due events, look again at this much, in microseconds: commits do not come in
/// the order of their times.
const SLACK: i64 = 100_000;
/// A claim that came to the end, and found nothing or only what is older, is followed by one that looks again at
/// this much: transactions may take long.
const LATE: i64 = 10_000_000;
/// As many kinds of claims have a place. One that is forgotten only has to look further back.
const KINDS: usize = 64;
/// With ordering by key, how many due events to look at, at least.
const LOOK: i64 = 100;
/// And for each event that is wanted, at most: the others wait in their keys.
const WIDEST: i64 = 4;
/// A claim aside looks at so many at least: the first of a key may be due after very many of its followers. Such claims
/// are few: a probe, and what follows it for some seconds.
const LOOK_ASIDE: i64 = 10_000;

/// A place among the due events: when due, in microseconds since the database's own epoch, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor(pub(super) i64, pub(super) i64);

const START: Cursor = Cursor(i64::MIN, 0);

/// How a claim ended.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Where it looked from.
    pub(super) from: Cursor,
    /// The last event that it got, or looked at.
    pub(super) last: Option<Cursor>,
    /// Whether it got any.
    pub(super) got: bool,
    /// Whether it got as many as it may.
    pub(super) full: bool,
    /// Whether there is more.
    pub(super) more: bool,
    /// When it looked, by the database's clock, if that is known. It may be told too early, never too late.
    pub(super) at: Option<i64>,
}

/// Where claims go on from, by their kind, the one that was last used at the end.
#[derive(Default)]
pub(super) struct Cursors(Vec<Place>);

/// Where claims of one kind go on from.
struct Place {
    scope: Scope,
    except_topics: BTreeSet<String>,
    /// Where the last claim ended.
    onward: Cursor,
    /// The furthest that any claim has seen.
    latest: Cursor,
    /// Where claims aside look from.
    aside: Cursor,
    /// Whether going onward came to the end. With order by key only then does it start over:
    /// a line of waiting events may be longer than what one claim looks at.
    at_end: bool,
    /// How many events to look at for each one that is wanted, from the oldest on and elsewhere.
    from_oldest: i64,
    elsewhere: i64,
}

impl Cursors {
    /// Where a claim looks from.
    pub(super) fn from(&mut self, claim: &Claim) -> Cursor {
        match claim.reach {
            Reach::Oldest => START,
            Reach::Aside => self.place(claim).aside,
            Reach::Onward => self.place(claim).onward,
            Reach::Latest => self.place(claim).latest,
        }
    }

    /// How many due events to look at, with ordering by key: no more than it takes to find those that need not wait.
    /// Of a claim for some keys, how many of each.
    pub(super) fn look(&mut self, claim: &Claim) -> i64 {
        let limit = i64::from(claim.limit);
        if !claim.keys.is_empty() {
            return (limit * WIDEST / claim.keys.len() as i64).clamp(1, limit.max(1));
        }
        let look = limit.max(LOOK) * *self.place(claim).width(claim.reach);
        match claim.reach {
            Reach::Aside => look.max(LOOK_ASIDE),
            Reach::Oldest | Reach::Onward | Reach::Latest => look,
        }
    }

    /// Remembers where a claim ended.
    pub(super) fn ended(&mut self, claim: &Claim, end: End) {
        if !claim.keys.is_empty() {
            return;
        }
        let width = self.place(claim).width(claim.reach);
        *width = match end.full {
            true => (*width / 2).max(1),
            false if end.more => (*width * 2).min(WIDEST),
            false => *width,
        };
        if claim.reach == Reach::Aside {
            // From the oldest on, but past a line of events that wait in their keys: those that they wait for may
            // be due later.
            let in_vain = end.last.filter(|_| end.more && !end.got);
            self.place(claim).aside = in_vain.unwrap_or(START);
            return;
        }
        if let Some(at) = end.at.filter(|_| !end.more) {
            // A clock that was set back: what is enqueued now has an earlier place than what is long done.
            let ahead = Cursor(at.saturating_add(SLACK), 0);
            self.0
                .retain(|place| place.onward.max(place.latest) <= ahead);
        }
        let place = self.place(claim);
        place.ended(claim, end);
        let ended = place.onward;
        // Whoever leaves out more has no need to look at what is done.
        let others = self.0.iter_mut().rev().skip(1);
        for other in others.filter(|other| other.leaves_out_what(claim)) {
            if end.from <= other.onward && other.onward < ended {
                other.onward = ended;
                other.latest = other.latest.max(ended);
            }
        }
    }

    /// The place of this kind of claim. A new one begins where those ended that are about all that it is about.
    fn place(&mut self, claim: &Claim) -> &mut Place {
        let left_out: HashSet<&str> = claim.except_topics.iter().map(String::as_str).collect();
        let known = self.0.iter().position(|place| {
            place.is_about_all_of(claim, &left_out) && place.except_topics.len() == left_out.len()
        });
        let place = match known {
            Some(known) => self.0.remove(known),
            None => {
                let wider = self.0.iter();
                let wider = wider.filter(|place| place.is_about_all_of(claim, &left_out));
                let furthest = wider.map(|place| (place.onward, place.latest));
                let (onward, latest) = furthest.max().unwrap_or((START, START));
                Place {
                    scope: claim.scope.clone(),
                    except_topics: claim.except_topics.iter().cloned().collect(),
                    onward,
                    latest,
                    aside: START,
                    at_end: true,
                    from_oldest: 1,
                    elsewhere: 1,
                }
            }
        };
        if self.0.len() >= KINDS {
            self.0.remove(0);
        }
        self.0.push(place);
        self.0.last_mut().expect("pushed just now")
    }
}

impl Place {
    fn width(&mut self, reach: Reach) -> &mut i64 {
        match reach {
            Reach::Oldest => &mut self.from_oldest,
            Reach::Aside | Reach::Onward | Reach::Latest => &mut self.elsewhere,
        }
    }

    fn is_about_all_of(&self, claim: &Claim, left_out: &HashSet<&str>) -> bool {
        self.scope == claim.scope
            && self.except_topics.len() <= left_out.len()
            && self
                .except_topics
                .iter()
                .all(|topic| left_out.contains(topic.as_str()))
    }

    fn leaves_out_what(&self, claim: &Claim) -> bool {
        let mut left_out = claim.except_topics.iter();
        self.scope == claim.scope && left_out.all(|topic| self.except_topics.contains(topic))
    }

    /// Further on while there is more, and a little way back at the end, for those that commit late.
    fn ended(&mut self, claim: &Claim, end: End) {
        let onward = match claim.reach {
            Reach::Oldest => claim.ordering == Ordering::None || self.at_end || !end.more,
            Reach::Onward => true,
            Reach::Latest | Reach::Aside => false,
        };
        if onward {
            self.at_end = !end.more;
        }
        let mut ended = match (end.last, end.more) {
            (Some(last), true) => Some(last),
            (Some(Cursor(at, _)), false) => Some(Cursor(at.saturating_sub(SLACK), 0)),
            (None, _) => None,
        };
        if let Some(at) = end.at.filter(|_| !end.more) {
            // All that was due by then was seen, whatever it was that was found.
            let seen = Cursor(at.saturating_sub(LATE), 0);
            ended = Some(ended.unwrap_or(self.onward).max(seen));
        }
        if let Some(ended) = ended {
            self.latest = self.latest.max(ended);
            if onward {
                self.onward = ended;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const NOW: i64 = 5_000 * SECOND;

    fn claim(reach: Reach, except_topics: &[&str]) -> Claim {
        let except_topics = except_topics.iter().map(|topic| (*topic).to_owned());
        Claim {
            reach,
            except_topics: except_topics.collect(),
            ..Claim::new(10)
        }
    }

    /// Where the next claim onward looks from, after this one.
    fn after(cursors: &mut Cursors, claim: &Claim, last: Option<i64>, more: bool) -> Cursor {
        at(cursors, claim, last, more, NOW)
    }

    fn at(cursors: &mut Cursors, claim: &Claim, last: Option<i64>, more: bool, now: i64) -> Cursor {
        let end = End {
            from: cursors.from(claim),
            last: last.map(|last| Cursor(last, 7)),
            got: last.is_some(),
            full: more,
            more,
            at: Some(now),
        };
        cursors.ended(claim, end);
        cursors.from(&Claim {
            reach: Reach::Onward,
            ..claim.clone()
        })
    }

    #[test]
    fn a_claim_aside_leaves_the_place_where_others_go_on() {
        let mut cursors = Cursors::default();
        after(&mut cursors, &claim(Reach::Oldest, &[]), Some(500), true);
        after(&mut cursors, &claim(Reach::Aside, &[]), Some(100), true);
        assert_eq!(cursors.from(&claim(Reach::Onward, &[])), Cursor(500, 7));
        assert_eq!(cursors.from(&claim(Reach::Aside, &[])), START);
    }

    #[test]
    fn a_claim_aside_goes_past_those_that_it_looked_at_in_vain() {
        let mut cursors = Cursors::default();
        let aside = claim(Reach::Aside, &[]);
        let mut after = |got, more| {
            let end = End {
                from: cursors.from(&aside),
                last: Some(Cursor(100, 7)),
                got,
                full: false,
                more,
                at: None,
            };
            cursors.ended(&aside, end);
            cursors.from(&aside)
        };
        assert_eq!(after(false, true), Cursor(100, 7));
        assert_eq!(after(true, true), START);
        assert_eq!(after(false, true), Cursor(100, 7));
        assert_eq!(after(false, false), START);
    }

    #[test]
    fn what_was_looked_at_in_vain_is_not_looked_at_again_for_ever() {
        let mut cursors = Cursors::default();
        let (oldest, onward) = (claim(Reach::Oldest, &["a"]), claim(Reach::Onward, &["a"]));
        let passed = Cursor(NOW - LATE, 0);
        assert_eq!(after(&mut cursors, &oldest, None, false), passed);
        // Something new was found: it goes on from there while nothing else comes, but not for ever.
        let found = Cursor(NOW - SECOND - SLACK, 0);
        assert_eq!(
            after(&mut cursors, &onward, Some(NOW - SECOND), false),
            found
        );
        assert_eq!(after(&mut cursors, &onward, None, false), found);
        let later = at(&mut cursors, &onward, None, false, NOW + 60 * SECOND);
        assert_eq!(later, Cursor(NOW + 60 * SECOND - LATE, 0));
        // One that came late, and alone.
        let late = at(&mut cursors, &oldest, Some(5), false, NOW + 60 * SECOND);
        assert_eq!(late, Cursor(NOW + 60 * SECOND - LATE, 0));
        // Many that came late.
        let late = at(&mut cursors, &oldest, Some(5), true, NOW + 60 * SECOND);
        assert_eq!(late, Cursor(5, 7));
    }

    #[test]
    fn what_is_left_out_stays_where_it_is() {
        let mut cursors = Cursors::default();
        after(&mut cursors, &claim(Reach::Oldest, &[]), Some(500), true);
        let without = claim(Reach::Onward, &["a"]);
        assert_eq!(cursors.from(&without), Cursor(500, 7));
        after(&mut cursors, &without, Some(NOW - SECOND), false);
        assert_eq!(cursors.from(&claim(Reach::Onward, &[])), Cursor(500, 7));
        // Whoever leaves out more goes on from there, whoever leaves out something else does not.
        let found = Cursor(NOW - SECOND - SLACK, 0);
        assert_eq!(cursors.from(&claim(Reach::Onward, &["b", "a"])), found);
        let other = claim(Reach::Onward, &["b"]);
        assert_eq!(cursors.from(&other), Cursor(500, 7));
        let elsewhere = Claim {
            scope: Scope {
                namespace: Some("shop".to_owned()),
                ..Scope::default()
            },
            ..without
        };
        assert_eq!(cursors.from(&elsewhere), START);
    }

    #[test]
    fn what_is_done_for_all_is_done_for_some_if_nothing_lies_between() {
        let mut cursors = Cursors::default();
        let (all, some) = (claim(Reach::Onward, &[]), claim(Reach::Onward, &["a"]));
        after(&mut cursors, &all, Some(500), true);
        after(&mut cursors, &some, Some(600), true);
        after(&mut cursors, &all, Some(900), true);
        assert_eq!(cursors.from(&some), Cursor(900, 7));
        // Between the oldest and where it went on there is more now.
        after(&mut cursors, &claim(Reach::Oldest, &["a"]), Some(50), true);
        after(&mut cursors, &all, Some(950), true);
        assert_eq!(cursors.from(&some), Cursor(50, 7));
    }

    #[test]
    fn a_clock_that_was_set_back_hides_nothing_for_long() {
        let mut cursors = Cursors::default();
        let (onward, more) = (
            claim(Reach::Onward, &["a"]),
            claim(Reach::Onward, &["a", "b"]),
        );
        after(&mut cursors, &onward, Some(NOW), false);
        after(&mut cursors, &more, Some(NOW), false);
        let before = NOW - 3600 * SECOND;
        let back = Cursor(before - LATE, 0);
        assert_eq!(at(&mut cursors, &onward, None, false, before), back);
        assert_eq!(cursors.from(&more), back);
        assert_eq!(cursors.from(&claim(Reach::Latest, &["a"])), back);
    }

    #[test]
    fn a_look_is_as_wide_as_it_takes_to_find_what_need_not_wait() {
        let mut cursors = Cursors::default();
        let wanted = |reach| Claim {
            limit: 500,
            ..claim(reach, &[])
        };
        let mut of_keys = Claim {
            keys: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
            ..wanted(Reach::Oldest)
        };
        let (oldest, onward) = (wanted(Reach::Oldest), wanted(Reach::Onward));
        let mut after = |claim: &Claim, full, more| {
            let end = End {
                from: START,
                last: Some(Cursor(100, 7)),
                got: full,
                full,
                more,
                at: None,
            };
            cursors.ended(claim, end);
            (cursors.look(&oldest), cursors.look(&onward))
        };
        assert_eq!(after(&onward, true, true), (500, 500));
        assert_eq!(after(&onward, false, true), (500, 1000));
        assert_eq!(after(&onward, false, true), (500, 2000));
        assert_eq!(after(&onward, false, true), (500, 2000));
        assert_eq!(after(&onward, false, false), (500, 2000));
        assert_eq!(after(&oldest, false, true), (1000, 2000));
        assert_eq!(after(&onward, true, true), (1000, 1000));
        assert_eq!(after(&of_keys, false, true), (1000, 1000));
        assert_eq!(
            cursors.look(&claim(Reach::Oldest, &[])),
            2 * LOOK,
            "for ten"
        );
        assert_eq!(cursors.look(&of_keys), 500);
        of_keys.keys = (0..9).map(|n| n.to_string()).collect();
        assert_eq!(cursors.look(&of_keys), 222);
        of_keys.keys = (0..5000).map(|n| n.to_string()).collect();
        assert_eq!(cursors.look(&of_keys), 1);
        assert_eq!(cursors.look(&wanted(Reach::Aside)), LOOK_ASIDE);
    }

    #[test]
    fn only_so_many_kinds_of_claims_have_a_place() {
        let mut cursors = Cursors::default();
        for kind in 0..100 {
            cursors.from(&claim(Reach::Onward, &[&kind.to_string()]));
        }
        assert_eq!(cursors.0.len(), KINDS);
    }
}
