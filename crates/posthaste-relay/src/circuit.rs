//! The circuit of one destination: an outage is not the fault of the events.
//!
//! Pure: the time and the random number are inputs.
//!
//! ```text
//! closed ──unavailable──► open ──(its time is over)──► one probe
//!   ▲         or busy      ▲                              │
//!   │                      └────unavailable or busy───────┤
//!   └──(wide enough)── ramping ◄────────answered──────────┘
//! ```

use std::time::{Duration, Instant};

use uuid::Uuid;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A probe is one delivery: a destination that is back is not kept waiting for long.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A destination may ask to be left alone for this long at most. It may be one event that it cannot bear: the
/// others must not wait for ever.
const LONGEST_WISH: Duration = Duration::from_secs(300);
/// A ramp this wide is no longer a limit, nor is one that has gone well for this long: where little is
/// sent, hundreds of answers could take days.
const FULL: usize = 512;
const LONG_ENOUGH: Duration = Duration::from_secs(5);
/// If so many events in a row get no answer, and nothing else gets one, it is not their fault.
const SILENCES: u32 = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Circuit {
    state: State,
    /// Outages in a row, without an answer in between.
    outages: u32,
    /// Events in a row that got no answer, and the last of them.
    silences: u32,
    unanswered: Option<Uuid>,
    /// The event of the last probe that failed.
    probed: Option<Uuid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Instant },
    Ramping { window: usize, since: Instant },
}

/// How much a destination takes right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Freely,
    /// This many at the same time.
    AtMost(usize),
    /// Nothing before this.
    Nothing(Instant),
}

impl Circuit {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Closed,
            outages: 0,
            silences: 0,
            unanswered: None,
            probed: None,
        }
    }

    pub(crate) fn admission(&self, now: Instant) -> Admission {
        match self.state {
            State::Closed => Admission::Freely,
            State::Open { until } if now < until => Admission::Nothing(until),
            State::Open { .. } => Admission::AtMost(1),
            State::Ramping { window, .. } => Admission::AtMost(window),
        }
    }

    /// The destination answered, be it with a refusal.
    pub(crate) fn answered(&mut self, now: Instant) {
        (self.silences, self.unanswered) = (0, None);
        self.state = match self.state {
            State::Closed => State::Closed,
            // An answer to something sent before the outage says nothing about now.
            State::Open { until } if now < until => return,
            State::Open { .. } => State::Ramping {
                window: 2,
                since: now,
            },
            State::Ramping { window, since } if window >= FULL || now >= since + LONG_ENOUGH => {
                State::Closed
            }
            State::Ramping { window, since } => State::Ramping {
                window: window + 1,
                since,
            },
        };
        if self.state == State::Closed {
            self.outages = 0;
        }
    }

    /// No answer came in time to this event. While the destination is up, that may be the event's own fault,
    /// unless others get none either; of a probe it says that the destination is still down. Gives back
    /// whether that opened the circuit.
    pub(crate) fn silent(&mut self, event: Uuid, now: Instant, random: f64) -> bool {
        if self.unanswered.replace(event) != Some(event) {
            self.silences = self.silences.saturating_add(1);
        }
        let is_down = match self.state {
            State::Open { .. } => true,
            State::Closed | State::Ramping { .. } => self.silences >= SILENCES,
        };
        is_down && self.unavailable(now, random)
    }

    /// The destination could not be reached. Gives back whether that opened the circuit.
    pub(crate) fn unavailable(&mut self, now: Instant, random: f64) -> bool {
        if matches!(self.state, State::Open { until } if now < until) {
            return false;
        }
        let pause = FIRST_PAUSE
            .saturating_mul(1 << self.outages.min(16))
            .min(LONGEST_PAUSE);
        self.outages = self.outages.saturating_add(1);
        self.state = State::Open {
            until: now + pause.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0),
        };
        true
    }

    /// The destination answered that it wants to be left alone for this long. Gives back whether that opened
    /// the circuit.
    pub(crate) fn busy(&mut self, now: Instant, wish: Duration) -> bool {
        (self.silences, self.unanswered) = (0, None);
        let wished = now + wish.min(LONGEST_WISH);
        let (until, opened) = match self.state {
            State::Open { until } if now < until => (until.max(wished), false),
            _ => (wished, true),
        };
        self.state = State::Open { until };
        opened
    }

    /// A probe with this event failed. Gives back whether the one before it was with the same event.
    pub(crate) fn failed_again(&mut self, event: Uuid) -> bool {
        self.probed.replace(event) == Some(event)
    }

    /// Nothing more is to be sent. Gives back whether that is the end of a ramp, which has gone well for long enough.
    pub(crate) fn rests(&mut self, now: Instant) -> bool {
        let is_over =
            matches!(self.state, State::Ramping { since, .. } if now >= since + LONG_ENOUGH);
        if is_over {
            (self.state, self.outages) = (State::Closed, 0);
        }
        is_over
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // F9
    #[test]
    fn an_outage_opens_it_and_an_answer_to_a_probe_lets_a_growing_number_through() {
        let start = Instant::now();
        let mut circuit = Circuit::new();
        assert_eq!(circuit.admission(start), Admission::Freely);
        assert!(circuit.unavailable(start, 1.0));
        let until = start + FIRST_PAUSE;
        assert_eq!(circuit.admission(start), Admission::Nothing(until));
        assert_eq!(circuit.admission(until), Admission::AtMost(1));
        circuit.answered(until);
        assert_eq!(circuit.admission(until), Admission::AtMost(2));
        for _ in 0..2 {
            circuit.answered(until);
        }
        assert_eq!(circuit.admission(until), Admission::AtMost(4));
        for _ in 0..FULL {
            circuit.answered(until);
        }
        assert_eq!(circuit.admission(until), Admission::Freely);
        assert!(circuit.is_closed());
    }

    // F9
    #[test]
    fn every_failed_probe_doubles_the_pause_up_to_a_limit() {
        let mut now = Instant::now();
        let mut circuit = Circuit::new();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert!(circuit.unavailable(now, 1.0));
            let Admission::Nothing(until) = circuit.admission(now) else {
                panic!("open");
            };
            pauses.push((until - now).as_millis());
            now = until;
        }
        assert_eq!(pauses[..4], [500, 1000, 2000, 4000]);
        assert_eq!(pauses[8], 5_000);
    }

    // F9
    #[test]
    fn silence_after_a_probe_is_no_answer_and_else_says_nothing() {
        let start = Instant::now();
        let mut circuit = Circuit::new();
        let event = Uuid::nil();
        assert!(!circuit.silent(event, start, 1.0) && circuit.is_closed());
        assert!(circuit.unavailable(start, 1.0));
        let before = circuit.silent(event, start, 1.0);
        assert!(!before, "it was sent before the outage");
        let probed = start + FIRST_PAUSE;
        assert!(circuit.silent(event, probed, 1.0));
        let until = probed + FIRST_PAUSE * 2;
        assert_eq!(circuit.admission(probed), Admission::Nothing(until));
        circuit.answered(until);
        assert!(!circuit.silent(event, until, 1.0));
        assert_eq!(circuit.admission(until), Admission::AtMost(2));
    }

    // F9
    #[test]
    fn many_events_in_a_row_without_an_answer_open_it_and_one_alone_never_does() {
        let now = Instant::now();
        let mut circuit = Circuit::new();
        for _ in 0..100 {
            assert!(!circuit.silent(Uuid::nil(), now, 1.0), "always the same");
        }
        let mut others = (1..).map(Uuid::from_u128);
        let mut silence = |circuit: &mut Circuit| {
            let next = others.next().unwrap();
            circuit.silent(next, now, 1.0)
        };
        for _ in 2..SILENCES {
            assert!(!silence(&mut circuit));
        }
        circuit.answered(now);
        for _ in 1..SILENCES {
            assert!(!silence(&mut circuit), "one was answered in between");
        }
        assert!(silence(&mut circuit));
        assert!(!circuit.is_closed());
    }

    // F9
    #[test]
    fn a_ramp_that_has_gone_well_for_long_enough_is_over_however_little_was_sent() {
        let start = Instant::now();
        let mut circuit = Circuit::new();
        circuit.unavailable(start, 1.0);
        let back = start + FIRST_PAUSE;
        circuit.answered(back);
        circuit.answered(back + LONG_ENOUGH - Duration::from_millis(1));
        assert!(!circuit.is_closed());
        circuit.answered(back + LONG_ENOUGH);
        assert!(circuit.is_closed());
    }

    #[test]
    fn a_wish_to_be_left_alone_holds_everything_back_for_a_bounded_time() {
        let start = Instant::now();
        let mut circuit = Circuit::new();
        let wish = Duration::from_secs(30);
        assert!(circuit.busy(start, wish));
        assert_eq!(circuit.admission(start), Admission::Nothing(start + wish));
        // What was under way may be told of a shorter time, or of a longer one.
        assert!(!circuit.busy(start, wish / 2));
        assert_eq!(circuit.admission(start), Admission::Nothing(start + wish));
        assert!(!circuit.busy(start, Duration::MAX));
        let until = start + LONGEST_WISH;
        assert_eq!(circuit.admission(start), Admission::Nothing(until));
        circuit.answered(start);
        assert!(!circuit.unavailable(start, 1.0));
        assert_eq!(circuit.admission(until), Admission::AtMost(1));
        assert!(circuit.busy(until, wish), "the probe was told the same");
        circuit.answered(until + wish);
        assert_eq!(circuit.admission(until + wish), Admission::AtMost(2));
        // It was no outage: the pause of one that follows is the first.
        assert!(circuit.unavailable(until + wish, 1.0));
        let first = until + wish + FIRST_PAUSE;
        assert_eq!(circuit.admission(until + wish), Admission::Nothing(first));
    }

    #[test]
    fn what_was_sent_before_the_outage_neither_opens_nor_closes_it() {
        let now = Instant::now();
        let mut circuit = Circuit::new();
        assert!(circuit.unavailable(now, 1.0));
        let before = circuit.clone();
        assert!(!circuit.unavailable(now, 1.0));
        circuit.answered(now);
        assert_eq!(circuit, before);
    }
}
