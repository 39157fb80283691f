//! Latency: from commit to sink, without NOTIFY, in another process.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::bed::{Bed, message};
use crate::relay_process::{RelayProcess, now};

pub(crate) const PER_SECOND: u64 = 100;
/// Of one key, so that an event comes while the one before it is delivered and settled.
const PER_SECOND_IN_ORDER: u64 = 300;

pub(crate) async fn run(bed: &Bed) -> Result {
    measure(bed, "latency", PER_SECOND, None).await?;
    let scenario = "latency in order, one key";
    measure(bed, scenario, PER_SECOND_IN_ORDER, Some("one")).await
}

async fn measure(bed: &Bed, scenario: &str, per_second: u64, key: Option<&str>) -> Result {
    let seconds = if bed.quick { 8 } else { 30 };
    let mut fresh = bed.fresh().await?;
    let ordering = key.map_or("none", |_| "key");
    let relay = RelayProcess::start_in(&bed.url, &fresh.table, 86_400, ordering).await?;
    let prepared = fresh.outbox.prepare(&fresh.client).await?;
    let mut committed = HashMap::new();
    let mut beat = tokio::time::interval(Duration::from_micros(1_000_000 / per_second));
    for n in 0..seconds * per_second {
        beat.tick().await;
        let mut message = message(n);
        if let Some(key) = key {
            message = message.ordering_key(key);
        }
        let transaction = fresh.client.transaction().await?;
        let receipt = fresh
            .outbox
            .enqueue(prepared.on(&transaction), &message)
            .await?;
        transaction.commit().await?;
        committed.insert(receipt.id, now());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    tell(bed, scenario, per_second, committed, relay.stop().await?)?;
    fresh.drop().await
}

/// Prints how long events took from their commit to their delivery.
pub(crate) fn tell(
    bed: &Bed,
    scenario: &str,
    per_second: u64,
    mut committed: HashMap<Uuid, u128>,
    delivered: Vec<(Uuid, u128)>,
) -> Result {
    let mut waits: Vec<f64> = Vec::new();
    for (id, delivered) in delivered {
        let committed = committed
            .remove(&id)
            .ok_or("a delivery that was never committed")?;
        // The relay may see a commit before the producer's driver does.
        waits.push(delivered.saturating_sub(committed) as f64 / 1e6);
    }
    if !committed.is_empty() {
        return Err(format!("{} events were not delivered", committed.len()).into());
    }
    waits.sort_by(f64::total_cmp);
    for (name, share) in [("p50", 0.50), ("p99", 0.99), ("max", 1.0)] {
        let place = ((waits.len() as f64 * share).ceil() as usize).clamp(1, waits.len()) - 1;
        bed.tell(
            &format!("{scenario} {name}"),
            waits[place],
            "ms",
            None,
            json!({"events_per_second": per_second, "events": waits.len(), "notify": false}),
        );
    }
    Ok(())
}
