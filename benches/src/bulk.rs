//! Bulk enqueue of 1,000 events, against a bare INSERT with 1,000 rows of values.

use std::time::Instant;

use posthaste::Message;
use serde_json::json;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::Result;
use crate::bed::{Bed, message};

const EVENTS: usize = 1000;
/// Each column with the type that its parameter has, and what it is cast to.
const COLUMNS: [(&str, &str); 15] = [
    ("id", "::uuid"),
    ("namespace", "::text"),
    ("topic", "::text"),
    ("tenant_id", "::uuid"),
    ("aggregate_type", "::text"),
    ("aggregate_id", "::text"),
    ("event_type", "::text"),
    ("ordering_key", "::text"),
    ("dedupe_key", "::text"),
    ("headers", "::text::jsonb"),
    ("content_type", "::text"),
    ("payload", "::text::jsonb"),
    ("payload_bytes", "::bytea"),
    ("traceparent", "::text"),
    ("tracestate", "::text"),
];

pub(crate) async fn run(bed: &Bed) -> Result {
    let turns = if bed.quick { 20 } else { 60 };
    let mut fresh = bed.fresh().await?;
    let rows: Vec<String> = (0..EVENTS)
        .map(|row| {
            let values: Vec<String> = COLUMNS
                .iter()
                .enumerate()
                .map(|(place, (_, cast))| format!("${}{cast}", row * COLUMNS.len() + place + 1))
                .collect();
            format!("({})", values.join(", "))
        })
        .collect();
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let bare = fresh.sql(&format!(
        "insert into {{outbox}} ({}) values {}",
        names.join(", "),
        rows.join(", ")
    ));
    let bare = fresh.client.prepare(&bare).await?;
    let prepared = fresh.outbox.prepare(&fresh.client).await?;
    let (mut ours, mut floor) = (0.0, 0.0);
    for turn in 0..turns {
        let messages: Vec<Message> = (0..EVENTS)
            .map(|n| message((turn * EVENTS + n) as u64))
            .collect();
        let started = Instant::now();
        let transaction = fresh.client.transaction().await?;
        fresh
            .outbox
            .enqueue_all(prepared.on(&transaction), &messages)
            .await?;
        transaction.commit().await?;
        ours += started.elapsed().as_secs_f64();

        let values: Vec<(Uuid, String, String)> = (0..EVENTS)
            .map(|n| {
                let n = turn * EVENTS + n;
                let payload = json!({"order": n, "note": "x".repeat(225)}).to_string();
                (Uuid::now_v7(), n.to_string(), payload)
            })
            .collect();
        let started = Instant::now();
        let params: Vec<&(dyn ToSql + Sync)> = values
            .iter()
            .flat_map(|(id, order, payload)| {
                let none = &None::<&str>;
                let row: [&(dyn ToSql + Sync); 15] = [
                    id,
                    &"",
                    &"shop.order.placed.v1",
                    &None::<Uuid>,
                    &"Order",
                    order,
                    none,
                    none,
                    none,
                    &"{}",
                    &"application/json",
                    payload,
                    &None::<&[u8]>,
                    none,
                    none,
                ];
                row
            })
            .collect();
        let transaction = fresh.client.transaction().await?;
        transaction.execute(&bare, &params).await?;
        transaction.commit().await?;
        floor += started.elapsed().as_secs_f64();
    }
    let events = (turns * EVENTS) as f64;
    bed.tell(
        "bulk enqueue of 1000",
        events / ours,
        "events/s",
        Some(events / floor),
        json!({"turns": turns, "payload_bytes": 250}),
    );
    fresh.drop().await
}
