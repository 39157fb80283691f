//! Spans: from whoever enqueues over the daemon to whoever consumes, as a collector receives them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use posthaste::{Message, Outbox, TopicRule, TraceContext};
use posthaste_testkit::server::{self, OtlpReceiver, Redis};
use serde_json::{Value, json};
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;
use uuid::Uuid;

use crate::place::{Place, SECRET};
use crate::process::Daemon;

/// One post for each span, at once: what a producer's exporter does, without a runtime of its own.
#[derive(Debug)]
struct Post;

#[async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (uri, body) = (request.uri(), request.body());
        let mut stream = TcpStream::connect(uri.authority().unwrap().as_str())?;
        write!(
            stream,
            "POST {} HTTP/1.0\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
            uri.path(),
            body.len()
        )?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        assert!(answer.starts_with(b"HTTP/1.0 200"), "{answer:?}");
        Ok(Response::new(Bytes::new()))
    }
}

/// A service with spans of its own, which enqueues through the library.
fn produce(place: &Place, collector: &str, messages: &[Message]) {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Post)
        .with_endpoint(format!("{collector}/v1/traces"))
        .build()
        .unwrap();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter)
        .with_resource(Resource::builder().with_service_name("shop").build())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    // What the driver says of itself is nobody's business here.
    let ours = tracing_subscriber::filter::filter_fn(|it| {
        it.target().starts_with("posthaste") || it.target().starts_with("daemon")
    });
    let subscriber =
        tracing_subscriber::registry().with(tracing_subscriber::Layer::with_filter(layer, ours));
    let _listening = tracing::subscriber::set_default(subscriber);
    let outbox = Outbox::new(place.table.as_str())
        .unwrap()
        .topics(TopicRule::Relaxed)
        .trace_with(TraceContext::opentelemetry);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let connected = tokio_postgres::connect(&place.url, tokio_postgres::NoTls).await;
        let (mut client, connection) = connected.unwrap();
        tokio::spawn(connection);
        let place_order = async {
            let transaction = client.transaction().await.unwrap();
            for message in messages {
                outbox.enqueue(&transaction, message).await.unwrap();
            }
            transaction.commit().await.unwrap();
        };
        place_order
            .instrument(tracing::info_span!("place order"))
            .await;
    });
    provider.shutdown().unwrap();
}

/// A place whose outbox goes to a stream, and the key of that stream.
fn to_redis(tracing: &str) -> (Place, String) {
    let place = Place::postgres();
    let key = format!("t:{}", Uuid::new_v4().simple());
    let (url, table, redis) = (&place.url, &place.table, Redis::shared());
    place.write(&format!(
        "[tracing]\n{tracing}\n[database]\nurl = \"{url}\"\n[[outbox]]\ntable = \"{table}\"\n\
         [sink.streams]\ntype = \"redis\"\nurl = \"{redis}\"\nkey = \"{key}\"\n"
    ));
    place.migrated();
    (place, key)
}

/// The daemon, which sends its spans as soon as it has some.
fn run(place: &Place, variables: &[(&str, &str)]) -> Daemon {
    let mut command = place.posthaste(&["run"]);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
    command.envs(variables.iter().copied());
    Daemon::start(command)
}

fn consume(key: &str, collector: &str) {
    let script = include_str!("../../../posthaste-testkit/python/otlp_consumer.py");
    let collector = format!("{collector}/v1/traces");
    server::python(script, &[&Redis::shared(), key, &collector]).unwrap();
}

/// The headers of what is in a stream, as another client reads it.
fn arrived(key: &str) -> Vec<BTreeMap<String, String>> {
    let script = include_str!("../../../posthaste-testkit/python/redis.py");
    let printed = server::python(script, &[&Redis::shared(), key]).unwrap();
    let lines = String::from_utf8(printed).unwrap();
    let headers = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        serde_json::from_value(entry["headers"].clone()).unwrap()
    };
    lines.lines().map(headers).collect()
}

fn received(collector: &OtlpReceiver) -> Vec<Value> {
    serde_json::from_str(&collector.spans().unwrap()).unwrap()
}

fn named<'s>(spans: &'s [Value], name: &str) -> &'s Value {
    let found: Vec<&Value> = spans.iter().filter(|span| span["name"] == name).collect();
    match found[..] {
        [only] => only,
        _ => panic!("{} spans are named {name:?}: {spans:#?}", found.len()),
    }
}

const TOPIC: &str = "shop.order.placed.v1";

fn order() -> Message {
    Message::json(TOPIC, &42).unwrap()
}

// B12
#[test]
fn one_trace_leads_from_the_producer_over_the_relay_to_the_consumer() {
    let collector = OtlpReceiver::start().unwrap();
    let url = collector.url();
    let (place, key) = to_redis(&format!("otlp_endpoint = \"{url}\""));
    produce(&place, &url, &[order()]);
    let daemon = run(&place, &[]);
    daemon.until("it is delivered", || place.count("delivered") == 1);
    let answer = daemon.stop();
    assert_eq!(answer.code, 0, "{answer:?}");
    consume(&key, &url);

    let spans = received(&collector);
    let (root, enqueue) = (
        named(&spans, "place order"),
        named(&spans, &format!("enqueue {TOPIC}")),
    );
    let dispatch = named(&spans, &format!("dispatch {TOPIC}"));
    let process = named(&spans, &format!("process {key}"));
    assert_eq!(root["parent"], "");
    for (parent, child) in [(root, enqueue), (enqueue, dispatch), (dispatch, process)] {
        assert_eq!(child["trace"], parent["trace"], "{spans:#?}");
        assert_eq!(child["parent"], parent["span"], "{spans:#?}");
    }
    for (span, service, kind) in [
        (enqueue, "shop", "producer"),
        (dispatch, "posthaste", "producer"),
        (process, "warehouse", "consumer"),
    ] {
        assert_eq!(span["resource"]["service.name"], service);
        assert_eq!(span["kind"], kind);
        let id = &span["attributes"]["messaging.message.id"];
        assert_eq!(id, &process["attributes"]["messaging.message.id"]);
    }
    for (key, value) in [
        ("messaging.system", Value::from("redis")),
        ("messaging.operation.name", "dispatch".into()),
        ("messaging.operation.type", "send".into()),
        ("messaging.destination.name", TOPIC.into()),
        ("messaging.message.body.size", 2.into()),
        ("posthaste.table", place.table.clone().into()),
        ("posthaste.destination", "streams".into()),
        ("posthaste.attempts", 1.into()),
    ] {
        assert_eq!(dispatch["attributes"][key], value, "{key}: {dispatch:#}");
    }
    let travelled = &arrived(&key)[0]["traceparent"];
    let (trace, span) = (dispatch["trace"].as_str(), dispatch["span"].as_str());
    let context = format!("00-{}-{}-01", trace.unwrap(), span.unwrap());
    assert_eq!(travelled, &context);

    // What the relay does for many at once is told of, and looks that found nothing are not.
    for (name, kind) in [("claim", "receive"), ("settle", "settle")] {
        let span = named(&spans, &format!("{name} {}", place.table));
        assert_eq!(span["attributes"]["messaging.operation.type"], kind);
        assert_eq!(span["attributes"]["messaging.batch.message_count"], 1);
        assert_eq!(span["links"], json!([enqueue["span"]]), "{span:#}");
    }
}

// B12
#[test]
fn what_a_producer_does_not_sample_travels_untouched_and_is_not_exported() {
    let collector = OtlpReceiver::start().unwrap();
    let url = collector.url();
    let (place, key) = to_redis(&format!("otlp_endpoint = \"{url}\""));
    let trace = TraceContext {
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00".to_owned(),
        tracestate: Some("vendor=a".to_owned()),
    };
    produce(&place, &url, &[order().trace(trace.clone())]);
    let daemon = run(&place, &[]);
    daemon.until("it is delivered", || place.count("delivered") == 1);
    daemon.stop();
    let headers = &arrived(&key)[0];
    assert_eq!(headers["traceparent"], trace.traceparent);
    assert_eq!(headers["tracestate"], "vendor=a");
    let spans = received(&collector);
    let dispatch = format!("dispatch {TOPIC}");
    assert!(
        spans.iter().all(|span| span["name"] != *dispatch),
        "{spans:#?}"
    );
    assert!(!spans.is_empty());
}

#[test]
fn a_delivery_that_fails_is_a_span_that_failed() {
    let collector = OtlpReceiver::start().unwrap();
    let (url, place) = (collector.url(), Place::sqlite());
    // Nobody listens there.
    let more = "[outbox.relay]\nbatch_size = 1\n[sink.down]\ntype = \"redis\"\nurl = \"redis://127.0.0.1:9\"\n\
                [[outbox.route]]\nsink = \"down\"\n";
    let (database, table) = (&place.url, &place.table);
    place.write(&format!(
        "[tracing]\notlp_endpoint = \"{url}\"\nservice_name = \"mail\"\n[database]\nurl = \"{database}\"\n\
         [[outbox]]\ntable = \"{table}\"\n{more}"
    ));
    place.migrated().enqueue(1);
    let daemon = run(&place, &[]);
    let name = format!("dispatch {TOPIC}");
    let failed = || {
        received(&collector)
            .into_iter()
            .find(|span| span["name"] == *name)
    };
    daemon.until("a span has come", || failed().is_some());
    let span = failed().unwrap();
    assert_eq!(span["status"], "error", "{span:#}");
    assert_eq!(span["attributes"]["error.type"], "unavailable");
    assert_eq!(span["resource"]["service.name"], "mail");
    assert_eq!(span["parent"], "", "what brought no trace begins one");
    daemon.stop();
}

// F9, of the collector.
#[test]
fn a_collector_that_is_away_holds_up_nothing_and_is_told_of_once() {
    let port = server::free_port().unwrap();
    let place = Place::sqlite();
    let tracing =
        format!("[tracing]\notlp_endpoint = \"http://127.0.0.1:{port}\"\ntimeout = \"1s\"\n");
    place.configure("", &tracing);
    place.migrated();
    let daemon = run(&place, &[]);
    let away = "the collector does not take spans";
    for batch in 1..=5 {
        place.enqueue(200);
        daemon.delivers(batch * 200);
    }
    daemon.says(away);
    assert_eq!(daemon.log().matches(away).count(), 1, "{}", daemon.log());
    let collector = OtlpReceiver::start_on(port).unwrap();
    // It tells of its own, whatever else goes on.
    daemon.until("it is back", || {
        place.enqueue(1);
        daemon.log().contains("the collector takes spans again")
    });
    assert!(!received(&collector).is_empty());
    drop(collector);
    place.enqueue(1);
    let answer = daemon.stop();
    assert_eq!(answer.code, 0, "{answer:?}");
}

#[test]
fn headers_for_the_collector_come_from_a_file_and_stay_there() {
    let collector = OtlpReceiver::start().unwrap();
    let place = Place::sqlite();
    // The environment names the collector, as it may for many programs.
    place.configure("", "[tracing]\nheaders_file = \"headers\"\n");
    std::fs::write(
        place.file("headers"),
        format!("api-key={SECRET}\nx-team=mail\n"),
    )
    .unwrap();
    place.migrated().enqueue(1);
    let url = collector.url();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=others,x-more=1"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_SERVICE_NAME", "orders"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        ),
    ];
    let daemon = run(&place, &variables);
    daemon.until("spans have come", || !received(&collector).is_empty());
    // Every answer is searched for the secret.
    daemon.stop();
    let headers: Value = serde_json::from_str(&collector.headers().unwrap()).unwrap();
    assert_eq!(headers["api-key"], SECRET, "{headers}");
    assert_eq!(
        headers["x-team"], "mail",
        "ours stand above the environment's"
    );
    assert_eq!(headers["x-more"], "1");
    assert_eq!(headers["content-encoding"], "gzip");
    let spans = received(&collector);
    let resource = &spans[0]["resource"];
    assert_eq!(resource["service.name"], "orders");
    assert_eq!(resource["deployment.environment.name"], "test");
}

#[test]
fn without_tracing_nobody_is_called_and_what_is_stored_travels() {
    let (place, key) = to_redis("");
    let collector = OtlpReceiver::start().unwrap();
    produce(&place, &collector.url(), &[order()]);
    let before = received(&collector);
    let enqueue = named(&before, &format!("enqueue {TOPIC}"));
    let mut command: Command = place.posthaste(&["run"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    command.env("OTEL_SDK_DISABLED", "true");
    let daemon = Daemon::start(command);
    daemon.until("it is delivered", || place.count("delivered") == 1);
    daemon.stop();
    assert_eq!(received(&collector).len(), before.len());
    let (trace, span) = (enqueue["trace"].as_str(), enqueue["span"].as_str());
    let stored = format!("00-{}-{}-01", trace.unwrap(), span.unwrap());
    assert_eq!(arrived(&key)[0]["traceparent"], stored);
}
