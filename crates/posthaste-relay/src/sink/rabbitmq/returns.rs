//! Which of the confirmed messages came back. Pure.
//!
//! A message that no queue gets is returned, and confirmed all the same; the return comes first. lapin
//! queues returns, and gives the first of them to whichever confirmation comes next, which with many
//! messages on their way is mostly somebody else's. So every return is put to the message whose id it
//! carries, and a confirmation that came with another's return says nothing yet: its own return may
//! be the next in lapin's queue.

use std::collections::HashMap;

use uuid::Uuid;

/// What the server made of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Confirmed,
    /// Some queue did not take it.
    Nacked,
    /// No queue got it: what the server said.
    Returned(String),
}

#[derive(Debug, Default)]
pub(super) struct Returns {
    /// Came back, and no verdict was given yet.
    returned: HashMap<Uuid, String>,
    /// Confirmed alone, or with their own return.
    clear: Vec<(Uuid, Verdict)>,
    /// Confirmed with another's return.
    doubtful: Vec<(Uuid, Verdict)>,
}

impl Returns {
    /// A confirmation, with the return that lapin gave to it.
    pub(super) fn confirmed(&mut self, id: Uuid, said: Verdict, beside: Option<(Uuid, String)>) {
        match beside {
            Some((other, why)) => {
                self.returned.insert(other, why);
                match other == id {
                    true => self.clear.push((id, said)),
                    false => self.doubtful.push((id, said)),
                }
            }
            None => self.clear.push((id, said)),
        }
    }

    /// What is certain by now. To be asked once all confirmations were told that came before any that
    /// was told.
    ///
    /// A message that was confirmed alone found lapin's queue empty, so that its return, if there is
    /// one, was told before. Once every return that was told has found its message, all that may
    /// still be in the queue are returns of messages that are not confirmed: then the doubtful ones were
    /// not returned.
    pub(super) fn judged(&mut self) -> Vec<(Uuid, Verdict)> {
        let returned = &mut self.returned;
        let mut judged: Vec<_> = self
            .clear
            .drain(..)
            .map(|(id, said)| match returned.remove(&id) {
                Some(why) => (id, Verdict::Returned(why)),
                None => (id, said),
            })
            .collect();
        self.doubtful.retain(|(id, _)| match returned.remove(id) {
            Some(why) => {
                judged.push((*id, Verdict::Returned(why)));
                false
            }
            None => true,
        });
        if returned.is_empty() {
            judged.append(&mut self.doubtful);
        }
        judged
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};

    use proptest::prelude::*;

    use super::*;

    fn id(n: usize) -> Uuid {
        Uuid::from_u128(n as u128)
    }

    /// lapin's queue of returns, and a server that returns some messages and confirms all.
    #[derive(Debug, Default)]
    struct Lapin {
        queue: VecDeque<usize>,
    }

    impl Lapin {
        fn confirm(&mut self) -> Option<(Uuid, String)> {
            let first = self.queue.pop_front()?;
            Some((id(first), format!("return of {first}")))
        }
    }

    // F5
    #[test]
    fn a_return_given_to_a_neighbour_is_not_the_neighbours() {
        let (mut lapin, mut returns) = (Lapin::default(), Returns::default());
        // 1 is returned, then 0 is confirmed, then 1.
        lapin.queue.push_back(1);
        returns.confirmed(id(0), Verdict::Confirmed, lapin.confirm());
        assert_eq!(returns.judged(), []);
        returns.confirmed(id(1), Verdict::Confirmed, lapin.confirm());
        let returned = Verdict::Returned("return of 1".to_owned());
        let expected = [(id(1), returned), (id(0), Verdict::Confirmed)];
        assert_eq!(returns.judged(), expected);
    }

    // F5
    #[test]
    fn two_that_got_each_others_return_were_both_returned() {
        let (mut lapin, mut returns) = (Lapin::default(), Returns::default());
        lapin.queue.extend([0, 1]);
        returns.confirmed(id(1), Verdict::Confirmed, lapin.confirm());
        assert_eq!(returns.judged(), []);
        returns.confirmed(id(0), Verdict::Confirmed, lapin.confirm());
        let judged = returns.judged();
        assert_eq!(judged.len(), 2);
        assert!(
            judged
                .iter()
                .all(|(_, verdict)| matches!(verdict, Verdict::Returned(_)))
        );
    }

    proptest! {
        // F5: whatever is returned, and in whatever order things are confirmed and looked at.
        #[test]
        fn every_message_gets_its_own_verdict(
            messages in proptest::collection::vec((any::<bool>(), any::<u16>(), any::<u16>(), any::<bool>()), 0..60),
        ) {
            // Each message is returned, or not, at one time, and confirmed at a later one.
            let mut steps = Vec::new();
            for (n, (is_returned, at, later, _)) in messages.iter().enumerate() {
                let at = u32::from(*at);
                if *is_returned {
                    steps.push((at, 0, n));
                }
                steps.push((at + u32::from(*later), 1, n));
            }
            steps.sort_unstable();
            let (mut lapin, mut returns) = (Lapin::default(), Returns::default());
            let mut judged = Vec::new();
            for (_, what, n) in steps {
                match what {
                    0 => lapin.queue.push_back(n),
                    _ => {
                        returns.confirmed(id(n), Verdict::Confirmed, lapin.confirm());
                        if messages[n].3 {
                            judged.extend(returns.judged());
                        }
                    }
                }
            }
            judged.extend(returns.judged());
            let ids: HashSet<_> = judged.iter().map(|(id, _)| *id).collect();
            prop_assert_eq!((judged.len(), ids.len()), (messages.len(), messages.len()));
            for (found, verdict) in judged {
                let n = usize::try_from(found.as_u128()).unwrap();
                let expected = match messages[n].0 {
                    true => Verdict::Returned(format!("return of {n}")),
                    false => Verdict::Confirmed,
                };
                prop_assert_eq!(verdict, expected);
            }
        }
    }
}
