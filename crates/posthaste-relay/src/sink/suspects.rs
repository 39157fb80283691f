//! Events during whose delivery the connection broke.
//!
//! Mostly the destination went down, which is not their fault. But one that breaks the
//! connection every time would hold up all others for ever, if it were never blamed.

use std::collections::HashMap;
use std::sync::Mutex;

use posthaste::Event;
use uuid::Uuid;

use super::Outcome;

/// After this many broken connections, the event is to blame.
const PATIENCE: u8 = 3;
/// How many are remembered: more break at the same time only when the destination goes down.
const REMEMBERED: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Suspects(Mutex<HashMap<Uuid, u8>>);

impl Suspects {
    /// The connection broke while this was delivered, with no answer.
    pub(crate) fn disconnected(&self, event: &Event, why: String) -> Outcome {
        let mut suspects = self.0.lock().expect("not poisoned");
        if suspects.len() >= REMEMBERED && !suspects.contains_key(&event.id) {
            suspects.clear();
        }
        let times = suspects.entry(event.id).or_insert(0);
        *times = times.saturating_add(1);
        match *times > PATIENCE {
            true => Outcome::Retry(why),
            false => Outcome::Unavailable(why),
        }
    }

    /// It was answered.
    pub(crate) fn cleared(&self, event: &Event) {
        self.0.lock().expect("not poisoned").remove(&event.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    // F9
    #[tokio::test]
    async fn an_event_that_breaks_every_connection_is_blamed_in_the_end() {
        let (event, suspects) = (sample::plain().await, Suspects::default());
        let breaks = || suspects.disconnected(&event, "reset".to_owned());
        for _ in 0..PATIENCE {
            assert_eq!(breaks(), Outcome::Unavailable("reset".to_owned()));
        }
        assert_eq!(breaks(), Outcome::Retry("reset".to_owned()));
        suspects.cleared(&event);
        assert_eq!(breaks(), Outcome::Unavailable("reset".to_owned()));
    }
}
