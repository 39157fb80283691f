//! The two ledgers, and the verdict over them that every scenario ends with.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use uuid::Uuid;

/// What producers did.
#[derive(Debug, Default)]
pub(crate) struct Produced {
    pub(crate) committed: HashSet<Uuid>,
    pub(crate) rolled_back: HashSet<Uuid>,
    /// The connection broke during the commit: nobody can tell.
    pub(crate) unsure: HashSet<Uuid>,
}

impl Produced {
    pub(crate) fn add(&mut self, other: Self) {
        self.committed.extend(other.committed);
        self.rolled_back.extend(other.rolled_back);
        self.unsure.extend(other.unsure);
    }
}

/// One delivery, as a consumer saw it.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) relay: u32,
    pub(crate) id: Uuid,
    pub(crate) sequence: i64,
    pub(crate) attempts: u32,
    pub(crate) key: String,
}

/// What consumers were given, in order, and what else the relays wrote down.
#[derive(Debug, Default)]
pub(crate) struct Consumed {
    pub(crate) deliveries: Vec<Delivery>,
    /// Settlements that were refused, by relay.
    pub(crate) lost: HashMap<u32, usize>,
    /// Relays that were ready to work.
    pub(crate) ready: HashSet<u32>,
}

impl Consumed {
    pub(crate) fn read(ledger: &Path) -> Self {
        let text = std::fs::read_to_string(ledger).unwrap_or_default();
        let mut consumed = Self::default();
        // A line that has no end yet is still being written.
        for line in text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let relay = words[1].parse().unwrap();
            match words[0] {
                "D" => consumed.deliveries.push(Delivery {
                    relay,
                    id: words[3].parse().unwrap(),
                    sequence: words[4].parse().unwrap(),
                    attempts: words[5].parse().unwrap(),
                    key: words[6].to_owned(),
                }),
                "L" => {
                    *consumed.lost.entry(relay).or_default() += words[3].parse::<usize>().unwrap()
                }
                _ => drop(consumed.ready.insert(relay)),
            }
        }
        consumed
    }

    pub(crate) fn ids(&self) -> HashSet<Uuid> {
        self.deliveries.iter().map(|delivery| delivery.id).collect()
    }

    pub(crate) fn by(&self, relay: u32) -> usize {
        self.deliveries
            .iter()
            .filter(|delivery| delivery.relay == relay)
            .count()
    }

    /// Deliveries of events that had been delivered before.
    pub(crate) fn repeats(&self) -> usize {
        self.deliveries.len() - self.ids().len()
    }
}

/// What was done to the relays, and so may show in the consumers' ledger.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// How often, for each relay that something was done to.
    pub(crate) of: HashMap<u32, usize>,
    /// How many events a relay has in hand at most: what one fault can cause to be repeated.
    pub(crate) in_hand: usize,
    /// Whether events of a key must come in sequence.
    pub(crate) ordered: bool,
}

impl Faults {
    pub(crate) fn hit(&mut self, relay: u32) {
        *self.of.entry(relay).or_default() += 1;
    }
}

/// Nothing lost, nothing phantom, nothing repeated without a fault that explains it, and if it
/// is asked for, every key in sequence.
pub(crate) fn verdict(produced: &Produced, consumed: &Consumed, faults: &Faults) {
    let delivered = consumed.ids();
    let lost: Vec<&Uuid> = produced.committed.difference(&delivered).collect();
    assert!(lost.is_empty(), "{} events are lost: {lost:?}", lost.len());

    for id in &delivered {
        let real = produced.committed.contains(id) || produced.unsure.contains(id);
        let rolled_back = produced.rolled_back.contains(id);
        assert!(real, "event {id} is a phantom (rolled back: {rolled_back})");
    }

    let mut of_event: HashMap<Uuid, Vec<u32>> = HashMap::new();
    for delivery in &consumed.deliveries {
        of_event
            .entry(delivery.id)
            .or_default()
            .push(delivery.relay);
    }
    for (id, relays) in &of_event {
        // Of all deliveries of an event, only one can be by a relay that nothing was done to.
        let sound = relays
            .iter()
            .filter(|relay| !faults.of.contains_key(relay))
            .count();
        assert!(
            sound <= 1,
            "event {id} was repeated by sound relays: {relays:?}"
        );
        let explained = relays.len() - sound;
        assert!(
            relays.len() - 1 <= explained,
            "nothing explains {relays:?} for event {id}"
        );
    }
    let bound = faults.of.values().sum::<usize>() * faults.in_hand;
    let repeats = consumed.repeats();
    assert!(
        repeats <= bound,
        "{repeats} repeats, and the faults explain {bound}"
    );

    if faults.ordered {
        let mut first = HashSet::new();
        let mut last: HashMap<&str, i64> = HashMap::new();
        for delivery in consumed
            .deliveries
            .iter()
            .filter(|delivery| first.insert(delivery.id))
        {
            if let Some(before) = last.insert(&delivery.key, delivery.sequence) {
                let (key, sequence) = (&delivery.key, delivery.sequence);
                assert!(
                    before < sequence,
                    "key {key}: {sequence} came after {before}"
                );
            }
        }
    }
}

/// The verdict itself must find what it is there to find.
#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(relay: u32, n: u128) -> Delivery {
        Delivery {
            relay,
            id: Uuid::from_u128(n),
            sequence: n as i64,
            attempts: 1,
            key: "k".to_owned(),
        }
    }

    /// Events 1 to 3 are committed and 9 is rolled back; relay 7 has had a fault.
    fn finds(deliveries: &[(u32, u128)]) -> Option<String> {
        let produced = Produced {
            committed: (1..=3).map(Uuid::from_u128).collect(),
            rolled_back: HashSet::from([Uuid::from_u128(9)]),
            unsure: HashSet::new(),
        };
        let consumed = Consumed {
            deliveries: deliveries
                .iter()
                .map(|(relay, n)| delivery(*relay, *n))
                .collect(),
            ..Consumed::default()
        };
        let faults = Faults {
            of: HashMap::from([(7, 1)]),
            in_hand: 2,
            ordered: true,
        };
        let caught = std::panic::catch_unwind(|| verdict(&produced, &consumed, &faults));
        caught
            .err()
            .map(|panic| *panic.downcast::<String>().unwrap())
    }

    #[test]
    fn the_verdict_finds_what_is_lost_phantom_repeated_or_out_of_order() {
        assert_eq!(finds(&[(1, 1), (1, 2), (2, 3)]), None);
        assert_eq!(finds(&[(7, 1), (1, 1), (1, 2), (2, 3)]), None);
        for (deliveries, word) in [
            (&[(1, 1), (1, 3)][..], "lost"),
            (&[(1, 1), (1, 2), (1, 3), (1, 9)], "phantom"),
            (
                &[(1, 1), (2, 1), (1, 2), (1, 3)],
                "repeated by sound relays",
            ),
            (
                &[(7, 1), (7, 2), (7, 3), (1, 1), (1, 2), (1, 3)],
                "3 repeats",
            ),
            (&[(1, 1), (1, 3), (1, 2)], "came after"),
        ] {
            let found = finds(deliveries).expect("it finds fault");
            assert!(found.contains(word), "{word}: {found}");
        }
    }
}
