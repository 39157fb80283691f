//! The same producer in Rust: what the others are compared with.

use posthaste::{EnqueueError, Message, Outbox};
use producers::{Line, Mode, Outcome, Result, Shop, Way, orders, runs};
use serde_json::json;
use uuid::Uuid;

/// As its table and its events call it.
pub(crate) const NAME: &str = "rust";

const TENANT: Uuid = Uuid::from_u128(0x6f2c1f0e_7a35_4d5f_8f3a_0d7b1c2e3f40);

/// Does everything that the others do, and says the same of it.
pub(crate) async fn produce(shop: &mut Shop) -> Result<Vec<(Way, Mode, Vec<Line>)>> {
    let table = "create table rust_orders (number bigint primary key, item text not null)";
    shop.client.batch_execute(table).await?;
    let outbox = Outbox::of(shop.table.clone());
    let mut done = Vec::new();
    for (way, mode) in runs() {
        let mut lines = Vec::new();
        for order in orders(way, mode) {
            for message in attempts(mode, order)? {
                let outcome = place(shop, &outbox, mode, order, &message).await?;
                lines.push(Line { order, outcome });
            }
        }
        done.push((way, mode, lines));
    }
    Ok(done)
}

async fn place(
    shop: &mut Shop,
    outbox: &Outbox,
    mode: Mode,
    order: u32,
    message: &Message,
) -> Result<Outcome> {
    let transaction = shop.client.transaction().await?;
    let insert = "insert into rust_orders (number, item) values ($1, $2) on conflict do nothing";
    transaction
        .execute(insert, &[&i64::from(order), &item(mode)])
        .await?;
    let refused = |what: &str| Outcome::Refused {
        what: what.to_owned(),
        state: String::new(),
    };
    let receipt = match outbox.enqueue(&transaction, message).await {
        Ok(receipt) => receipt,
        Err(EnqueueError::TopicInvalid { .. }) => return Ok(refused("topic")),
        Err(EnqueueError::DedupeTenantMismatch { .. }) => return Ok(refused("tenant")),
        Err(other) => return Err(other.into()),
    };
    if mode == Mode::Rollback {
        transaction.rollback().await?;
        return Ok(Outcome::SoldOut);
    }
    transaction.commit().await?;
    Ok(match receipt.new {
        true => Outcome::New(receipt.id),
        false => Outcome::Known(Some(receipt.id)),
    })
}

fn item(mode: Mode) -> &'static str {
    match mode {
        Mode::Rollback => "unicorn",
        // The quote is a trap for whoever writes JSON by hand.
        _ => "21\" lamp",
    }
}

fn attempts(mode: Mode, order: u32) -> Result<Vec<Message>> {
    let topic = match mode {
        Mode::BadTopic => "Order placed",
        Mode::NoTopic => "",
        _ => "shop.order.placed.v1",
    };
    let key = match mode {
        Mode::Race => format!("{TENANT}/race-{order}"),
        Mode::BadTenant => format!("another/rust-{order}"),
        _ => format!("{TENANT}/rust-{order}"),
    };
    let payload = json!({"order": order, "item": item(mode)});
    let bare = Message::json(topic, &payload)?
        .tenant(TENANT)
        .header("source", NAME);
    let id = Uuid::new_v4();
    let message = bare.clone().id(id).dedupe_key(&key);
    Ok(match mode {
        Mode::Duplicate => vec![
            message,
            bare.clone().id(Uuid::new_v4()).dedupe_key(&key),
            bare.id(id),
        ],
        _ => vec![message],
    })
}
