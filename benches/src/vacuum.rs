//! A long-running transaction keeps every dead row version: claims must not slow down with them.

use serde_json::json;

use posthaste::store::Ordering;

use crate::Result;
use crate::bed::{Bed, connect};
use crate::drain::{After, drain};

pub(crate) async fn run(bed: &Bed) -> Result {
    let events: i64 = if bed.quick { 30_000 } else { 200_000 };
    let mut rates = Vec::new();
    for held in [false, true] {
        let fresh = bed.fresh().await?;
        fresh.fill(events).await?;
        let holder = connect(&bed.url).await?;
        if held {
            holder
                .batch_execute("begin isolation level repeatable read; select txid_current()")
                .await?;
        }
        let took = drain(
            &bed.url,
            fresh.table.clone(),
            events.unsigned_abs(),
            After::Deleted,
            Ordering::None,
        )
        .await?;
        rates.push(events as f64 / took.as_secs_f64());
        drop(holder);
        fresh.drop().await?;
    }
    bed.tell(
        &format!("drain {events} under a long-running transaction"),
        rates[1],
        "events/s",
        Some(rates[0]),
        json!({"floor": "the same without it", "after": "deleted"}),
    );
    Ok(())
}
