//! What the task that owns the connection is handed, what it has on its way, and what it answers.

use std::sync::Arc;
use std::time::Instant;

use posthaste::Event;
use tokio::sync::oneshot;

use super::message::Message;

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Confirmed,
    /// No queue got it, or not all did, or its routing key is not for us.
    Returned(String),
    /// It can never be sent.
    Refused(String),
    /// Its exchange is not there, or not for us.
    Misdirected(String),
    /// The server works, but never confirmed this one.
    Late(String),
    /// The connection broke while it was on its way.
    Lost(String),
    /// It was not sent, or the server puts it off: it takes nothing now.
    Down(String),
}

/// An event to publish, and whom to tell.
pub(super) struct Job {
    pub(super) event: Arc<Event>,
    pub(super) message: Message,
    pub(super) since: Instant,
    pub(super) reply: oneshot::Sender<Fate>,
}

impl Job {
    pub(super) fn new(event: Arc<Event>, message: Message, reply: oneshot::Sender<Fate>) -> Self {
        Self {
            event,
            message,
            since: Instant::now(),
            reply,
        }
    }

    pub(super) fn answer(self, fate: Fate) {
        // Whoever asked may have given up.
        let _ = self.reply.send(fate);
    }
}

/// A message on its way.
pub(super) struct Out {
    pub(super) event: Arc<Event>,
    /// None: it was answered already.
    pub(super) reply: Option<oneshot::Sender<Fate>>,
    pub(super) sent: Instant,
    /// Which message this is on the line, by number.
    pub(super) number: u64,
    pub(super) resends: u8,
}

impl Out {
    pub(super) fn answer(&mut self, fate: Fate) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(fate);
        }
    }
}
