//! A bed for the store in memory, whose clock a test can put forward.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use posthaste::store::memory::Memory;
use posthaste::{EnqueueError, Message, Receipt, Table};
use uuid::Uuid;

use super::Bed;

/// An outbox in memory.
pub struct InMemory {
    memory: Memory,
    ahead: Arc<AtomicU64>,
}

impl InMemory {
    /// An empty one.
    pub async fn new() -> Self {
        let ahead = Arc::new(AtomicU64::new(0));
        let seconds = ahead.clone();
        let clock = move || SystemTime::now() + Duration::from_secs(seconds.load(Ordering::SeqCst));
        let table = Table::parse("memory.outbox").expect("a plain name");
        Self {
            memory: Memory::with_clock(table, clock),
            ahead,
        }
    }
}

#[async_trait]
impl Bed for InMemory {
    type Store = Memory;

    async fn enqueue(&self, messages: &[Message]) -> Result<Vec<Receipt>, EnqueueError> {
        self.memory.enqueue(messages)
    }

    async fn relay(&self) -> Memory {
        self.memory.relay()
    }

    async fn pass(&self, time: Duration) {
        self.ahead.fetch_add(time.as_secs(), Ordering::SeqCst);
    }

    async fn archive(&self) -> Vec<Uuid> {
        let mut archive = self.memory.archive();
        archive.sort_by_key(|record| record.sequence);
        archive.into_iter().map(|record| record.id).collect()
    }
}
