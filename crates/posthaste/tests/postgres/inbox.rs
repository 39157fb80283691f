//! The inbox: the effect of an event happens once.

use std::sync::Arc;
use std::time::Duration;

use posthaste::{Inbox, Once, Table, schema};
use posthaste_testkit::outbox::connect;
use posthaste_testkit::server::postgres_url;
use tokio::sync::Notify;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::drivers::{Driver, Script, for_every_driver};

for_every_driver! {
    an_event_is_handled_once_by_each_consumer,
    of_two_racing_consumers_exactly_one_handles,
    a_consumer_whose_rival_rolled_back_handles,
    a_bad_consumer_leaves_the_transaction_usable,
}

async fn fresh() -> (Client, Inbox) {
    let mut client = connect(&postgres_url()).await;
    let name = format!("t{}.inbox", Uuid::new_v4().simple());
    let table = Table::parse(&name).unwrap();
    schema::apply_inbox(&mut client, &table).await.unwrap();
    (client, Inbox::new(&*name).unwrap())
}

async fn count(client: &Client, inbox: &Inbox) -> i64 {
    let sql = format!("select count(*) from {}", inbox.table());
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

async fn an_event_is_handled_once_by_each_consumer<D: Driver>() {
    let (client, inbox) = fresh().await;
    let mut driver = D::connect(&postgres_url()).await;
    let event = Uuid::new_v4();
    let script = |consumer| Script::new().once(&inbox, consumer, event);
    let mut seen = Vec::new();
    for script in [
        script("invoices").roll_back(),
        script("invoices"),
        script("invoices"),
        script("mails").once(&inbox, "mails", event),
        script("invoices").once(&inbox, "invoices", Uuid::new_v4()),
    ] {
        seen.extend(
            driver
                .play(script)
                .await
                .once
                .into_iter()
                .map(Result::unwrap),
        );
    }
    use Once::{Again, First};
    assert_eq!(seen, [First, First, Again, First, Again, Again, First]);
    assert_eq!(count(&client, &inbox).await, 3);
}

async fn race<D: Driver>(
    first: Script,
    second: Script,
    client: &Client,
    inbox: &Inbox,
) -> [Once; 2] {
    let (mut one, mut other) = (
        D::connect(&postgres_url()).await,
        D::connect(&postgres_url()).await,
    );
    let (noted, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let second = async {
        noted.notified().await;
        other.play(second).await
    };
    let referee = async {
        let waits = format!(
            "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query like '%{}%')",
            inbox.table().schema()
        );
        while !client
            .query_one(&waits, &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        go.notify_one();
    };
    let race = async { tokio::join!(one.play(first.tell(&noted).wait(&go)), second, referee) };
    let (first, second, ()) = tokio::time::timeout(Duration::from_secs(20), race)
        .await
        .unwrap();
    [first, second].map(|mut played| played.once.remove(0).unwrap())
}

async fn of_two_racing_consumers_exactly_one_handles<D: Driver>() {
    let (client, inbox) = fresh().await;
    let event = Uuid::new_v4();
    let script = || Script::new().once(&inbox, "invoices", event);
    let once = race::<D>(script(), script(), &client, &inbox).await;
    assert_eq!(once, [Once::First, Once::Again]);
}

async fn a_consumer_whose_rival_rolled_back_handles<D: Driver>() {
    let (client, inbox) = fresh().await;
    let event = Uuid::new_v4();
    let script = || Script::new().once(&inbox, "invoices", event);
    let once = race::<D>(script().roll_back(), script(), &client, &inbox).await;
    assert_eq!(once, [Once::First, Once::First]);
    assert_eq!(count(&client, &inbox).await, 1);
}

async fn a_bad_consumer_leaves_the_transaction_usable<D: Driver>() {
    let (client, inbox) = fresh().await;
    let mut driver = D::connect(&postgres_url()).await;
    let event = Uuid::new_v4();
    let long: &'static str = "x".repeat(256).leak();
    let script = Script::new()
        .once(&inbox, "", event)
        .once(&inbox, "nul\0", event)
        .once(&inbox, long, event)
        .once(&inbox, "it's; \"fine\"", event);
    let mut once = driver.play(script).await.once;
    assert_eq!(once.pop().unwrap().unwrap(), Once::First);
    for refused in once {
        assert_eq!(refused.unwrap_err().code(), "inbox.consumer_invalid");
    }
    assert_eq!(count(&client, &inbox).await, 1);
}

#[tokio::test]
async fn what_is_past_its_retention_is_forgotten_in_batches() {
    let (mut client, inbox) = fresh().await;
    let insert = format!(
        "insert into {} (consumer, event_id, handled_at) \
         select 'c', gen_random_uuid(), now() - interval '8 days' from generate_series(1, 25) \
         union all select 'c', gen_random_uuid(), now() - interval '6 days' from generate_series(1, 5)",
        inbox.table()
    );
    client.batch_execute(&insert).await.unwrap();
    let week = Duration::from_secs(7 * 86_400);
    let mut batches = Vec::new();
    for _ in 0..4 {
        let transaction = client.transaction().await.unwrap();
        batches.push(inbox.clean(&transaction, week, 10).await.unwrap());
        transaction.commit().await.unwrap();
    }
    assert_eq!(batches, [10, 10, 5, 0]);
    assert_eq!(count(&client, &inbox).await, 5);
}

#[cfg(feature = "diesel-async")]
#[tokio::test]
async fn diesel_outside_a_transaction_is_refused() {
    use diesel_async::AsyncConnection;

    let (_, inbox) = fresh().await;
    let connection = diesel_async::AsyncPgConnection::establish(&postgres_url()).await;
    let error = inbox
        .once(&mut connection.unwrap(), "c", Uuid::new_v4())
        .await;
    assert_eq!(error.unwrap_err().code(), "inbox.not_in_transaction");
}
