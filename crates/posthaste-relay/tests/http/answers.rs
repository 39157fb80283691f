//! What an answer makes of an event.

use std::time::{Duration, SystemTime};

use http_body_util::Full;
use hyper::Response;
use posthaste::Message;
use posthaste_relay::sink::{Outcome, Sink};

use crate::endpoint::*;

#[derive(Debug, PartialEq)]
enum Kind {
    Delivered,
    Retry,
    Reject,
}

fn kind(outcome: &Outcome) -> Kind {
    match outcome {
        Outcome::Delivered => Kind::Delivered,
        Outcome::Retry(_) | Outcome::RetryAfter(..) | Outcome::Busy(..) => Kind::Retry,
        Outcome::Reject(_) => Kind::Reject,
        Outcome::Unavailable(why) => panic!("{why}"),
    }
}

// F6
#[tokio::test]
async fn every_status_has_its_outcome() {
    let endpoint =
        Endpoint::answering(|call| status(call.header("x-status").unwrap().parse().unwrap())).await;
    let sink = endpoint.sink();
    for code in 200..600 {
        let expected = match code {
            200..300 => Kind::Delivered,
            408 | 425 | 429 | 500..600 => Kind::Retry,
            _ => Kind::Reject,
        };
        let message = Message::bytes("shop.order.placed.v1", "text/plain", "x");
        let event = event_of(message.header("X-Status", code.to_string())).await;
        let outcome = sink.deliver(event).await;
        assert_eq!(kind(&outcome), expected, "{code}: {outcome:?}");
        if let Some(why) = outcome.why() {
            assert!(why.contains(&code.to_string()), "{why}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_is_left_alone_for_as_long_as_it_wishes() {
    let ahead = date(SystemTime::now() + Duration::from_secs(90));
    let past = date(SystemTime::now() - Duration::from_secs(90));
    // Who says 429 or 503 speaks of the endpoint, anything else of this event.
    for (code, wish, expected, is_busy) in [
        (429, "7".to_owned(), 7, true),
        (503, "120".to_owned(), 120, true),
        (503, ahead, 90, true),
        (503, past, 0, true),
        (500, "0".to_owned(), 0, false),
        (502, "7".to_owned(), 7, false),
        (408, "7".to_owned(), 7, false),
        (425, "7".to_owned(), 7, false),
    ] {
        let header = wish.clone();
        let endpoint = Endpoint::answering(move |_| {
            let answer = Response::builder()
                .status(code)
                .header("Retry-After", &header);
            answer.body(Full::default()).unwrap()
        })
        .await;
        let outcome = outcome(&endpoint.sink()).await;
        let after = match outcome {
            Outcome::Busy(_, after) if is_busy => after,
            Outcome::RetryAfter(_, after) if !is_busy => after,
            _ => panic!("{code}: {outcome:?}"),
        };
        let expected = Duration::from_secs(expected);
        // A date comes nearer meanwhile.
        let slack = Duration::from_secs(if wish.contains(':') { 10 } else { 2 });
        assert!(
            after <= expected + slack && after + slack >= expected,
            "{wish}: {after:?}"
        );
    }
    let endpoint = Endpoint::answering(|_| {
        let answer = Response::builder()
            .status(503)
            .header("Retry-After", "whenever");
        answer.body(Full::default()).unwrap()
    })
    .await;
    assert!(matches!(outcome(&endpoint.sink()).await, Outcome::Retry(_)));
}

/// Written by `date`, not by us.
fn date(time: SystemTime) -> String {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let output = std::process::Command::new("date")
        .env("LC_ALL", "C")
        .args([
            "-u",
            "-d",
            &format!("@{seconds}"),
            "+%a, %d %b %Y %H:%M:%S GMT",
        ])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Endpoint::willing().await;
    let target = other.url("/elsewhere");
    for code in [301, 302, 303, 307, 308] {
        let target = target.clone();
        let endpoint = Endpoint::answering(move |_| {
            let answer = Response::builder().status(code).header("Location", &target);
            answer.body(Full::default()).unwrap()
        })
        .await;
        let outcome = outcome(&endpoint.sink()).await;
        let Outcome::Reject(why) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(why.contains("redirects are not followed"), "{why}");
    }
    assert!(other.calls().is_empty());
}

// B13
#[tokio::test]
async fn an_error_quotes_the_answer_but_neither_payload_nor_secret() {
    const CANARY: &str = "canary-4111-1111-1111";
    let endpoint = Endpoint::answering(|call| {
        // Echoes all that it got.
        let mut echo =
            format!("bad order in {}: ", String::from_utf8_lossy(&call.body)).into_bytes();
        for value in call.headers.values() {
            echo.extend_from_slice(value.as_bytes());
            echo.push(b'\n');
        }
        Response::builder()
            .status(422)
            .body(Full::from(echo))
            .unwrap()
    })
    .await;
    let builders = || endpoint.builder().header("x-key", "canary-header-key");
    for sink in [
        raw(builders().bearer("canary-token-value")),
        builders().basic("u", "canary-password").build().unwrap(),
        builders()
            .envelope(posthaste_relay::Envelope::cloud_events_structured())
            .build()
            .unwrap(),
    ] {
        let payload = format!("{{\"card\": \"{CANARY}\"}}");
        let json = Message::json_text("shop.order.placed.v1", &payload).unwrap();
        let binary = Message::bytes("shop.order.placed.v1", "image/png", payload);
        for message in [json, binary] {
            let outcome = sink.deliver(event_of(message).await).await;
            let Outcome::Reject(why) = outcome else {
                panic!("{outcome:?}");
            };
            assert!(why.contains("422") && why.contains("bad order in"), "{why}");
            assert!(!why.contains("canary") && why.len() < 400, "{why}");
            assert!(!why.contains("Y2FuYXJ5"), "{why}");
        }
    }
}

// B13: what is not JSON travels in base64 there, and an endpoint quotes what it has decoded.
#[tokio::test]
async fn an_error_quotes_no_little_piece_of_a_payload_that_travelled_in_another_form() {
    let endpoint = Endpoint::answering(|_| {
        Response::builder()
            .status(422)
            .body(Full::from("ssn 078-05-1120 is invalid"))
            .unwrap()
    })
    .await;
    let structured = posthaste_relay::Envelope::cloud_events_structured();
    let sink = endpoint.builder().envelope(structured).build().unwrap();
    let text = "name Ada, ssn 078-05-1120";
    let message = Message::bytes("shop.order.placed.v1", "text/plain", text);
    let outcome = sink.deliver(event_of(message).await).await;
    let Outcome::Reject(why) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(why.contains("422") && why.contains("is invalid"), "{why}");
    assert!(!why.contains("078-05"), "{why}");
}
