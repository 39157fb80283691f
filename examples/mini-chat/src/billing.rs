//! The consumer: charges tenants for their turns, each once, however often its event arrives.
//!
//! It knows the event's key and payload, and nothing of the chat. It could as well be elsewhere.

use std::sync::Arc;

use deadpool_postgres::{Pool, PoolError};
use posthaste::Event;
use posthaste_relay::sink::{self, Outcome, Sink};

use crate::chat::connect;
use crate::usage::{TurnKey, Usage};

/// Whether an event made a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// It did.
    Made,
    /// The turn had been charged: the event came again.
    MadeBefore,
}

/// Why an event made no charge.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChargeError {
    /// It is no usage event, and never will be.
    #[error("this is no usage event: {0}")]
    Unreadable(&'static str),
    /// The ledger is not reachable.
    #[error("the ledger is not reachable")]
    Unreachable(#[from] PoolError),
    /// The ledger refused the charge.
    #[error("the ledger refused the charge")]
    Database(#[from] tokio_postgres::Error),
}

/// The ledger of charges.
pub struct Billing {
    pool: Pool,
}

impl Billing {
    /// The ledger in this database, which [`Chat::open`](crate::Chat::open) has made.
    pub fn open(address: &str) -> Result<Self, ChargeError> {
        Ok(Self {
            pool: connect(address)?,
        })
    }

    /// Charges the turn that an event tells of, unless it has been.
    pub async fn charge(&self, event: &Event) -> Result<Charge, ChargeError> {
        let unreadable = ChargeError::Unreadable;
        let key: TurnKey = event
            .dedupe_key
            .as_deref()
            .and_then(|key| key.parse().ok())
            .ok_or(unreadable("its dedupe key is not that of a turn"))?;
        let usage: Usage = serde_json::from_slice(&event.payload)
            .map_err(|_| unreadable("its payload is not that of a turn"))?;
        if usage.key != key {
            return Err(unreadable("its payload tells of another turn than its key"));
        }
        let insert = "insert into billing.charges (tenant_id, turn_id, request_id, outcome, tokens)
                      values ($1, $2, $3, $4, $5) on conflict do nothing";
        let client = self.pool.get().await?;
        let outcome = usage.outcome.as_str();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] = [
            &key.tenant_id,
            &key.turn_id,
            &key.request_id,
            &outcome,
            &usage.tokens,
        ];
        match client.execute(insert, &values).await? {
            0 => Ok(Charge::MadeBefore),
            _ => Ok(Charge::Made),
        }
    }

    /// Where the dispatcher publishes to.
    pub fn sink(self: Arc<Self>) -> impl Sink {
        sink::from_fn(move |event: Arc<Event>| {
            let billing = self.clone();
            async move { outcome(billing.charge(&event).await) }
        })
    }
}

/// A second charge that was not made is a delivery as good as the first.
fn outcome(charged: Result<Charge, ChargeError>) -> Outcome {
    match charged {
        Ok(Charge::Made | Charge::MadeBefore) => Outcome::Delivered,
        Err(error @ ChargeError::Unreadable(_)) => Outcome::Reject(error.to_string()),
        Err(error @ ChargeError::Unreachable(_)) => Outcome::Unavailable(error.to_string()),
        Err(error) => Outcome::Retry(error.to_string()),
    }
}
