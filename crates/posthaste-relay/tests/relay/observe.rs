//! What a relay tells: metrics by their names, logs by their fields, and never too much.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use posthaste::{Message, Status, Store};
use posthaste_relay::sink::Outcome;
use posthaste_relay::{METRICS, Mode};
use posthaste_testkit::outbox::{Fresh, connect};
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use uuid::Uuid;

use crate::support::*;

/// One log line: its message and its fields.
type Line = BTreeMap<String, String>;

/// What all tests of this program logged. It cannot be one for each: whether a place in the code
/// logs at all is decided once for all threads.
static LOG: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// Keeps log lines, and the fields of spans as lines of their own.
struct Keep;

struct Fields<'l>(&'l mut Line);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        self.0
            .insert(field.name().to_owned(), text.trim_matches('"').to_owned());
    }
}

impl<S: tracing::Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut line = Line::from([("level".to_owned(), event.metadata().level().to_string())]);
        event.record(&mut Fields(&mut line));
        LOG.lock().unwrap().push(line);
    }

    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        _: &tracing::Id,
        _: Context<'_, S>,
    ) {
        let name = attributes.metadata().name().to_owned();
        let mut line = Line::from([("span".to_owned(), name)]);
        attributes.record(&mut Fields(&mut line));
        LOG.lock().unwrap().push(line);
    }
}

/// Records, and knows how often the relay has begun to tell what there is. From a snapshot that cannot be known
/// without harm: it sets every metric to zero.
struct Counted {
    recorder: DebuggingRecorder,
    counts: AtomicUsize,
}

impl Recorder for Counted {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, about: SharedString) {
        self.recorder.describe_counter(name, unit, about);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, about: SharedString) {
        self.recorder.describe_gauge(name, unit, about);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, about: SharedString) {
        self.recorder.describe_histogram(name, unit, about);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.recorder.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        if key.name() == "outbox_pending" {
            self.counts.fetch_add(1, Ordering::SeqCst);
        }
        self.recorder.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.recorder.register_histogram(key, metadata)
    }
}

/// What events of each fate, of this tenant, made a relay tell.
struct Told {
    lines: Vec<Line>,
    metrics: Vec<(MetricKind, String, Line, DebugValue)>,
    ids: Vec<Uuid>,
}

/// Keeps what is logged from now on.
fn log() {
    static LOGGING: Once = Once::new();
    LOGGING.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Keep);
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

async fn told(tenant: Uuid, mask: bool) -> Told {
    // Nobody else's, and so it is found wherever it goes.
    let secret = tenant.simple().to_string();
    log();
    // Of this thread only, and so is everything in this test.
    let recorder = DebuggingRecorder::new();
    let snapshotter: Snapshotter = recorder.snapshotter();
    let recorder = Counted {
        recorder,
        counts: AtomicUsize::new(0),
    };
    let _metrics = metrics::set_default_local_recorder(&recorder);

    let mut fresh = Fresh::new().await;
    let payload = format!(r#"{{"card": "{secret}"}}"#);
    let with = |fate: &str| {
        Message::json_text(format!("shop.order.{fate}.v1"), payload.clone())
            .unwrap()
            .tenant(tenant)
    };
    let fates = ["delivered", "failed", "rejected", "down", "down"].map(with);
    let ids = fresh
        .enqueue(&fates)
        .await
        .iter()
        .map(|receipt| receipt.id)
        .collect();
    // What is down stays as it is while it is counted: one of its events is on its way as a probe, the other waits.
    let downs = Arc::new(AtomicUsize::new(0));
    let (counted, until_counted) = watch::channel(());
    let tries = downs.clone();
    let witness = Witness::new(move |event| {
        let (secret, downs, mut until_counted) =
            (secret.clone(), downs.clone(), until_counted.clone());
        async move {
            match event.topic.split('.').nth(2).unwrap() {
                "failed" if event.attempts < 3 => {
                    let tail = "x".repeat(5000);
                    Outcome::Retry(format!(
                        "password=hunter2, cannot read {secret}\"}}: {tail}"
                    ))
                }
                "rejected" => Outcome::Reject(String::from_utf8_lossy(&event.payload).into_owned()),
                "down" => {
                    if downs.fetch_add(1, Ordering::SeqCst) >= 2 {
                        let _ = until_counted.changed().await;
                    }
                    Outcome::Unavailable("connection refused".to_owned())
                }
                _ => Outcome::Delivered,
            }
        }
    });
    let builder = brisk(&fresh)
        .await
        .mask_tenant(mask)
        .stats_interval(MS(100));
    let builder = builder
        .mode(Mode::SingleActive)
        .destination("up", witness.clone());
    let builder = builder.destination("down", witness.clone());
    let builder = builder.route("*.down.*", "down").route("*", "up");
    let relay = Running::start(builder.build().unwrap());
    let store = fresh.store().await;
    eventually("all have met their fate", async || {
        with_status(&store, Status::Delivered).await.len() == 2
            && with_status(&store, Status::Dead).await.len() == 1
            && tries.load(Ordering::SeqCst) > 2
    })
    .await;
    eventually("one waits and one is on its way", async || {
        let stats = store.stats().await.unwrap();
        (stats.pending, stats.processing) == (1, 1)
    })
    .await;
    // The next count may have begun before that, the one after it has not.
    let counts = || recorder.counts.load(Ordering::SeqCst);
    let before = counts();
    eventually("it is counted", async || counts() >= before + 2).await;
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    let metrics = metrics.map(|(key, _, _, value)| {
        let labels = key.key().labels();
        let labels = labels.map(|label| (label.key().to_owned(), label.value().to_owned()));
        (
            key.kind(),
            key.key().name().to_owned(),
            labels.collect(),
            value,
        )
    });
    let metrics = metrics.collect();
    drop(counted);
    relay.stop().await;
    let table = fresh.table.to_string();
    let mut lines = LOG.lock().unwrap().clone();
    let names = ["table", "posthaste.table"];
    lines.retain(|line| names.iter().any(|name| line.get(*name) == Some(&table)));
    Told {
        lines,
        metrics,
        ids,
    }
}

impl Told {
    /// The sum of a metric over all that match these labels.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let matching = self.metrics.iter().filter(|(_, metric, has, _)| {
            metric == name
                && labels
                    .iter()
                    .all(|(label, value)| has.get(*label).is_some_and(|v| v == value))
        });
        let values: Vec<f64> = matching
            .map(|(_, _, _, value)| match value {
                DebugValue::Counter(n) => *n as f64,
                DebugValue::Gauge(n) => n.into_inner(),
                DebugValue::Histogram(samples) => samples.len() as f64,
            })
            .collect();
        assert!(!values.is_empty(), "there is no {name} {labels:?}");
        values.iter().sum()
    }
}

// farm-8.1, farm-8.2, farm-8.3, farm-8.4, B16 N6 F7 B7
#[tokio::test]
async fn every_metric_has_its_name_and_its_value() {
    let told = told(Uuid::new_v4(), false).await;
    let results = ["success", "failure", "rejected", "unavailable"];
    let by_result =
        results.map(|result| told.value("outbox_dispatch_total", &[("result", result)]));
    assert_eq!(by_result[..3], [2.0, 2.0, 1.0]);
    assert!(by_result[3] >= 1.0);
    let delivered = [("topic", "shop.order.delivered.v1"), ("destination", "up")];
    for (name, labels, value) in [
        ("outbox_enqueue_total", &delivered[..1], 1.0),
        ("outbox_dispatch_total", &delivered[..], 1.0),
        ("outbox_dispatch_latency_seconds", &delivered[..], 1.0),
        ("outbox_process_latency_seconds", &delivered[..], 1.0),
        ("outbox_attempts", &delivered[..1], 1.0),
        (
            "outbox_dead_total",
            &[("topic", "shop.order.rejected.v1"), ("result", "rejected")][..],
            1.0,
        ),
        ("outbox_circuit_open", &[("destination", "down")][..], 1.0),
        ("outbox_relay_leader", &[], 1.0),
        ("outbox_pending", &[], 1.0),
        ("outbox_processing", &[], 1.0),
        ("outbox_dead", &[], 1.0),
        ("outbox_stuck", &[], 0.0),
    ] {
        assert_eq!(told.value(name, labels), value, "{name}");
    }
    assert!(told.value("outbox_oldest_age_seconds", &[]) > 0.0);
    assert_eq!(told.value("outbox_in_flight_limit", &[]), 2000.0);
    assert_eq!(told.value("outbox_lost_leases_total", &[]), 0.0);
    for name in [
        "outbox_claim_seconds",
        "outbox_claim_batch",
        "outbox_settle_seconds",
        "outbox_settle_batch",
    ] {
        assert!(told.value(name, &[]) > 0.0, "{name}");
    }
}

// B16 F7
#[tokio::test]
async fn labels_are_table_topic_destination_and_result_and_never_a_tenant_or_an_id() {
    let tenant = Uuid::new_v4();
    let told = told(tenant, false).await;
    let labels: BTreeSet<&str> = told
        .metrics
        .iter()
        .flat_map(|(_, _, labels, _)| labels.keys().map(String::as_str))
        .collect();
    assert_eq!(
        labels,
        BTreeSet::from(["table", "topic", "destination", "result"])
    );
    for (_, name, labels, _) in &told.metrics {
        let metric = METRICS.iter().find(|metric| metric.name == name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is in no reference"));
        let labels: BTreeSet<&str> = labels.keys().map(String::as_str).collect();
        assert_eq!(labels, metric.labels.iter().copied().collect(), "{name}");
    }
    let text = format!("{:?}", told.metrics);
    assert!(!text.contains(&tenant.to_string()));
    assert!(told.ids.iter().all(|id| !text.contains(&id.to_string())));
    assert!(
        told.metrics
            .iter()
            .all(|(_, _, labels, _)| labels.contains_key("table"))
    );
}

// order-service-6.3, B22 B23
#[tokio::test]
async fn a_log_line_about_an_event_carries_what_is_needed_to_find_it() {
    let tenant = Uuid::new_v4();
    let told = told(tenant, false).await;
    let failed: Vec<&Line> = told
        .lines
        .iter()
        .filter(|line| line.get("result").is_some_and(|result| result == "failure"))
        .collect();
    assert_eq!(failed.len(), 2);
    for (line, attempts) in failed.iter().zip(["1", "2"]) {
        assert_eq!(line["id"], told.ids[1].to_string());
        assert_eq!(
            (&*line["topic"], &*line["attempts"]),
            ("shop.order.failed.v1", attempts)
        );
        assert_eq!(
            (&*line["tenant"], &*line["destination"]),
            (&*tenant.to_string(), "up")
        );
        assert!(line["table"].ends_with(".outbox") && line["sequence"].parse::<i64>().is_ok());
    }
    // Of the one that was rejected.
    let dead = |line: &&Line| {
        line.get("message")
            .is_some_and(|it| it == "an event is dead")
    };
    let dead: Vec<&Line> = told.lines.iter().filter(dead).collect();
    assert_eq!(dead.len(), 1);
    assert_eq!(
        (&*dead[0]["level"], &*dead[0]["topic"], &*dead[0]["reason"]),
        ("ERROR", "shop.order.rejected.v1", "rejected")
    );
    let known = ["table", "id", "tenant", "sequence", "attempts"];
    assert!(known.iter().all(|field| dead[0].contains_key(*field)));
    let spans = |name: &str| -> Vec<&Line> {
        let named = |line: &&Line| line.get("span").is_some_and(|span| span == name);
        told.lines.iter().filter(named).collect()
    };
    let fields = [
        "messaging.destination.name",
        "messaging.message.id",
        "messaging.system",
        "posthaste.table",
        "posthaste.tenant",
        "posthaste.sequence",
        "posthaste.attempts",
        "posthaste.destination",
    ];
    assert!(spans("dispatch").len() >= 5);
    for line in spans("dispatch") {
        assert!(
            fields.iter().all(|field| line.contains_key(*field)),
            "{line:?}"
        );
    }
    for name in ["claim", "settle"] {
        let spans = spans(name);
        assert!(
            !spans.is_empty()
                && spans
                    .iter()
                    .all(|line| line.contains_key("posthaste.table"))
        );
    }
}

// mini-chat-2.2.19, M9, B23
#[tokio::test]
async fn a_lease_that_was_lost_is_told_and_nothing_more_is_done_about_the_event() {
    log();
    let mut fresh = Fresh::new().await;
    let id = fresh.enqueue(&[message("shop.order.placed.v1")]).await[0].id;
    let store = fresh.store().await;
    // While it is delivered another relay takes it, and holds it.
    let (url, table) = (fresh.url.clone(), fresh.table.clone());
    let witness = Witness::new(move |event| {
        let (url, table) = (url.clone(), table.clone());
        async move {
            let taken = format!("update {table} set lease_epoch = lease_epoch + 1 where id = $1");
            let client = connect(&url).await;
            assert_eq!(client.execute(&taken, &[&event.id]).await.unwrap(), 1);
            Outcome::Retry("out of paper".to_owned())
        }
    });
    let relay = relay_to(&fresh, witness.clone()).await;
    let lost = || -> Vec<Line> {
        let mut lines = LOG.lock().unwrap().clone();
        lines.retain(|line| {
            line.get("message")
                .is_some_and(|it| it.starts_with("the lease was lost"))
        });
        lines.retain(|line| line["id"] == id.to_string());
        lines
    };
    eventually("it is told", async || !lost().is_empty()).await;
    relay.stop().await;
    let [line] = &lost()[..] else {
        panic!("{:?}", lost());
    };
    assert_eq!((&*line["level"], &*line["attempts"]), ("WARN", "1"));
    assert_eq!(line["table"], fresh.table.to_string());
    let record = record(&store, id).await;
    assert_eq!(
        (record.status, record.last_error),
        (Status::Processing, None)
    );
    assert_eq!(witness.seen().len(), 1);
}

// org-7.7, B13 B23
#[tokio::test]
async fn no_log_line_holds_a_payload_or_a_secret_and_a_masked_tenant_is_in_none() {
    let tenant = Uuid::new_v4();
    let told = told(tenant, true).await;
    let errors: Vec<&String> = told
        .lines
        .iter()
        .filter_map(|line| line.get("error"))
        .collect();
    assert!(
        errors.iter().any(|error| error.contains("password=***")),
        "{errors:?}"
    );
    assert!(
        errors.iter().all(|error| error.len() <= 2048),
        "an error is cut"
    );
    assert!(
        !format!("{:?}", told.lines).contains("hunter2"),
        "a secret is in the log"
    );
    assert!(format!("{:?}", told.lines).contains("***"));
    let text = format!("{:?}", LOG.lock().unwrap());
    assert!(!text.contains(&tenant.to_string()), "the tenant is masked");
    assert!(
        !text.contains(&tenant.simple().to_string()),
        "a payload is in the log"
    );
}

// B22 B23 B16
#[tokio::test]
async fn of_a_row_that_is_no_event_as_much_is_told_as_of_any_other_that_died() {
    log();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let (fresh, tenant) = (Fresh::new().await, Uuid::new_v4());
    let odd = fresh.sql(&format!(
        "insert into {{outbox}} (topic, payload, headers, tenant_id)
         values ('shop.odd', '1', '[1]', '{tenant}') returning id, sequence"
    ));
    let row = fresh.client.query_one(&odd, &[]).await.unwrap();
    let (id, sequence): (Uuid, i64) = (row.get(0), row.get(1));
    let relay = relay_to(&fresh, Witness::willing()).await;
    until_settled(&fresh.store().await).await;
    relay.stop().await;
    let said = |what: &str| -> Line {
        let lines = LOG.lock().unwrap();
        let mut lines = lines.iter().filter(|line| {
            line.get("id").is_some_and(|it| *it == id.to_string()) && line["message"] == what
        });
        let line = lines
            .next()
            .unwrap_or_else(|| panic!("nobody said {what:?}"));
        assert!(lines.next().is_none(), "it is said once");
        line.clone()
    };
    for what in ["a row is no event", "an event is dead"] {
        let line = said(what);
        let fields =
            ["level", "topic", "tenant", "sequence", "attempts"].map(|field| &*line[field]);
        let (tenant, sequence) = (tenant.to_string(), sequence.to_string());
        assert_eq!(fields, ["ERROR", "shop.odd", &tenant, &sequence, "1"]);
        assert_eq!(line["table"], fresh.table.to_string());
    }
    assert!(said("a row is no event")["error"].contains("headers"));
    assert_eq!(said("an event is dead")["reason"], "malformed");
    let deaths: Vec<(String, DebugValue)> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter(|(key, ..)| key.key().name() == "outbox_dead_total")
        .map(|(key, _, _, value)| {
            let labels = key.key().labels();
            let labels: Vec<String> = labels.map(|label| label.value().to_owned()).collect();
            (labels.join(" "), value)
        })
        .collect();
    let labels = format!("{} shop.odd malformed", fresh.table);
    assert_eq!(deaths, [(labels, DebugValue::Counter(1))]);
}
