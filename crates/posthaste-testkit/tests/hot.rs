//! Claims stay in their page: no index gets an entry. See docs/decisions/0002.

use posthaste::Message;
use posthaste_testkit::outbox::{Fresh, connect};

// M7
#[tokio::test]
async fn a_claim_costs_no_index_entry() {
    let mut fresh = Fresh::new().await;
    let message = |n: usize| {
        Message::json("shop.order.placed.v1", &format!("{n:0250}"))
            .expect("JSON")
            .ordering_key(format!("order-{n}"))
            .dedupe_key(format!("placed-{n}"))
    };
    let messages: Vec<Message> = (0..2_000).map(message).collect();
    fresh.enqueue(&messages).await;
    let claim = fresh.sql(include_str!("../../posthaste/sql/postgres/claim.sql"));
    let keyed = fresh.sql(include_str!("../../posthaste/sql/postgres/claim_keyed.sql"));
    let all = "1000, 60, gen_random_uuid(), 25, null, null, null, '{}', '-infinity', 0, '{}', 'shop.dead-letters.v1', 1000000000";
    for (sql, values) in [
        (claim, all.to_owned()),
        (keyed, format!("{all}, 4000, 'block', null")),
    ] {
        // The counts of a session are known at once inside its own transaction.
        let client = connect(&fresh.url).await;
        let work = format!("prepare claim as {sql}; begin; execute claim({values});");
        client.batch_execute(&work).await.expect("a claim");
        let counts = client
            .query_one(
                "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables
                 where schemaname = $1 and relname = $2",
                &[&fresh.table.schema(), &fresh.table.name()],
            )
            .await
            .expect("counts");
        let (updated, in_page): (i64, i64) = (counts.get(0), counts.get(1));
        assert_eq!(updated, 1_000);
        assert_eq!(in_page, updated);
        client.batch_execute("commit").await.expect("a commit");
    }
}
