//! What is refused when a sink is made, all at once.

use std::time::Duration;

use posthaste_relay::sink::Redis;

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let error = Redis::builder("http://localhost")
        .key("{colour}")
        .timeout(Duration::ZERO)
        .max_length(0)
        .connections(0)
        .user("relay")
        .trust("nonsense")
        .build()
        .unwrap_err();
    assert_eq!(error.code(), "sink.settings");
    let text = error.to_string();
    for part in [
        "the URL cannot be used",
        "colour",
        "timeouts must be longer than zero",
        "length zero",
        "without a connection",
        "a user needs a password",
        "the certificate authority has no certificate in it",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn certificates_without_tls_are_refused() {
    let error = Redis::builder("redis://localhost")
        .trust("-----BEGIN CERTIFICATE-----")
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("rediss://"), "{error}");
}

// B13
#[test]
fn neither_errors_nor_debug_tell_a_password() {
    let error = Redis::builder("redis://relay:canary@localhost")
        .build()
        .unwrap_err();
    let sink = Redis::builder("redis://localhost")
        .user("relay")
        .password("canary");
    let texts = [
        error.to_string(),
        format!("{error:?}"),
        format!("{:?}", sink.build().unwrap()),
    ];
    assert!(
        texts.iter().all(|text| !text.contains("canary")),
        "{texts:?}"
    );
}
