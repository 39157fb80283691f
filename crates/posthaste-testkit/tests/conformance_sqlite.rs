//! The store on SQLite does what every store does, and what only SQLite can be asked.

use std::time::{Duration, Instant};

use posthaste::store::{Act, Claim, Filter, Redelivery, Settlement, Verdict};
use posthaste::{DeadReason, Message, Store};
use posthaste_testkit::bed::OnSqlite;
use posthaste_testkit::file::FreshFile;

posthaste_testkit::conformance!(OnSqlite::new());

#[tokio::test]
async fn a_job_goes_on_after_the_clock_was_set_back() {
    let file = FreshFile::new();
    let store = file.store().await;
    file.enqueue(&[Message::bytes("shop.order.placed.v1", "text/plain", "x")]);
    let claimed = store.claim(&Claim::new(1)).await.expect("a claim");
    let verdict = Verdict::Dead {
        reason: DeadReason::Rejected,
        error: "too odd".to_owned(),
        letter: None,
    };
    let dead = Settlement::new(claimed.events[0].lease, verdict);
    store.settle(&[dead]).await.expect("a settlement");
    let act = Act {
        actor: "ann".to_owned(),
        why: "mended".to_owned(),
    };
    let redelivery = Redelivery {
        filter: Filter::default(),
        rate: Some(1000),
    };
    let job = store.start_job(&redelivery, &act).await.expect("a job").id;
    let ahead = file.sql("update {outbox:jobs} set spent_at = spent_at + 3600000000");
    file.open().execute(&ahead, []).expect("a clock");
    let deadline = Instant::now() + Duration::from_secs(30);
    while store
        .job(job)
        .await
        .expect("a look")
        .expect("a job")
        .redelivered
        == 0
    {
        assert!(Instant::now() < deadline, "it waits for the clock");
        store.advance(job, 10).await.expect("a step");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
