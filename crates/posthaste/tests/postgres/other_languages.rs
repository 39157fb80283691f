//! Enqueue without Rust: the SQL function and the plain insert, through psql.

use std::process::{Command, Output};

use posthaste::store::{Claim, Store};
use posthaste::{Event, TopicRule, schema};
use posthaste_testkit::outbox::Fresh;

/// The page that services in other languages follow.
const GUIDE: &str = include_str!("../../../../docs/other-languages.md");

/// Runs statements as a session of psql. Each `-c` is sent on its own.
fn psql(fresh: &Fresh, statements: &[&str]) -> Output {
    let mut command = Command::new("psql");
    command.args([
        "-X",
        "-q",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        "-v",
        "VERBOSITY=verbose",
    ]);
    for statement in statements {
        let schema = fresh.table.schema();
        // A constraint is called by its name alone.
        let statement = statement
            .replace("constraint orders_outbox", "constraint outbox")
            .replace("orders_outbox", &format!("{schema}.outbox"));
        command.args(["-c", &statement]);
    }
    command.arg(&fresh.url).output().expect("psql is installed")
}

fn answer(fresh: &Fresh, statements: &[&str]) -> String {
    let output = psql(fresh, statements);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{statements:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn error(fresh: &Fresh, statement: &str) -> String {
    let output = psql(fresh, &[statement]);
    assert!(!output.status.success(), "{statement}");
    String::from_utf8(output.stderr).unwrap()
}

async fn claim(fresh: &Fresh) -> Vec<Event> {
    let claimed = fresh.store().await.claim(&Claim::new(100)).await.unwrap();
    assert!(claimed.malformed.is_empty(), "{:?}", claimed.malformed);
    claimed.events
}

/// The statements that the guide has for PostgreSQL: the function, the insert, and the rule for topics.
fn examples() -> [&'static str; 3] {
    let (for_postgres, _) = GUIDE.split_once("\n## In your language\n").unwrap();
    let blocks = for_postgres.split("```sql\n").skip(1);
    let blocks: Vec<&str> = blocks
        .map(|block| block.split("```").next().unwrap())
        .collect();
    blocks.try_into().unwrap()
}

// P1
#[tokio::test]
async fn the_examples_of_the_guide_work() {
    let fresh = Fresh::new().await;
    let examples = examples();
    let first = answer(&fresh, &[examples[0]]);
    assert!(first.ends_with("|t"), "{first}");
    answer(&fresh, &[examples[1]]);
    // Again: nothing new.
    let again = answer(&fresh, &[examples[0]]);
    assert_eq!(again, first.replace("|t", "|f"));
    answer(&fresh, &[examples[1]]);
    let events = claim(&fresh).await;
    assert_eq!(events.len(), 2);
    assert_eq!(&*events[0].payload, br#"{"order": 42}"#);
    assert_eq!(events[0].headers["source"], "checkout");
    assert_eq!(events[0].ordering_key.as_deref(), Some("42"));
    assert_eq!(&*events[1].payload, br#"{"order": 43}"#);
    for event in events {
        assert_eq!(event.topic, "shop.order.placed.v1");
        assert_eq!(event.content_type, "application/json");
    }
}

// P1 B10
#[tokio::test]
async fn with_the_rule_of_the_guide_a_plain_insert_takes_the_topics_that_rust_takes() {
    let mut fresh = Fresh::new().await;
    let insert =
        |topic: &str| format!("insert into orders_outbox (topic, payload) values ('{topic}', '1')");
    answer(
        &fresh,
        &[&insert("Order placed"), "delete from orders_outbox"],
    );
    answer(&fresh, &[examples()[2]]);
    let longest = format!("shop.order.{}.v1", "x".repeat(113));
    let mut taken = 0;
    for topic in [
        "shop.order.placed.v1",
        "shop.order-line.re-priced.v12",
        "a.b.c.d.v0",
        &longest,
        &format!("{longest}1"),
        "",
        "orders",
        "Order placed",
        "order.placed.v1",
        "shop.order.placed.v",
        "shop.order.placed.vx",
        "shop.order.placed.1",
        "Shop.order.placed.v1",
        "shop..placed.v1",
        ".shop.order.placed.v1",
        "shop.order.placed.v1.",
        "shop.order.placed.v1\n",
        "shop.order.pläced.v1",
    ] {
        let output = psql(&fresh, &[&insert(topic)]);
        let errors = String::from_utf8(output.stderr).unwrap();
        let is_right = TopicRule::Strict.check(topic).is_ok();
        assert_eq!(output.status.success(), is_right, "{topic}: {errors}");
        assert!(
            is_right || errors.contains("ERROR:  23514"),
            "{topic}: {errors}"
        );
        taken += usize::from(is_right);
    }
    assert_eq!((longest.len(), taken), (127, 4));
    assert_eq!(claim(&fresh).await.len(), 4);
    // It is the owner's, and no migration minds it.
    schema::check(&fresh.client, &fresh.table).await.unwrap();
    schema::apply(&mut fresh.client, &fresh.table)
        .await
        .unwrap();
    answer(
        &fresh,
        &["alter table orders_outbox drop constraint orders_outbox_topic_rule"],
    );
    answer(&fresh, &[&insert("Order placed")]);
}

// P1 M6
#[tokio::test]
async fn the_function_enqueues_in_the_callers_transaction() {
    let fresh = Fresh::new().await;
    let enqueue = "select orders_outbox_enqueue('shop.order.placed.v1', '1')";
    answer(&fresh, &["begin", enqueue, "rollback"]);
    assert!(claim(&fresh).await.is_empty());
    answer(&fresh, &["begin", enqueue, enqueue, "commit"]);
    assert_eq!(claim(&fresh).await.len(), 2);
}

// P1 M1
#[tokio::test]
async fn the_function_takes_everything_that_an_event_has() {
    let fresh = Fresh::new().await;
    let tenant = "6f2c1f0e-7a35-4d5f-8f3a-0d7b1c2e3f40";
    let id = "0197f3a0-5f6e-7c5c-b0a5-3d4c2f1e0d9b";
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let full = format!(
        "select event_id from orders_outbox_enqueue('Anything', payload_bytes => '\\x00ff', \
           content_type => 'image/png', id => '{id}', namespace => 'n', tenant_id => '{tenant}', \
           aggregate_type => 'Order', aggregate_id => '42', event_type => 'Placed', ordering_key => 'o', \
           dedupe_key => '{tenant}/k', headers => '{{\"a\": \"b\"}}', traceparent => '{parent}', \
           tracestate => 'x=y', strict_topic => false)"
    );
    assert_eq!(answer(&fresh, &[&full]), id);
    answer(
        &fresh,
        &["select orders_outbox_enqueue('shop.order.placed.v1', '1', delay => '1 hour')"],
    );
    let events = claim(&fresh).await;
    let [event] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(
        (event.topic.as_str(), event.namespace.as_str()),
        ("Anything", "n")
    );
    assert_eq!(event.tenant_id.unwrap().to_string(), tenant);
    assert_eq!(
        (&*event.payload, &*event.content_type),
        (&[0, 255][..], "image/png")
    );
    assert_eq!(event.aggregate_type.as_deref(), Some("Order"));
    assert_eq!(event.event_type.as_deref(), Some("Placed"));
    assert_eq!(event.dedupe_key, Some(format!("{tenant}/k")));
    assert_eq!(event.trace.as_ref().unwrap().traceparent, parent);
    assert_eq!(
        event.trace.as_ref().unwrap().tracestate.as_deref(),
        Some("x=y")
    );
}

// B10 M4 P1
#[tokio::test]
async fn the_function_refuses_what_is_not_valid() {
    let fresh = Fresh::new().await;
    let long = "x".repeat(65_536);
    for (state, call) in [
        ("22023", "'orders', '1'"),
        ("22023", "'Shop.Order.Placed.v1', '1'"),
        ("22023", "'shop.order.placed.v', '1'"),
        ("22023", "'', '1'"),
        ("22023", &format!("'{long}', '1'")),
        ("23514", &format!("'{long}', '1', strict_topic => false")),
        ("23514", "'shop.order.placed.v1'"),
        (
            "23514",
            "'shop.order.placed.v1', '1', payload_bytes => '\\x00'",
        ),
        (
            "23514",
            "'shop.order.placed.v1', '1', tenant_id => gen_random_uuid(), dedupe_key => 'k'",
        ),
        ("23502", "null, '1'"),
        ("23502", "'shop.order.placed.v1', '1', id => null"),
        ("22P02", "'shop.order.placed.v1', '{'"),
        ("22P05", "'shop.order.placed.v1', '\"\\u0000\"'"),
    ] {
        let error = error(&fresh, &format!("select orders_outbox_enqueue({call})"));
        assert!(
            error.contains(&format!("ERROR:  {state}")),
            "{call}: {error}"
        );
    }
    let error = error(&fresh, "select orders_outbox_enqueue('orders', '1')");
    assert!(error.contains("<module>.<aggregate>.<event>.vN"), "{error}");
    assert!(claim(&fresh).await.is_empty());
}

// M5 B4 P1
#[tokio::test]
async fn racing_calls_of_the_function_make_one_event() {
    let fresh = Fresh::new().await;
    let answers: Vec<String> = std::thread::scope(|scope| {
        let call = || {
            let call = "select * from orders_outbox_enqueue('shop.order.placed.v1', '1', dedupe_key => 'k')";
            // Held open for a moment, so that the others collide with it.
            answer(&fresh, &["begin", call, "select pg_sleep(0.2)", "commit"])
        };
        let calls: Vec<_> = (0..6).map(|_| scope.spawn(call)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let new = answers
        .iter()
        .filter(|answer| answer.contains("|t"))
        .count();
    let mut ids: Vec<&str> = answers
        .iter()
        .map(|answer| answer.split('|').next().unwrap())
        .collect();
    ids.dedup();
    assert_eq!((new, ids.len()), (1, 1), "{answers:?}");
    assert_eq!(claim(&fresh).await.len(), 1);
}

#[tokio::test]
async fn psql_can_run_what_schema_prints() {
    let fresh = Fresh::new().await;
    let table = posthaste::Table::parse(&format!("{}.again", fresh.table.schema())).unwrap();
    answer(&fresh, &[&schema::sql(&table)]);
    schema::check(&fresh.client, &table).await.unwrap();
}
