//! Cleaning: what is past its retention goes, or moves; what is pending never does.

use std::time::Duration;

use posthaste::Status;
use posthaste_relay::Cleaning;
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::Fresh;

use crate::support::*;

const DAY: Duration = Duration::from_secs(86_400);

/// A cleaner that looks all the time.
fn eager(retention: Duration) -> Cleaning {
    Cleaning {
        interval: MS(50),
        retention,
        ..Cleaning::default()
    }
}

/// Delivered, dead and pending events of each age in days: 0, 3 and 9.
async fn aged() -> Fresh {
    let fresh = Fresh::new().await;
    let sql = "
        insert into {outbox} (topic, payload, status, delivered_at, created_at)
        select 'old', to_jsonb(age), 'delivered', now() - age * interval '1 day', now() - age * interval '1 day'
        from unnest(array[0, 3, 9]) age, generate_series(1, 25);
        insert into {outbox} (topic, payload, status, dead_at, dead_reason)
        select 'old', to_jsonb(age), 'dead', now() - age * interval '1 day', 'rejected'
        from unnest(array[0, 3, 9]) age, generate_series(1, 5);
        insert into {outbox} (topic, payload, created_at, next_attempt_at)
        select 'old', to_jsonb(age), now() - age * interval '1 day', now() + interval '1 hour'
        from unnest(array[0, 3, 9]) age;";
    fresh.client.batch_execute(&fresh.sql(sql)).await.unwrap();
    fresh
}

/// How many events there are: delivered, dead and pending.
async fn counts(fresh: &Fresh, table: &str) -> [i64; 3] {
    let sql = "select count(*) filter (where status = 'delivered'), count(*) filter (where status = 'dead'),
               count(*) filter (where status = 'pending') from {outbox}";
    let sql = fresh
        .sql(sql)
        .replace("\"outbox\"", &format!("\"{table}\""));
    let row = fresh.client.query_one(&sql, &[]).await.unwrap();
    [row.get(0), row.get(1), row.get(2)]
}

async fn cleaned(fresh: &Fresh, cleaning: Cleaning, expected: [i64; 3]) {
    let builder = brisk(fresh).await.cleaning(cleaning);
    let relay = Running::start(
        builder
            .destination("w", Witness::willing())
            .build()
            .unwrap(),
    );
    eventually("it is clean", async || {
        counts(fresh, "outbox").await == expected
    })
    .await;
    tokio::time::sleep(MS(300)).await;
    relay.stop().await;
    assert_eq!(counts(fresh, "outbox").await, expected);
}

// B14 K7 F11
#[tokio::test]
async fn delivered_events_go_after_their_retention_and_dead_and_pending_ones_stay() {
    let fresh = aged().await;
    // Batches smaller than what there is to do.
    let cleaning = Cleaning {
        batch_size: 10,
        ..eager(7 * DAY)
    };
    cleaned(&fresh, cleaning, [50, 15, 3]).await;
}

// F11
#[tokio::test]
async fn dead_events_go_only_if_they_are_given_a_retention_too() {
    let fresh = aged().await;
    let cleaning = Cleaning {
        dead_retention: Some(2 * DAY),
        ..eager(2 * DAY)
    };
    cleaned(&fresh, cleaning, [25, 5, 3]).await;
}

// B14
#[tokio::test]
async fn with_the_archive_on_events_move_there_as_they_are() {
    let fresh = aged().await;
    let cleaning = Cleaning {
        archive: true,
        batch_size: 10,
        dead_retention: Some(7 * DAY),
        ..eager(7 * DAY)
    };
    cleaned(&fresh, cleaning, [50, 10, 3]).await;
    assert_eq!(counts(&fresh, "outbox_archive").await, [25, 5, 0]);
    let sql = fresh.sql("select bool_and(payload = '9') from {outbox}");
    let sql = sql.replace("\"outbox\"", "\"outbox_archive\"");
    assert!(
        fresh
            .client
            .query_one(&sql, &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
    );
}

// B17 B15
#[tokio::test]
async fn a_cleaner_that_is_switched_off_cleans_nothing() {
    let fresh = aged().await;
    let cleaning = Cleaning {
        enabled: false,
        dead_retention: Some(DAY),
        ..eager(DAY)
    };
    cleaned(&fresh, cleaning, [75, 15, 3]).await;
}

// B14
#[tokio::test]
async fn with_retention_zero_an_event_goes_when_it_is_delivered_and_only_then() {
    let mut fresh = Fresh::new().await;
    let mut batch = messages(20);
    batch.extend([
        message("shop.bad.rejected.v1"),
        message(TOPIC).deliver_after(DAY),
    ]);
    fresh.enqueue(&batch).await;
    let witness = Witness::new(|event| async move {
        match event.topic == TOPIC {
            true => Outcome::Delivered,
            false => Outcome::Reject("no".to_owned()),
        }
    });
    let builder = brisk(&fresh).await.cleaning(eager(Duration::ZERO));
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    witness.until_delivered(20).await;
    eventually("they are gone", async || {
        counts(&fresh, "outbox").await == [0, 1, 1]
    })
    .await;
    relay.stop().await;
    let store = fresh.store().await;
    assert_eq!(with_status(&store, Status::Delivered).await.len(), 0);
    assert_eq!(counts(&fresh, "outbox").await, [0, 1, 1]);
}

// B14
#[tokio::test]
async fn with_retention_zero_what_was_kept_before_goes_too() {
    let fresh = aged().await;
    cleaned(&fresh, eager(Duration::ZERO), [0, 15, 3]).await;
}

// K7
#[tokio::test]
async fn delivered_events_are_kept_for_their_retention() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(20)).await;
    let builder = brisk(&fresh).await.cleaning(eager(MS(15_000)));
    let relay = Running::start(
        builder
            .destination("w", Witness::willing())
            .build()
            .unwrap(),
    );
    eventually("all are kept", async || {
        counts(&fresh, "outbox").await == [20, 0, 0]
    })
    .await;
    eventually("all are gone", async || {
        counts(&fresh, "outbox").await == [0, 0, 0]
    })
    .await;
    relay.stop().await;
}
