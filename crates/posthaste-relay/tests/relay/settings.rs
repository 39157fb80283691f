//! Settings that cannot work are refused, each with its reason, all at once.

use std::time::Duration;

use posthaste_relay::{Builder, Cleaning, Relay, Retry, SettingsError, sink};
use posthaste_testkit::outbox::Fresh;

use crate::support::*;

fn refused(builder: Builder) -> Vec<String> {
    let Err(error) = builder.build() else {
        panic!("it was built");
    };
    assert_eq!(error.code(), "relay.settings");
    match error {
        SettingsError::Refused(problems) => problems.into_iter().map(|p| p.why).collect(),
        other => panic!("{other}"),
    }
}

// M11
#[tokio::test]
async fn each_setting_that_cannot_work_is_refused_with_its_reason() {
    let fresh = Fresh::new().await;
    let store: std::sync::Arc<dyn posthaste::Store> = std::sync::Arc::new(fresh.store().await);
    let good = || Relay::builder_on(store.clone()).destination("d", sink::stdout());
    assert!(good().build().is_ok());
    let cleaning = |change: fn(&mut Cleaning)| {
        let mut cleaning = Cleaning::default();
        change(&mut cleaning);
        good().cleaning(cleaning)
    };
    let ladder = |base, max| good().retry(Retry::Exponential { base, max });
    for (builder, reason) in [
        (
            good().destination("", sink::stdout()).route("*", "d"),
            "a destination needs a name",
        ),
        (
            good().poll_interval(MS(20_001)),
            "poll_interval must be at most a third of lease",
        ),
        (
            good().dispatch_timeout(MS(40_001)),
            "dispatch_timeout must be at most two thirds of lease",
        ),
        (
            good().poll_interval(Duration::ZERO),
            "poll_interval must be longer than zero",
        ),
        (
            good().dispatch_timeout(Duration::ZERO),
            "dispatch_timeout must be longer than zero",
        ),
        (
            good()
                .lease(MS(99))
                .poll_interval(MS(1))
                .dispatch_timeout(MS(1)),
            "lease must be at least 100 ms",
        ),
        (
            good().lease(Duration::MAX),
            "lease must be at most a hundred years",
        ),
        (
            good().retry(Retry::Fixed {
                delay: Duration::MAX,
            }),
            "the longest retry delay must be at most a hundred years",
        ),
        (
            ladder(MS(1), Duration::MAX),
            "the longest retry delay must be at most a hundred years",
        ),
        (
            cleaning(|cleaning| cleaning.retention = Duration::MAX),
            "retention must be at most a hundred years",
        ),
        (good().batch_size(0), "batch_size must be at least 1"),
        (
            good().in_flight(499),
            "in_flight must be at least batch_size",
        ),
        (
            good().in_flight_bytes(0),
            "in_flight_bytes must be at least 1",
        ),
        (good().max_attempts(0), "max_attempts must be at least 1"),
        (good().error_limit(0), "error_limit must be at least 1 byte"),
        (
            good().error_limit(65_537),
            "error_limit must be at least 1 byte and at most 64 KiB",
        ),
        (good().dead_letters(""), "the topic for dead letters"),
        (good().dead_letters("a\0b"), "the topic for dead letters"),
        (
            good().dead_letters("x".repeat(256)),
            "the topic for dead letters",
        ),
        (
            good().stats_interval(Duration::ZERO),
            "stats_interval must be longer than zero",
        ),
        (
            cleaning(|c| c.interval = Duration::ZERO),
            "the cleaner's interval",
        ),
        (cleaning(|c| c.batch_size = 0), "the cleaner's batch_size"),
        (
            cleaning(|c| (c.archive, c.retention) = (true, Duration::ZERO)),
            "nothing left to archive",
        ),
        (
            ladder(Duration::ZERO, MS(1)),
            "retry base must be longer than zero",
        ),
        (ladder(MS(2), MS(1)), "retry max must not be shorter"),
        (Relay::builder_on(store.clone()), "there is no destination"),
        (
            good().destination("e", sink::stdout()),
            "there are several destinations",
        ),
        (
            good().destination("d", sink::stdout()).route("*", "d"),
            "two destinations named \"d\"",
        ),
        (
            good().route("*", "nowhere"),
            "names the destination \"nowhere\"",
        ),
    ] {
        let reasons = refused(builder);
        assert!(
            reasons.len() == 1 && reasons[0].contains(reason),
            "{reason:?} is not {reasons:?}"
        );
    }
}

// M11
#[tokio::test]
async fn everything_that_is_wrong_is_told_at_once() {
    let fresh = Fresh::new().await;
    let builder = Relay::builder(fresh.store().await)
        .lease(MS(3000))
        .poll_interval(MS(2000))
        .max_attempts(0);
    let reasons = refused(builder);
    let text = reasons.join("\n");
    assert_eq!(reasons.len(), 4, "{text}");
    for word in [
        "poll_interval",
        "dispatch_timeout",
        "max_attempts",
        "destination",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}
