//! Who places which orders: every producer does everything that it can, at the same time as the others.

use posthaste_testkit::server::Language;

use crate::gate::Gate;
use crate::{Line, Mode, Producer, Result, Way};

/// Orders for each way and mode.
const ORDERS: u32 = 5;

/// What one producer said in one run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The producer's language.
    pub language: Language,
    /// How it enqueued.
    pub way: Way,
    /// What it did.
    pub mode: Mode,
    /// What it said.
    pub lines: Vec<Line>,
}

/// Every way with every mode.
pub fn runs() -> impl Iterator<Item = (Way, Mode)> {
    let with_each_mode = |way| Mode::ALL.map(|mode| (way, mode));
    Way::ALL.into_iter().flat_map(with_each_mode)
}

/// The numbers of the orders of a run: the same for every producer.
pub fn orders(way: Way, mode: Mode) -> Vec<u32> {
    let first = runs()
        .zip((0..).step_by(100))
        .find(|(run, _)| *run == (way, mode))
        .map_or(0, |(_, first)| first);
    (first + 1..=first + ORDERS).collect()
}

/// The orders that all producers place with one dedupe key for each.
pub fn races() -> Vec<u32> {
    let of = |way| orders(way, Mode::Race);
    Way::ALL.into_iter().flat_map(of).collect()
}

/// Lets the producers loose on the database, run by run, all at once in each.
pub async fn produce(producers: &[Producer], address: &str) -> Result<Vec<Run>> {
    let mut done = Vec::new();
    for (way, mode) in runs() {
        let gate = match (mode, orders(way, mode).first()) {
            (Mode::Race, Some(first)) => Some(Gate::shut(address, *first).await?),
            _ => None,
        };
        let mut running = Vec::new();
        for producer in producers {
            let (producer, address) = (producer.clone(), address.to_owned());
            running.push(tokio::task::spawn_blocking(move || {
                let lines = producer.run(&address, way, mode, &orders(way, mode));
                (producer.language, lines)
            }));
        }
        if let Some(gate) = gate {
            gate.open(producers.len()).await?;
        }
        for run in running {
            let (language, lines) = run.await?;
            done.push(Run {
                language,
                way,
                mode,
                lines: lines?,
            });
        }
    }
    Ok(done)
}
