//! What a turn cost, as it is told to whoever bills it: the event's payload and its key.
//!
//! Knows nothing of the database, nor of who is told.

use std::fmt;
use std::str::FromStr;

use posthaste::{EnqueueError, Message};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Sets the chat's events apart from those of other modules that share the outbox.
pub const NAMESPACE: &str = "mini-chat";
/// What the event says.
pub const TOPIC: &str = "mini-chat.turn.settled.v1";

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnOutcome {
    /// With a whole answer.
    Completed,
    /// By the user, with a part of an answer.
    Aborted,
    /// Without an answer.
    Failed,
}

impl TurnOutcome {
    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
        }
    }

    /// Reads the name in the database.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Completed, Self::Aborted, Self::Failed]
            .into_iter()
            .find(|outcome| outcome.as_str() == text)
    }
}

/// What one turn cost: all that a consumer needs to bill it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Which turn of which tenant it is, and at whose request.
    #[serde(flatten)]
    pub key: TurnKey,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// What it cost.
    pub tokens: i64,
}

impl Usage {
    /// The message that tells of it.
    pub fn message(&self) -> Result<Message, EnqueueError> {
        let message = Message::json(TOPIC, self)?
            .namespace(NAMESPACE)
            .tenant(self.key.tenant_id)
            .aggregate("Turn", self.key.turn_id.to_string())
            .dedupe_key(self.key.to_string());
        Ok(message)
    }
}

/// What makes a usage event the same event: `{tenant_id}/{turn_id}/{request_id}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TurnKey {
    /// Who pays.
    pub tenant_id: Uuid,
    /// For what.
    pub turn_id: Uuid,
    /// At whose request: the client's own id of it.
    pub request_id: Uuid,
}

impl fmt::Display for TurnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tenant_id, self.turn_id, self.request_id)
    }
}

/// Why a text is no key of a turn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key of a turn is written as <tenant_id>/<turn_id>/<request_id>")]
pub struct KeyError;

impl FromStr for TurnKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut parts = text.split('/').map(Uuid::parse_str);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(tenant_id)), Some(Ok(turn_id)), Some(Ok(request_id)), None) => Ok(Self {
                tenant_id,
                turn_id,
                request_id,
            }),
            _ => Err(KeyError),
        }
    }
}
