//! Steady: eight producers flat out, with one relay that has to keep up.

use std::time::Duration;

use serde_json::json;

use crate::Result;
use crate::bed::{Bed, connect};
use crate::enqueue::{CONNECTIONS, Fleet, Way};
use crate::relay_process::RelayProcess;

pub(crate) async fn run(bed: &Bed) -> Result {
    let (rounds, turn) = if bed.quick { (2, 2) } else { (4, 5) };
    let turn = Duration::from_secs(turn);
    for (name, retention) in [("kept", 86_400), ("deleted", 0)] {
        let alone = Fleet::start(bed, bed.fresh().await?, Way::Posthaste).await?;
        let together = Fleet::start(bed, bed.fresh().await?, Way::Posthaste).await?;
        let watcher = connect(&bed.url).await?;
        let backlog = together
            .fresh
            .sql("select count(*) from {outbox} where delivered_at is null");
        let (mut floor, mut rate, mut delivered, mut backlogs) = (0.0, 0.0, 0, Vec::new());
        // In turns, so that a noisy moment hits both.
        for _ in 0..rounds {
            floor += alone.go(turn).await / f64::from(rounds);
            let relay = RelayProcess::start(&bed.url, &together.fresh.table, retention).await?;
            let (together_rate, left) = tokio::join!(together.go(turn), async {
                tokio::time::sleep(turn * 9 / 10).await;
                watcher.query_one(&backlog, &[]).await
            });
            rate += together_rate / f64::from(rounds);
            backlogs.push(left?.get::<_, i64>(0));
            tokio::time::sleep(Duration::from_millis(500)).await;
            delivered += relay.stop().await?.len();
        }
        bed.tell(
            &format!("steady, {name}"),
            rate,
            "events/s",
            Some(floor),
            json!({
                "connections": CONNECTIONS, "seconds": turn.as_secs(), "rounds": rounds,
                "floor": "enqueue alone", "backlog_while_it_lasts": backlogs, "delivered": delivered,
            }),
        );
        for fleet in [alone, together] {
            fleet.stop().await?.drop().await?;
        }
    }
    Ok(())
}
