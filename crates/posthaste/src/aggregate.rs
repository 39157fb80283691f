//! Domain events of aggregates: recorded while the aggregate changes, enqueued when it is saved.
//!
//! An aggregate holds a [`Recorded`]. [`Outbox::save`] enqueues what several aggregates have
//! recorded, in the transaction that saves them, and gives back a [`Saved`] that forgets the
//! events once that transaction has committed, and not before.

use std::future::Future;

use uuid::Uuid;

use crate::enqueue::{EnqueueError, Outbox, Receipt, Transaction};
use crate::message::Message;

/// What an aggregate has recorded and not yet saved: a field of the aggregate.
///
/// ```no_run
/// use posthaste::{Message, Outbox, Recorded};
///
/// struct Order { id: i64, paid: bool, events: Recorded }
///
/// impl Order {
///     fn pay(&mut self) -> Result<(), posthaste::EnqueueError> {
///         self.paid = true;
///         self.events.record(Message::json("shop.order.paid.v1", &self.id)?);
///         Ok(())
///     }
/// }
///
/// # async fn example(client: &mut tokio_postgres::Client, outbox: &Outbox, order: &mut Order)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// order.pay()?;
///
/// let transaction = client.transaction().await?;
/// transaction.execute("update orders set paid = $2 where id = $1", &[&order.id, &order.paid]).await?;
/// let saved = outbox.save(&transaction, [&mut order.events]).await?;
/// saved.after(transaction.commit()).await?; // from here on, order.events is empty
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recorded {
    messages: Vec<Message>,
}

impl Recorded {
    /// Nothing recorded yet.
    pub const fn new() -> Self {
        Self {
            messages: Vec::new(),
        }
    }

    /// Records an event, to be enqueued when the aggregate is saved.
    ///
    /// It gets its id now, unless it has one: so an event that is saved again, after a commit
    /// whose answer was lost, is still one event.
    pub fn record(&mut self, mut message: Message) {
        message.id.get_or_insert_with(Uuid::now_v7);
        self.messages.push(message);
    }

    /// What was recorded, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether nothing is waiting to be saved.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// Events that were enqueued in a transaction which has not committed yet.
///
/// Dropped, it changes nothing: the aggregates keep what they recorded.
#[derive(Debug)]
#[must_use = "the events stay recorded until the commit has succeeded: use `after`"]
pub struct Saved<'a> {
    recorded: Vec<&'a mut Recorded>,
    receipts: Vec<Receipt>,
}

impl Saved<'_> {
    /// What became of each event, in the order in which they were recorded.
    pub fn receipts(&self) -> &[Receipt] {
        &self.receipts
    }

    /// Waits for the commit, and clears what the aggregates had recorded if it succeeded.
    pub async fn after<T, E>(self, commit: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let committed = commit.await?;
        self.committed();
        Ok(committed)
    }

    /// Clears what the aggregates had recorded. To be called only when the transaction has
    /// committed: for drivers that commit at the end of a closure, which can give this back.
    pub fn committed(self) {
        for recorded in self.recorded {
            recorded.messages.clear();
        }
    }
}

impl Outbox {
    /// Enqueues what these aggregates have recorded, in the transaction that saves them, in
    /// one statement. If it fails, they keep what they recorded.
    pub async fn save<'a>(
        &self,
        transaction: impl Transaction,
        aggregates: impl IntoIterator<Item = &'a mut Recorded>,
    ) -> Result<Saved<'a>, EnqueueError> {
        let recorded: Vec<&mut Recorded> = aggregates.into_iter().collect();
        let messages: Vec<Message> = recorded
            .iter()
            .flat_map(|recorded| recorded.messages.iter().cloned())
            .collect();
        let receipts = self.enqueue_all(transaction, &messages).await?;
        Ok(Saved { recorded, receipts })
    }
}
