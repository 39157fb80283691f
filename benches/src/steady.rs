//! Steady: eight producers flat out, with one relay that has to keep up.

use std::time::Duration;

use serde_json::json;

use crate::Result;
use crate::bed::Bed;
use crate::enqueue::{CONNECTIONS, Way, produce};
use crate::relay_process::RelayProcess;

pub(crate) async fn run(bed: &Bed) -> Result {
    let turn = Duration::from_secs(if bed.quick { 5 } else { 15 });
    for (name, retention) in [("kept", 86_400), ("deleted", 0)] {
        let mut alone = 0.0;
        for _ in 0..2 {
            let fresh = bed.fresh().await?;
            alone += produce(bed, &fresh, Way::Posthaste, turn / 2).await? / 2.0;
            fresh.drop().await?;
        }

        let fresh = bed.fresh().await?;
        let relay = RelayProcess::start(&bed.url, &fresh.table, retention).await?;
        let watcher = crate::bed::connect(&bed.url).await?;
        let backlog = fresh.sql("select count(*) from {outbox} where delivered_at is null");
        let (rate, (early, late)) = tokio::join!(produce(bed, &fresh, Way::Posthaste, turn), async {
            tokio::time::sleep(turn / 3).await;
            let early = watcher.query_one(&backlog, &[]).await.map(|row| row.get::<_, i64>(0));
            tokio::time::sleep(turn * 2 / 3).await;
            let late = watcher.query_one(&backlog, &[]).await.map(|row| row.get::<_, i64>(0));
            (early, late)
        });
        let rate = rate?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let delivered = relay.stop().await?.len();
        bed.tell(
            &format!("steady, {name}"),
            rate,
            "events/s",
            Some(alone),
            json!({
                "connections": CONNECTIONS, "seconds": turn.as_secs(), "floor": "enqueue alone",
                "backlog_after_a_third": early?, "backlog_at_the_end": late?, "delivered": delivered,
            }),
        );
        fresh.drop().await?;
    }
    Ok(())
}
