//! Steady: eight producers flat out, with one relay that has to keep up.

use std::time::Duration;

use serde_json::json;

use crate::Result;
use crate::bed::Bed;
use crate::enqueue::{CONNECTIONS, Fleet, Way};
use crate::relay_process::RelayProcess;

pub(crate) async fn run(bed: &Bed) -> Result {
    let turn = Duration::from_secs(if bed.quick { 5 } else { 15 });
    for (name, retention) in [("kept", 86_400), ("deleted", 0)] {
        let alone = Fleet::start(bed, bed.fresh().await?, Way::Posthaste).await?;
        let together = Fleet::start(bed, bed.fresh().await?, Way::Posthaste).await?;
        let table = &together.fresh.table;
        let before = alone.go(turn / 2).await;
        let relay = RelayProcess::start(&bed.url, table, retention).await?;
        let watcher = crate::bed::connect(&bed.url).await?;
        let backlog = together
            .fresh
            .sql("select count(*) from {outbox} where delivered_at is null");
        let (rate, (early, late)) = tokio::join!(together.go(turn), async {
            tokio::time::sleep(turn / 3).await;
            let early = watcher
                .query_one(&backlog, &[])
                .await
                .map(|row| row.get::<_, i64>(0));
            tokio::time::sleep(turn * 3 / 5).await;
            let late = watcher
                .query_one(&backlog, &[])
                .await
                .map(|row| row.get::<_, i64>(0));
            (early, late)
        });
        tokio::time::sleep(Duration::from_secs(2)).await;
        let delivered = relay.stop().await?.len();
        // Before and after, as the machine may have become slower or faster meanwhile.
        let alone_rate = (before + alone.go(turn / 2).await) / 2.0;
        bed.tell(
            &format!("steady, {name}"),
            rate,
            "events/s",
            Some(alone_rate),
            json!({
                "connections": CONNECTIONS, "seconds": turn.as_secs(), "floor": "enqueue alone",
                "backlog_after_a_third": early?, "backlog_at_the_end": late?, "delivered": delivered,
            }),
        );
        for fleet in [alone, together] {
            fleet.stop().await?.drop().await?;
        }
    }
    Ok(())
}
