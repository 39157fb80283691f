//! Settings that cannot work are refused, each with its reason, all at once.

use std::time::Duration;

use posthaste_relay::sink::kafka::{KafkaBuilder, Mechanism};
use posthaste_relay::sink::{Kafka, SinkError};

fn refused(builder: KafkaBuilder) -> Vec<String> {
    let error = builder.build().unwrap_err();
    assert_eq!(error.code(), "sink.settings");
    match error {
        SinkError::Settings { problems, .. } => problems,
        other => panic!("{other}"),
    }
}

fn good() -> KafkaBuilder {
    Kafka::builder(["kafka.example:9092"])
}

#[test]
fn each_setting_that_cannot_work_is_refused_with_its_reason() {
    assert!(good().build().is_ok());
    assert!(good().tls().topic("orders").build().is_ok());
    for (builder, reason) in [
        (Kafka::builder::<String>([]), "at least one broker"),
        (Kafka::builder([""]), "no broker"),
        (Kafka::builder(["kafka://a:9092"]), "write it as host:port"),
        (Kafka::builder(["a:9092,b:9092"]), "write it as host:port"),
        (Kafka::builder(["u:p@a:9092"]), "use `sasl`"),
        (good().topic(""), "empty"),
        (good().topic("{tpoic}"), "\"tpoic\""),
        (good().topic("a b"), "' '"),
        (good().topic(".."), "it is . or .."),
        (good().topic("x".repeat(250)), "too long"),
        (good().timeout(Duration::from_millis(999)), "from 1 s"),
        (good().timeout(Duration::from_secs(301)), "from 1 s"),
        (good().linger(Duration::from_secs(15)), "`linger`"),
        (good().max_message_size(10), "`max_message_size`"),
        (
            good().sasl(Mechanism::Plain, "", "x"),
            "user and a password",
        ),
        (good().trust("x"), "the certificate authority is no PEM"),
        (
            good().trust("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"),
            "ssl.ca.pem",
        ),
        (
            good().client_certificate("x", "-----BEGIN"),
            "the certificate is no PEM",
        ),
        (
            good().property("acks", "1"),
            "\"acks\" is one that this sink sets",
        ),
        (good().property("nonsense", "1"), "\"nonsense\""),
        (
            good().property("socket.timeout.ms", "soon"),
            "\"socket.timeout.ms\"",
        ),
        (good().property("max.in.flight", "50"), "max.in.flight"),
    ] {
        let reasons = refused(builder);
        assert!(
            reasons.len() == 1 && reasons[0].contains(reason),
            "{reason:?} is not {reasons:?}"
        );
    }
}

// B13
#[test]
fn what_is_wrong_is_told_at_once_and_no_secret_is_in_it() {
    let builder = Kafka::builder(["u:canary@a:9092", "a b"])
        .topic("{tpoic}")
        .timeout(Duration::ZERO)
        .linger(Duration::ZERO)
        .sasl(Mechanism::ScramSha512, "", "canary")
        .property("ssl.engine.id\0", "canary")
        .property("sasl.oauthbearer.method", "canary")
        .client_certificate("canary", "canary");
    let reasons = refused(builder);
    assert_eq!(reasons.len(), 10, "{reasons:#?}");
    assert!(!reasons.join(" ").contains("canary"), "{reasons:#?}");
    let sink = good()
        .sasl(Mechanism::Plain, "u", "canary")
        .build()
        .unwrap();
    assert_eq!(format!("{sink:?}"), "Kafka(kafka.example:9092 {topic})");
}
