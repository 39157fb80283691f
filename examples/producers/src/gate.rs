//! Makes producers race: they wait at a gate, and start together when it opens.

use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use crate::Result;

/// How long producers may take to get to the gate: far longer than they do.
const PATIENCE: u32 = 2_400;
const MOMENT: Duration = Duration::from_millis(25);

/// An event that is enqueued and not committed. Whoever enqueues one with the same dedupe key waits
/// for what becomes of it.
pub(crate) struct Gate {
    holder: Client,
}

impl Gate {
    /// Shuts the gate for the race for this order.
    pub(crate) async fn shut(address: &str, order: u32) -> Result<Self> {
        let (holder, connection) = tokio_postgres::connect(address, NoTls).await?;
        tokio::spawn(connection);
        holder.batch_execute("begin").await?;
        let key = format!("6f2c1f0e-7a35-4d5f-8f3a-0d7b1c2e3f40/race-{order}");
        let insert = "insert into orders_outbox (topic, payload, dedupe_key)
                      values ('shop.order.placed.v1', '{}', $1)";
        holder.execute(insert, &[&key]).await?;
        Ok(Self { holder })
    }

    /// Opens it once so many are waiting.
    pub(crate) async fn open(self, waiting: usize) -> Result {
        let count = "select count(*) from pg_stat_activity
                     where datname = current_database() and wait_event_type = 'Lock'";
        for _ in 0..PATIENCE {
            // Within a transaction, what was seen first would be seen for ever.
            self.holder
                .batch_execute("select pg_stat_clear_snapshot()")
                .await?;
            let there: i64 = self.holder.query_one(count, &[]).await?.get(0);
            if usize::try_from(there)? >= waiting {
                // The event goes, and they race for its place.
                self.holder.batch_execute("rollback").await?;
                return Ok(());
            }
            tokio::time::sleep(MOMENT).await;
        }
        Err("not all producers came to the race: run one by hand to see why".into())
    }
}
