//! Looking ahead: while what one look found is leased, the next look is made on another thread.
//!
//! What is found ahead is only a proposal: it is leased later, if it still can be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Outbox;
use super::claim::Candidates;
use super::worker::Begun;
use crate::store::cursors::Cursor;
use crate::store::{Claim, Reach, StoreError};

/// What was found longer ago is looked for again.
const FRESH: Duration = Duration::from_secs(1);
/// Events that are larger than this together are read when there is room for them.
const LARGE: usize = 4 << 20;

/// A look that goes on where the last one ended.
pub(super) struct Ahead {
    claim: Claim,
    from: Cursor,
    begun: Instant,
    look: Begun<Candidates>,
}

impl Ahead {
    fn is_for(&self, claim: &Claim, from: Cursor) -> bool {
        self.from == from && self.begun.elapsed() < FRESH && self.claim == *claim
    }
}

impl Outbox {
    /// What a claim can lease, without order. Sees to it that the next claim need not wait for a look.
    pub(super) async fn candidates(
        self: &Arc<Self>,
        claim: &Claim,
    ) -> Result<Candidates, StoreError> {
        let from = self.start_of(claim);
        let ahead = self.ahead.lock().expect("not poisoned").take();
        let look = match ahead.filter(|ahead| ahead.is_for(claim, from)) {
            Some(ahead) => ahead.look,
            None => self.begin_look(claim, from),
        };
        let candidates = look.wait().await?;
        if let Some(from) = candidates.goes_on_from()
            && matches!(claim.reach, Reach::Oldest | Reach::Onward)
            && candidates.bytes() <= LARGE
        {
            let claim = Claim {
                reach: Reach::Onward,
                ..claim.clone()
            };
            let look = self.begin_look(&claim, from);
            let begun = Instant::now();
            *self.ahead.lock().expect("not poisoned") = Some(Ahead {
                claim,
                from,
                begun,
                look,
            });
        }
        Ok(candidates)
    }

    pub(super) fn begin_look(self: &Arc<Self>, claim: &Claim, from: Cursor) -> Begun<Candidates> {
        let (outbox, claim) = (self.clone(), claim.clone());
        self.home
            .looker
            .begin(move |link| outbox.look_for_events(link, &claim, from))
    }
}
