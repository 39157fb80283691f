//! The sums of all turns, events and charges, from the database alone: they must agree.

use std::fmt;

use crate::chat::{ChatError, connect};
use crate::usage::NAMESPACE;

/// How much there is of everything, since the database was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Turns that were settled: completed, aborted, failed.
    pub turns: [i64; 3],
    /// Turns that were begun and not settled. They have no event.
    pub open: i64,
    /// Events: not delivered yet, delivered and still kept, dead.
    pub events: [i64; 3],
    /// Delivered events that took more than one attempt.
    pub retried: i64,
    /// Charges in the ledger.
    pub charges: i64,
    /// Tokens taken from quotas.
    pub used: i64,
    /// Tokens in the ledger.
    pub billed: i64,
}

const SUMS: &str = "select
    (select count(*) from chat.turns where outcome = 'completed'),
    (select count(*) from chat.turns where outcome = 'aborted'),
    (select count(*) from chat.turns where outcome = 'failed'),
    (select count(*) from chat.turns where outcome is null),
    count(*) filter (where status in ('pending', 'processing')),
    count(*) filter (where status = 'delivered'),
    count(*) filter (where status = 'dead'),
    count(*) filter (where status = 'delivered' and attempts > 1),
    (select count(*) from billing.charges),
    (select coalesce(sum(used), 0)::bigint from chat.quotas),
    (select coalesce(sum(tokens), 0)::bigint from billing.charges)
    from public.modkit_outbox_events where namespace = $1";

impl Totals {
    /// Counts.
    pub async fn of(address: &str) -> Result<Self, ChatError> {
        let client = connect(address)?.get().await?;
        let row = client.query_one(SUMS, &[&NAMESPACE]).await?;
        let sum = |place: usize| row.get::<_, i64>(place);
        Ok(Self {
            turns: [0, 1, 2].map(sum),
            open: sum(3),
            events: [4, 5, 6].map(sum),
            retried: sum(7),
            charges: sum(8),
            used: sum(9),
            billed: sum(10),
        })
    }

    /// Whether each settled turn was charged, and once. Delivered events do not count: they are cleaned
    /// away in time, and turns and charges are not.
    pub fn agree(&self) -> bool {
        let turns: i64 = self.turns.iter().sum();
        let [waiting, _, dead] = self.events;
        waiting + dead == 0 && self.charges == turns && self.billed == self.used
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([completed, aborted, failed], [waiting, delivered, dead]) = (self.turns, self.events);
        let turns = completed + aborted + failed;
        writeln!(
            f,
            "turns settled    {turns:>6}  ({completed} completed, {aborted} aborted, {failed} failed)"
        )?;
        writeln!(f, "turns left open  {:>6}", self.open)?;
        writeln!(
            f,
            "events delivered {delivered:>6}  ({} not at the first attempt)",
            self.retried
        )?;
        writeln!(f, "events waiting   {waiting:>6}")?;
        writeln!(f, "events dead      {dead:>6}")?;
        writeln!(f, "turns charged    {:>6}", self.charges)?;
        writeln!(f, "tokens used      {:>6}", self.used)?;
        write!(f, "tokens billed    {:>6}", self.billed)
    }
}
