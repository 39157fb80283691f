//! One claim: how much it may bring, what it asks the store for, and where its events go.
//!
//! Which claim comes next is the loop's business.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::store::{Claim, Claimed, OnFailure, Ordering, Reach};
use posthaste::{Event, Lease, StoreError};
use tracing::Instrument;

use crate::destination::Share;
use crate::pace::Pace;
use crate::relay::{Engine, GATHER};

/// A span has at most as many links by default.
const LINKS: usize = 128;

impl Engine {
    pub(crate) fn request(&self, room: Room, reach: Reach) -> Claim {
        Claim {
            bytes: room.bytes,
            lease: self.settings.lease,
            max_attempts: self.settings.max_attempts,
            scope: self.settings.scope.clone(),
            ordering: self.settings.ordering,
            dead_letters: self.settings.dead_letters.clone(),
            reach,
            ..Claim::new(room.limit)
        }
    }

    /// Claims, and starts the delivery of what it got.
    pub(crate) async fn take(self: &Arc<Self>, claim: &Claim) -> Result<Taken, StoreError> {
        // Before the claim is sent: the lease certainly holds from here on.
        let sent = Instant::now();
        let span = self.claim_span(claim.limit);
        let claimed = self.store.claim(claim).instrument(span.clone()).await;
        match &claimed {
            Ok(claimed) => {
                self.link_span(&span, claimed.events.iter());
                span.record("messaging.batch.message_count", claimed.leases() as i64)
            }
            Err(error) => span.record("error.type", error.code()),
        };
        drop(span);
        let mut claimed = match claimed {
            Err(error @ (StoreError::Refused(_) | StoreError::Denied(_)))
                if claim.dead_letters.is_some() =>
            {
                self.log_store("claim", &error);
                self.claim_without_deaths(claim).await?
            }
            claimed => claimed?,
        };
        self.observer
            .seconds("outbox_claim_seconds", sent.elapsed().as_secs_f64());
        self.observer.number("outbox_claim_batch", claimed.leases());
        let taken = Taken::of(&mut claimed, !claim.keys.is_empty(), sent);
        for died in &claimed.died {
            self.observer.died(died);
        }
        // First what can be delivered: it must not wait, or be forgotten, if the rest fails.
        let (until, lost) = self.certain(&claimed.events, sent).await;
        self.hand.take(&claimed.events, until);
        self.hand.lost(&lost);
        self.dispatch(claimed.events, sent);
        if !claimed.malformed.is_empty() {
            self.set_aside(claimed.malformed, claimed.held_back).await;
        }
        Ok(taken)
    }

    /// Until when the leases of a claim certainly hold, but for those that are lost. After a claim that took long they are
    /// prolonged at once: what it brought may be found by no claim that is any quicker.
    async fn certain(&self, events: &[Event], sent: Instant) -> (Instant, Vec<Lease>) {
        let (lease, timeout) = (self.settings.lease, self.settings.dispatch_timeout);
        if events.is_empty() || sent.elapsed() < lease.saturating_sub(timeout) / 2 {
            return (sent + lease, Vec::new());
        }
        let again = Instant::now();
        let leases: Vec<Lease> = events.iter().map(|event| event.lease).collect();
        let extended = tokio::select! {
            extended = self.store.extend(&leases, lease) => extended,
            // Handed back then, as long as there is somebody to do it.
            () = self.stopping() => return (sent + lease, Vec::new()),
        };
        match extended {
            Ok(lost) => (again + lease, lost),
            Err(error) => {
                self.log_store("extend", &error);
                (sent + lease, Vec::new())
            }
        }
    }

    /// If it is a dead letter that the store refuses, what is to die must not hold up what is not: nothing
    /// dies of this claim, and what has no attempt left gets another one.
    async fn claim_without_deaths(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let claim = Claim {
            max_attempts: u32::MAX,
            ordering: match claim.ordering {
                Ordering::Key(OnFailure::Park) => Ordering::Key(OnFailure::Block),
                ordering => ordering,
            },
            dead_letters: None,
            ..claim.clone()
        };
        self.store.claim(&claim).await
    }

    /// Links the span of what is done for many events to their traces, if anybody traces.
    pub(crate) fn link_span<'e>(
        &self,
        span: &tracing::Span,
        events: impl Iterator<Item = &'e Event>,
    ) {
        if let Some(tracing) = self.settings.trace.filter(|_| !span.is_disabled()) {
            let traces = events.filter_map(|event| event.trace.as_ref());
            traces
                .take(LINKS)
                .for_each(|trace| (tracing.link)(span, trace));
        }
    }

    fn claim_span(&self, limit: u32) -> tracing::Span {
        let table = &self.observer.table;
        tracing::debug_span!(
            "claim",
            otel.name = format!("claim {table}"),
            otel.kind = "client",
            messaging.system = "posthaste",
            messaging.operation.name = "claim",
            "messaging.operation.type" = "receive",
            messaging.destination.name = table,
            messaging.batch.message_count = tracing::field::Empty,
            posthaste.table = table,
            posthaste.limit = i64::from(limit),
            "error.type" = tracing::field::Empty,
        )
    }

    /// Waits until there is room for a batch, or at least for something.
    pub(crate) async fn room(&self) {
        let enough = self
            .settings
            .in_flight
            .saturating_sub(self.settings.batch_size as usize);
        let mut waited = Duration::ZERO;
        loop {
            let progress = self.hand.progress.notified();
            let (in_hand, bytes) = self.hand.load();
            let full = in_hand >= self.settings.in_flight || bytes >= self.settings.in_flight_bytes;
            let fits = in_hand <= enough && bytes <= self.settings.in_flight_bytes / 2;
            if fits || (!full && waited >= GATHER) || self.is_stopping() {
                return;
            }
            tokio::select! {
                () = progress => {}
                () = tokio::time::sleep(GATHER) => waited += GATHER,
                () = self.stopping() => {}
            }
        }
    }

    /// What a claim may bring now, if anything.
    pub(crate) fn room_left(&self, pace: &Pace) -> Option<Room> {
        let (in_hand, bytes) = self.hand.load();
        let (settings, share) = (&self.settings, self.share());
        let bytes = settings.in_flight_bytes.saturating_sub(bytes);
        let bytes = bytes.min(share.bytes.min(settings.in_flight_bytes.div_ceil(2)));
        let events = settings.in_flight.saturating_sub(in_hand);
        let events = events.min(pace.fitting(bytes)).min(share.events);
        let limit = u32::try_from(events).unwrap_or(u32::MAX);
        let limit = limit.min(settings.batch_size);
        (limit > 0 && bytes > 0).then_some(Room {
            limit,
            bytes: bytes as u64,
        })
    }

    /// With how much in hand a destination gets no more, and how much a claim brings at most. Of several destinations it is
    /// half of what each may have: one that had nearly so much, and gets all that is claimed, must leave others theirs.
    pub(crate) fn share(&self) -> Share {
        let parts = match self.destinations.len() {
            1 => 1,
            several => 2 * several,
        };
        Share {
            events: self.settings.in_flight.div_ceil(parts),
            bytes: self.settings.in_flight_bytes.div_ceil(parts),
        }
    }
}

/// What a claim may bring.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) limit: u32,
    pub(crate) bytes: u64,
}

/// What the loop has to know of a claim, after its events have gone their way.
pub(crate) struct Taken {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
    pub(crate) more: bool,
    /// How long the claim took.
    pub(crate) took: Duration,
    /// Keys with events that it passed, as they wait for others.
    pub(crate) waiting: Vec<String>,
    /// If it was for some keys: those of which it got events.
    pub(crate) keys: HashSet<String>,
}

impl Taken {
    fn of(claimed: &mut Claimed, for_keys: bool, sent: Instant) -> Self {
        let of_keys = claimed.events.iter().filter(|_| for_keys);
        Self {
            events: claimed.events.len() + claimed.died.len() + claimed.malformed.len(),
            bytes: claimed.events.iter().map(|event| event.payload.len()).sum(),
            more: claimed.more,
            took: sent.elapsed(),
            waiting: std::mem::take(&mut claimed.waiting),
            keys: of_keys
                .filter_map(|event| event.ordering_key.clone())
                .collect(),
        }
    }
}
