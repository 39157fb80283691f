//! Settings that cannot work are refused, each with its reason, all at once.

use std::time::Duration;

use posthaste_relay::sink::http::HttpBuilder;
use posthaste_relay::sink::{Http, SinkError};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn refused(builder: HttpBuilder) -> Vec<String> {
    let error = builder.build().unwrap_err();
    assert_eq!(error.code(), "sink.settings");
    match error {
        SinkError::Settings { problems, .. } => problems,
        other => panic!("{other}"),
    }
}

#[test]
fn each_setting_that_cannot_work_is_refused_with_its_reason() {
    let good = || Http::builder("https://hooks.example/in");
    assert!(good().secret(SECRET).build().is_ok());
    assert!(Http::builder("https://hooks.example").build().is_ok());
    assert!(
        Http::builder("https://hooks.example?topic={topic}")
            .build()
            .is_ok()
    );
    for (builder, reason) in [
        (
            Http::builder("hooks.example"),
            "write it as https://host/path",
        ),
        (Http::builder("ftp://hooks.example"), "only http and https"),
        (Http::builder("https:///path"), "URL"),
        (
            Http::builder("https://{tenant}.example/"),
            "only path and query",
        ),
        (Http::builder("https://u:p@hooks.example/"), "use `basic`"),
        (Http::builder("https://hooks.example\\a/"), "\\"),
        (Http::builder("https://hooks.example/#top"), "fragment"),
        (Http::builder("https://hooks.example/{tpoic}"), "\"tpoic\""),
        (Http::builder("https://hooks.example/a/../{topic}"), "path"),
        (Http::builder("https://hooks.example/a b"), "' '"),
        (good().secret("hunter2"), "whsec_"),
        (good().secret("whsec_c2hvcnQ="), "24 to 64 bytes"),
        (good().header("ce-id", "x"), "\"ce-id\" is reserved"),
        (
            good().header("Authorization", "x"),
            "\"Authorization\" is reserved",
        ),
        (good().header("a b", "x"), "\"a b\""),
        (good().header("a", "x\r\ny"), "\"a\""),
        (good().header("a", "x").header("A", "y"), "twice"),
        (good().bearer("x\ny"), "token"),
        (good().allow("10.0.0.0/40"), "\"10.0.0.0/40\""),
        (good().timeout(Duration::ZERO), "timeouts"),
        (good().trust("no pem"), "certificate authority"),
        (good().client_certificate("no", "pem"), "certificate"),
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
    let builder = Http::builder("ftp://hooks.example")
        .secret("canary-secret")
        .bearer("canary\n")
        .header("x-key\n", "canary-value")
        .allow("?");
    let reasons = refused(builder);
    assert_eq!(reasons.len(), 5, "{reasons:?}");
    assert!(!reasons.join(" ").contains("canary"), "{reasons:?}");
    let sink = Http::builder("https://hooks.example/in")
        .secret(SECRET)
        .bearer("canary");
    let shown = format!("{:?}", sink.build().unwrap());
    assert_eq!(shown, "Http(https://hooks.example/in)");
}
