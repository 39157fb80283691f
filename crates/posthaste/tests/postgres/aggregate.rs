//! Domain events of aggregates: saved with the aggregate, forgotten only then.

use posthaste::{Message, Outbox, Recorded};
use posthaste_testkit::outbox::Fresh;

/// An order as a service would have it.
struct Order {
    id: i32,
    events: Recorded,
}

impl Order {
    fn placed(id: i32) -> Self {
        let mut events = Recorded::new();
        events.record(Message::json("shop.order.placed.v1", &id).unwrap());
        Self { id, events }
    }

    fn pay(&mut self) {
        let message = Message::json("shop.order.paid.v1", &self.id).unwrap();
        self.events.record(message);
    }
}

async fn with_orders() -> Fresh {
    let fresh = Fresh::new().await;
    let create = orders(&fresh, "create table {orders} (id integer primary key)");
    fresh.client.batch_execute(&create).await.unwrap();
    fresh
}

fn orders(fresh: &Fresh, sql: &str) -> String {
    sql.replace("{orders}", &format!("{}.orders", fresh.table.schema()))
}

async fn topics(fresh: &Fresh) -> Vec<String> {
    let sql = fresh.sql("select topic from {outbox} order by sequence");
    let rows = fresh.client.query(&sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

// F1
#[tokio::test]
async fn events_are_saved_with_their_aggregate_and_then_forgotten() {
    let mut fresh = with_orders().await;
    let insert = orders(&fresh, "insert into {orders} values ($1)");
    let (mut one, mut two) = (Order::placed(1), Order::placed(2));
    one.pay();
    let transaction = fresh.client.transaction().await.unwrap();
    for order in [&one, &two] {
        transaction.execute(&insert, &[&order.id]).await.unwrap();
    }
    let recorded = [&mut one.events, &mut two.events];
    let saved = fresh.outbox.save(&transaction, recorded).await.unwrap();
    assert_eq!(saved.receipts().len(), 3);
    saved.after(transaction.commit()).await.unwrap();
    assert!(one.events.is_empty() && two.events.is_empty());
    let placed = "shop.order.placed.v1";
    assert_eq!(topics(&fresh).await, [placed, "shop.order.paid.v1", placed]);
}

// F1
#[tokio::test]
async fn a_save_that_fails_keeps_the_events() {
    let mut fresh = with_orders().await;
    let mut order = Order::placed(1);

    // Refused when it is enqueued.
    order.events.record(Message::json("nonsense", &1).unwrap());
    let transaction = fresh.client.transaction().await.unwrap();
    let refused = fresh.outbox.save(&transaction, [&mut order.events]).await;
    assert_eq!(refused.unwrap_err().code(), "outbox.topic_invalid");
    transaction.commit().await.unwrap();
    assert_eq!(order.events.messages().len(), 2);

    // Rolled back.
    let outbox = Outbox::of(fresh.table.clone()).topics(posthaste::TopicRule::Relaxed);
    let transaction = fresh.client.transaction().await.unwrap();
    let saved = outbox
        .save(&transaction, [&mut order.events])
        .await
        .unwrap();
    drop(saved);
    transaction.rollback().await.unwrap();
    assert_eq!(order.events.messages().len(), 2);

    // Refused at the commit, by a deferred constraint.
    let deferred = orders(
        &fresh,
        "alter table {orders} add parent integer references {orders} deferrable initially deferred",
    );
    fresh.client.batch_execute(&deferred).await.unwrap();
    let insert = orders(&fresh, "insert into {orders} values (1, 99)");
    let transaction = fresh.client.transaction().await.unwrap();
    transaction.batch_execute(&insert).await.unwrap();
    let saved = outbox
        .save(&transaction, [&mut order.events])
        .await
        .unwrap();
    saved.after(transaction.commit()).await.unwrap_err();
    assert_eq!(order.events.messages().len(), 2);
    assert!(topics(&fresh).await.is_empty());

    // And then it succeeds.
    let transaction = fresh.client.transaction().await.unwrap();
    let saved = outbox
        .save(&transaction, [&mut order.events])
        .await
        .unwrap();
    saved.after(transaction.commit()).await.unwrap();
    assert!(order.events.is_empty());
    assert_eq!(topics(&fresh).await, ["shop.order.placed.v1", "nonsense"]);
}

// F1 M5
#[tokio::test]
async fn saving_again_after_a_commit_whose_answer_was_lost_makes_no_second_event() {
    let mut fresh = with_orders().await;
    let mut order = Order::placed(1);
    for new in [true, false] {
        let transaction = fresh.client.transaction().await.unwrap();
        let saved = fresh
            .outbox
            .save(&transaction, [&mut order.events])
            .await
            .unwrap();
        assert_eq!(saved.receipts()[0].new, new);
        let answer_is_lost = async {
            transaction.commit().await.unwrap();
            Err::<(), _>("connection closed")
        };
        saved.after(answer_is_lost).await.unwrap_err();
        assert!(!order.events.is_empty());
    }
    assert_eq!(topics(&fresh).await.len(), 1);
}

// F1
#[cfg(feature = "diesel-async")]
#[tokio::test]
async fn a_transaction_that_commits_at_the_end_of_a_closure_hands_the_events_out() {
    use diesel_async::{AsyncConnection, AsyncPgConnection};

    #[derive(Debug)]
    struct Failed;

    impl From<diesel::result::Error> for Failed {
        fn from(_: diesel::result::Error) -> Self {
            Self
        }
    }

    let fresh = with_orders().await;
    let mut order = Order::placed(1);
    let mut connection = AsyncPgConnection::establish(&fresh.url).await.unwrap();
    let events = &mut order.events;
    let outbox = fresh.outbox.clone();
    let save = async move |connection: &mut AsyncPgConnection| {
        outbox.save(connection, [events]).await.map_err(|_| Failed)
    };
    let saved = connection.transaction(save).await.unwrap();
    saved.committed();
    assert!(order.events.is_empty());
    assert_eq!(topics(&fresh).await.len(), 1);
}
