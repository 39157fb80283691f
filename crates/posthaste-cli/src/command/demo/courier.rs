//! The courier: a destination with the troubles that real ones have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::Event;
use posthaste_relay::sink::{Outcome, Sink};

use super::ledger::Ledger;

/// The courier is away for the last part of each round.
const ROUND: Duration = Duration::from_secs(9);
const AWAY: Duration = Duration::from_secs(2);

pub(super) struct Courier {
    ledger: Arc<Ledger>,
    started: Instant,
    away: AtomicBool,
}

impl Courier {
    pub(super) fn new(ledger: Arc<Ledger>) -> Self {
        Self {
            ledger,
            started: Instant::now(),
            away: AtomicBool::new(false),
        }
    }

    fn is_away(&self) -> bool {
        let into_round = self.started.elapsed().as_secs_f64() % ROUND.as_secs_f64();
        let away = into_round > (ROUND - AWAY).as_secs_f64();
        match (self.away.swap(away, Ordering::Relaxed), away) {
            (false, true) => self
                .ledger
                .note("the courier is away: events wait, and no attempt is spent"),
            (true, false) => self.ledger.note("the courier is back"),
            _ => {}
        }
        away
    }
}

#[async_trait]
impl Sink for Courier {
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        if self.is_away() {
            return Outcome::Unavailable("the courier is away".into());
        }
        tokio::time::sleep(Duration::from_millis(5).mul_f64(1.0 + 7.0 * rand::random::<f64>()))
            .await;
        let item = event.headers.get("item").map_or("", String::as_str);
        let outcome = match item {
            "anvil" => Outcome::Reject("too heavy for any courier".into()),
            "piano" => Outcome::Reject("it does not fit through the door".into()),
            "vase" if event.attempts < 3 => Outcome::Retry("it slipped".into()),
            _ if rand::random::<f64>() < 0.03 => Outcome::Retry("nobody was at home".into()),
            _ => Outcome::Delivered,
        };
        self.ledger.tried(&event, &outcome);
        outcome
    }
}
