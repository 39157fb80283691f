//! What a call looks like, as other people's libraries see it.

use cloudevents::AttributesReader;
use posthaste::Message;
use posthaste_relay::Envelope;
use posthaste_relay::sink::{Outcome, Sink};
use standardwebhooks::Webhook;

use crate::endpoint::*;

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

// B21 K8 B12
#[tokio::test]
async fn a_cloud_event_is_understood_by_another_library() {
    for envelope in [
        Envelope::cloud_events(),
        Envelope::cloud_events_structured(),
    ] {
        let endpoint = Endpoint::willing().await;
        let sink = endpoint
            .builder()
            .envelope(envelope.clone())
            .build()
            .unwrap();
        let event = event().await;
        assert_eq!(sink.deliver(event.clone()).await, Outcome::Delivered);
        let call = endpoint.calls().remove(0);
        let read = cloudevents::binding::http::to_event(&call.headers, call.body).unwrap();
        assert_eq!(read.id(), event.id.to_string(), "{envelope}");
        assert_eq!(read.ty(), "OrderPlaced");
        assert_eq!(read.source(), "/shop/orders");
        assert_eq!(read.subject(), Some("Order/42"));
        assert_eq!(read.datacontenttype(), Some("application/json"));
        let time = std::time::SystemTime::from(*read.time().unwrap());
        let apart = time
            .duration_since(event.created_at)
            .unwrap_or_else(|error| error.duration());
        assert!(apart < std::time::Duration::from_millis(1));
        let trace = event.trace.as_ref().unwrap();
        for (name, value) in [
            ("partitionkey", "order-42"),
            ("topic", "shop.order.placed.v1"),
            ("tenantid", &*event.tenant_id.unwrap().to_string()),
            ("sequence", "0000000000000000001"),
            ("traceparent", &*trace.traceparent),
        ] {
            assert_eq!(read.extension(name).unwrap().to_string(), value, "{name}");
        }
        let data = match read.data().unwrap() {
            cloudevents::Data::Json(json) => json.to_string().into_bytes(),
            cloudevents::Data::Binary(bytes) => bytes.clone(),
            cloudevents::Data::String(text) => text.clone().into_bytes(),
        };
        assert_eq!(data, event.payload, "{envelope}");
    }
}

#[tokio::test]
async fn a_call_is_one_post_with_all_that_belongs_to_it() {
    let endpoint = Endpoint::willing().await;
    let sink = raw(endpoint
        .builder()
        .header("X-Team", "orders")
        .bearer("t0ken"));
    let event = event().await;
    assert_eq!(sink.deliver(event.clone()).await, Outcome::Delivered);
    let [call] = &endpoint.calls()[..] else {
        panic!("one call");
    };
    assert_eq!((&*call.method, &*call.path), ("POST", "/hook"));
    let (length, host) = (
        event.payload.len().to_string(),
        endpoint.address.to_string(),
    );
    for (name, value) in [
        ("x-team", "orders"),
        ("authorization", "Bearer t0ken"),
        ("content-length", &*length),
        ("host", &*host),
        ("content-type", "application/json"),
        (
            "user-agent",
            concat!("posthaste/", env!("CARGO_PKG_VERSION")),
        ),
    ] {
        assert_eq!(call.header(name), Some(value), "{name}");
    }
    for name in [
        "webhook-id",
        "webhook-signature",
        "accept-encoding",
        "referer",
    ] {
        assert_eq!(call.header(name), None, "{name}");
    }
    assert_eq!(call.headers.get_all("content-type").iter().count(), 1);
}

#[tokio::test]
async fn a_signature_is_accepted_by_another_library() {
    for envelope in [
        Envelope::raw(),
        Envelope::cloud_events(),
        Envelope::cloud_events_structured(),
    ] {
        let endpoint = Endpoint::willing().await;
        let builder = endpoint
            .builder()
            .envelope(envelope)
            .secret(NEW)
            .secret(OLD);
        let sink = builder.build().unwrap();
        let event = event().await;
        for _ in 0..2 {
            assert_eq!(sink.deliver(event.clone()).await, Outcome::Delivered);
        }
        for call in endpoint.calls() {
            assert_eq!(call.header("webhook-id"), Some(&*event.id.to_string()));
            assert_eq!(
                call.header("webhook-signature").unwrap().split(' ').count(),
                2
            );
            let verify = |secret: &str, body: &[u8]| {
                Webhook::new(secret).unwrap().verify(body, &call.headers)
            };
            // While a secret is replaced, receivers with either one take the call.
            assert!(verify(NEW, &call.body).is_ok() && verify(OLD, &call.body).is_ok());
            assert!(verify(OTHER, &call.body).is_err());
            let mut changed = call.body.clone();
            changed[0] ^= 1;
            assert!(verify(NEW, &changed).is_err());
        }
    }
}

#[tokio::test]
async fn a_path_is_made_of_the_event_and_its_fields_stay_in_their_place() {
    let endpoint = Endpoint::willing().await;
    let url = endpoint.url("/in/{topic}/{aggregate_id|none}?key={key}&fixed=a%20b");
    let builder = posthaste_relay::sink::Http::builder(url).allow("127.0.0.0/8");
    let sink = raw(builder);
    let message = || Message::bytes("shop.order.placed.v1", "text/plain", "x");
    for (message, path) in [
        (
            message().aggregate("Order", "42").ordering_key("k"),
            "/in/shop.order.placed.v1/42?key=k&fixed=a%20b",
        ),
        (
            message()
                .aggregate("O", "../../admin?x=1#y")
                .ordering_key("a&b=c/d%2e"),
            "/in/shop.order.placed.v1/..%2F..%2Fadmin%3Fx%3D1%23y?key=a%26b%3Dc%2Fd%252e&fixed=a%20b",
        ),
        (
            message().aggregate("O", "@evil.example:80\\ü"),
            "/in/shop.order.placed.v1/%40evil.example%3A80%5C%C3%BC?key=%40evil.example%3A80%5C%C3%BC&fixed=a%20b",
        ),
    ] {
        assert_eq!(
            sink.deliver(event_of(message).await).await,
            Outcome::Delivered
        );
        assert_eq!(endpoint.calls().last().unwrap().path, path);
    }
    for odd in ["..", "."] {
        let outcome = sink
            .deliver(event_of(message().aggregate("O", odd)).await)
            .await;
        assert!(matches!(outcome, Outcome::Reject(_)), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_header_that_the_endpoint_was_given_is_not_overwritten_by_an_event() {
    let endpoint = Endpoint::willing().await;
    let sink = raw(endpoint.builder().header("X-Team", "orders"));
    let message = Message::bytes("shop.order.placed.v1", "text/plain", "x");
    let outcome = sink
        .deliver(event_of(message.header("x-team", "mine")).await)
        .await;
    assert!(
        matches!(&outcome, Outcome::Reject(why) if why.contains("x-team")),
        "{outcome:?}"
    );
    assert!(endpoint.calls().is_empty());
}
