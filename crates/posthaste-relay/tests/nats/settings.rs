//! What is refused when a sink is made, all at once.

use std::time::Duration;

use posthaste_relay::sink::Nats;

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let error = Nats::builder("http://localhost")
        .server("nats://a:b@localhost")
        .subject("{colour}")
        .timeout(Duration::ZERO)
        .token("canary")
        .user("relay", "canary")
        .trust("nonsense")
        .build()
        .unwrap_err();
    assert_eq!(error.code(), "sink.settings");
    let text = error.to_string();
    for part in [
        "it begins with nats://",
        "use `user`, `token`",
        "colour",
        "timeouts must be longer than zero",
        "log in with one of",
        "the certificate authority has no certificate in it",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn subjects_that_no_server_takes_are_refused() {
    for subject in [
        "orders.*",
        "orders.>",
        "or ders.{topic}",
        "orders..placed",
        "a.{key|x y}",
    ] {
        assert!(
            Nats::builder("nats://localhost")
                .subject(subject)
                .build()
                .is_err(),
            "{subject}"
        );
    }
}

// B13
#[test]
fn neither_errors_nor_debug_tell_a_secret() {
    let builder = || Nats::builder("nats://localhost");
    let texts = [
        format!("{:?}", builder().user("relay", "canary").build().unwrap()),
        format!("{:?}", builder().token("canary").build().unwrap()),
        format!("{:?}", builder().nkey("canary").build().unwrap_err()),
        format!("{:?}", builder().credentials("canary").build().unwrap_err()),
    ];
    assert!(
        texts.iter().all(|text| !text.contains("canary")),
        "{texts:?}"
    );
}
