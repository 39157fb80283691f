//! The operator's switches: their defaults, their names, and what each of them does.

use std::time::Duration;

use org::{Environment, HRM_OUTBOX, ORG_OUTBOX, parse_duration};
use posthaste::{Status, Table};
use posthaste_relay::{Mode, Retry};

use crate::support::*;

const S: fn(u64) -> Duration = Duration::from_secs;

fn table(name: &str) -> Table {
    Table::parse(name).unwrap()
}

// org-6.2.1, org-6.2.2, org-6.2.3, org-6.2.4, org-6.2.5, org-10.1.1, org-10.1.2, org-10.1.3, org-10.1.4, org-10.1.5,
// org-10.1.6, org-10.1.7, org-10.1.8, org-10.1.9, org-10.1.10, org-10.1.11, org-10.1.12, org-10.1.13, org-10.1.14,
// org-10.2.9, B15
#[test]
fn without_any_variable_the_defaults_are_those_of_the_document() {
    let environment = Environment::read(|_| None).unwrap();
    assert!(environment.relay_enabled && environment.relay_single_active);
    assert!(environment.relay_tables.is_empty() && environment.cleaner_tables.is_empty());
    assert!(environment.cleaner_enabled);
    assert_eq!(environment.metrics_path, None);
    let settings = environment.settings(&table(ORG_OUTBOX));
    assert!(
        !settings.deliver && !settings.cleaning.enabled,
        "it is in no list"
    );
    assert_eq!(settings.mode, Mode::SingleActive);
    assert_eq!((settings.poll_interval, settings.lease), (S(1), S(60)));
    assert_eq!((settings.batch_size, settings.max_attempts), (100, 25));
    assert_eq!(settings.dispatch_timeout, S(30));
    assert_eq!((settings.error_limit, settings.mask_tenant), (2048, false));
    assert_eq!(settings.cleaning.interval, S(60));
    assert_eq!(settings.cleaning.retention, S(7 * 24 * 3600));
    assert_eq!(settings.cleaning.dead_retention, None);
    assert_eq!(settings.problems(), []);
}

// org-6.2.5, org-9.1, B9
#[test]
fn the_backoff_doubles_from_one_second_to_sixty_with_up_to_a_fifth_of_a_second_more() {
    let retry = Environment::read(|_| None).unwrap();
    let retry: Retry = retry.settings(&table(ORG_OUTBOX)).retry;
    let plain: Vec<u64> = (1..=8).map(|n| retry.delay(n, 0.0).as_secs()).collect();
    assert_eq!(plain, [1, 2, 4, 8, 16, 32, 60, 60]);
    for attempts in 1..=25 {
        let most = retry.delay(attempts, 1.0) - retry.delay(attempts, 0.0);
        assert_eq!(most, MS(200), "the jitter is what the random source says");
    }
}

// org-10.1.1, org-10.1.2, org-10.1.3, org-10.1.4, org-10.1.5, org-10.1.6, org-10.1.7, org-10.1.8, org-10.1.9,
// org-11.1, org-10.1.10, org-10.1.11, org-10.1.12, org-10.1.13, org-10.1.14, org-10.2.9, B15
#[test]
fn every_variable_is_heard() {
    let given = environment(&[
        ("OUTBOX_RELAY_ENABLED", "false"),
        ("OUTBOX_RELAY_TABLES", "public.org_outbox, hrm_outbox"),
        ("OUTBOX_RELAY_SINGLE_ACTIVE", "false"),
        ("OUTBOX_RELAY_POLL_INTERVAL", "200ms"),
        ("OUTBOX_RELAY_BATCH_SIZE", "3000"),
        ("OUTBOX_RELAY_LOCK_TTL", "2m"),
        ("OUTBOX_RELAY_MAX_ATTEMPTS", "3"),
        ("OUTBOX_RELAY_DISPATCH_TIMEOUT", "1m10s"),
        ("OUTBOX_LAST_ERROR_MAX_BYTES", "100"),
        ("OUTBOX_LOG_MASK_TENANT", "true"),
        ("OUTBOX_CLEANER_ENABLED", "true"),
        ("OUTBOX_CLEANER_TABLES", "public.hrm_outbox"),
        ("OUTBOX_CLEANER_INTERVAL", "5m"),
        ("OUTBOX_CLEANER_RETENTION", "24h"),
        ("OUTBOX_CLEANER_DEAD_RETENTION", "168h"),
        ("PROMETHEUS_METRICS_ENABLED", "true"),
        ("PROMETHEUS_METRICS_PATH", "/numbers"),
    ]);
    let (org, hrm) = (table(ORG_OUTBOX), table(HRM_OUTBOX));
    assert_eq!(given.relay_tables, [org.clone(), hrm.clone()]);
    assert_eq!(given.metrics_path.as_deref(), Some("/numbers"));
    assert_eq!(
        given.tables(),
        std::slice::from_ref(&hrm),
        "only the cleaner has work"
    );
    let settings = given.settings(&hrm);
    assert!(!settings.deliver && settings.cleaning.enabled);
    assert_eq!(settings.mode, Mode::Parallel);
    assert_eq!((settings.poll_interval, settings.lease), (MS(200), S(120)));
    assert_eq!((settings.batch_size, settings.max_attempts), (3000, 3));
    assert_eq!(
        (settings.dispatch_timeout, settings.error_limit),
        (S(70), 100)
    );
    assert!(settings.mask_tenant);
    assert_eq!(settings.cleaning.interval, S(300));
    assert_eq!(settings.cleaning.retention, S(24 * 3600));
    assert_eq!(settings.cleaning.dead_retention, Some(S(168 * 3600)));
    assert_eq!(settings.problems(), []);
    assert!(!given.settings(&org).cleaning.enabled);
}

// org-10.1.11
#[test]
fn the_cleaner_follows_the_relay_unless_it_has_tables_of_its_own() {
    let both = environment(BRISK);
    assert_eq!(both.cleaner_tables, both.relay_tables);
    for name in [ORG_OUTBOX, HRM_OUTBOX] {
        let settings = both.settings(&table(name));
        assert!(settings.deliver && settings.cleaning.enabled);
    }
    let off = environment(&[BRISK, &[("OUTBOX_CLEANER_ENABLED", "false")]].concat());
    assert!(!off.settings(&table(ORG_OUTBOX)).cleaning.enabled);
}

// B15 B22
#[test]
fn everything_that_is_wrong_is_told_at_once_by_its_name() {
    let wrong = [
        ("OUTBOX_RELAY_ENABLED", "yes"),
        ("OUTBOX_RELAY_TABLES", "public.org_outbox; drop table x"),
        ("OUTBOX_RELAY_POLL_INTERVAL", "soon"),
        ("OUTBOX_RELAY_BATCH_SIZE", "-1"),
        ("OUTBOX_CLEANER_RETENTION", "7d"),
        ("PROMETHEUS_METRICS_PATH", "debug/{x}"),
    ];
    let value = |name: &str| {
        let found = wrong.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let problems = Environment::read(value).unwrap_err().0;
    assert_eq!(problems.len(), wrong.len(), "{problems:?}");
    for (name, value) in wrong {
        let told = problems.iter().any(|problem| problem.starts_with(name));
        assert!(told, "{name}: {problems:?}");
        assert!(
            !problems.concat().contains(value),
            "a value may be a secret"
        );
    }
}

// org-2.5
#[test]
fn the_readme_tells_of_every_variable_and_of_the_configuration_as_it_is() {
    let readme = include_str!("../../README.md");
    assert!(readme.contains(include_str!("../../posthaste.toml")));
    let asked = std::cell::RefCell::new(Vec::new());
    let note = |name: &str| {
        asked.borrow_mut().push(name.to_owned());
        None
    };
    Environment::read(note).unwrap();
    let asked = asked.into_inner();
    assert_eq!(asked.len(), 18);
    for name in asked {
        assert!(readme.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[test]
fn times_are_read_as_go_writes_them() {
    for (text, time) in [
        ("0", Duration::ZERO),
        ("0s", Duration::ZERO),
        ("168h", S(168 * 3600)),
        ("1m30s", S(90)),
        ("250ms", MS(250)),
    ] {
        assert_eq!(parse_duration(text), Some(time), "{text}");
    }
    for text in ["", "5", "s", "1d", "-1s", "1s ", "99999999999999999999h"] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
}

// org-10.1.2, B17
#[tokio::test]
async fn without_tables_no_relay_starts_and_events_wait() {
    let scene = Scene::new().await;
    let event = scene.create("Nuts").await;
    let none = scene
        .relays(&[("OUTBOX_RELAY_TABLES", "")], willing())
        .await;
    assert_eq!(none.relays.count(), 0);
    none.stop().await;
    assert_eq!(scene.event(event).await.status, Status::Pending);
}

// org-10.1.1, org-10.3.1, B17
#[tokio::test]
async fn a_relay_that_is_switched_off_keeps_every_event_for_later() {
    let scene = Scene::new().await;
    let events = scene.create_many(5).await;
    let off = [
        ("OUTBOX_RELAY_ENABLED", "false"),
        ("OUTBOX_CLEANER_RETENTION", "1ms"),
        ("OUTBOX_CLEANER_INTERVAL", "20ms"),
    ];
    let only_cleans = scene.relays(&off, willing()).await;
    assert_eq!(only_cleans.relays.count(), 2);
    tokio::time::sleep(MS(300)).await;
    only_cleans.stop().await;
    for event in &events {
        let event = scene.event(*event).await;
        assert_eq!((event.status, event.attempts), (Status::Pending, 0));
    }
    let on = scene.relays(&[], willing()).await;
    for event in events {
        scene.until(event, Status::Delivered).await;
    }
    on.stop().await;
}
