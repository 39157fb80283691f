use posthaste::{Message, Outbox};
use serde_json::json;

async fn place_order(
    client: &mut tokio_postgres::Client,
    outbox: &Outbox, // Outbox::new("shop.orders_outbox")?, made once
) -> Result<(), Box<dyn std::error::Error>> {
    let transaction = client.transaction().await?;
    let insert = "insert into orders (id, item) values (42, 'lamp')";
    transaction.execute(insert, &[]).await?;

    let order = json!({"order": 42, "item": "lamp"});
    let message = Message::json("shop.order.placed.v1", &order)?
        .aggregate("Order", "42")
        .ordering_key("order-42")
        .dedupe_key("order-42-placed");
    let receipt = outbox.enqueue(&transaction, &message).await?;
    println!("event {}, new: {}", receipt.id, receipt.new);

    transaction.commit().await?;
    Ok(())
}

// So much for the README.

use posthaste::Store;
use posthaste_testkit::outbox::Fresh;

#[tokio::test]
async fn an_order_is_placed_with_its_event() {
    let mut fresh = Fresh::new().await;
    let schema = fresh.table.schema().to_owned();
    let orders =
        format!("create table {schema}.orders (id bigint, item text); set search_path = {schema}");
    fresh.client.batch_execute(&orders).await.unwrap();
    place_order(&mut fresh.client, &fresh.outbox).await.unwrap();
    let orders = fresh.client.query_one("select item from orders", &[]).await;
    assert_eq!(orders.unwrap().get::<_, &str>(0), "lamp");
    assert_eq!(fresh.store().await.stats().await.unwrap().pending, 1);
}
