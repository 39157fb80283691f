//! What the configuration as a whole promises.

use std::time::Duration;

use posthaste_relay::{Mode, Retry};

use super::*;
use profile::{PROFILES, presets};

const S: fn(u64) -> Duration = Duration::from_secs;
const MS: fn(u64) -> Duration = Duration::from_millis;
const DAY: u64 = 86_400;

fn load(variables: &[(&str, &str)]) -> Config {
    let base = [
        ("POSTHASTE_DATABASE__URL", "postgres://localhost/shop"),
        ("POSTHASTE_OUTBOX__0__TABLE", "public.orders_outbox"),
        ("POSTHASTE_SINK__LOG__TYPE", "stdout"),
    ];
    let all = base.iter().chain(variables);
    let all = all.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Config::load(None, all).unwrap()
}

fn profile(name: &str) -> Outbox {
    load(&[("POSTHASTE_OUTBOX__0__PROFILE", name)])
        .outboxes
        .remove(0)
}

fn good(name: &str) -> Config {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/good");
    Config::load(Some(&folder.join(name)), std::iter::empty()).unwrap()
}

#[test]
fn every_value_of_the_issue_is_the_default() {
    let issue = good("issue.toml");
    let minimal = load(&[]);
    assert_eq!(
        format!("{:?}", issue.outboxes),
        format!("{:?}", minimal.outboxes)
    );
    assert_eq!(issue.sinks.keys().collect::<Vec<_>>(), ["log"]);
    assert_eq!(issue.log, minimal.log);
    assert_eq!(issue.warnings.iter().count(), 0);
}

#[test]
fn the_defaults_are_those_of_the_library() {
    let configured = load(&[]).outboxes.remove(0);
    let library = Settings::default();
    assert_eq!(format!("{:?}", configured.settings), format!("{library:?}"));
    let database = Database::at("postgres://localhost/shop").unwrap();
    let table = Table::parse("orders_outbox").unwrap();
    let plain = Outbox {
        routes: configured.routes.clone(),
        ..Outbox::new(table, database)
    };
    assert_eq!(format!("{plain:?}"), format!("{configured:?}"));
}

#[test]
fn what_is_configured_reaches_the_relay() {
    let config = good("many_outboxes_on_both_databases.toml");
    let [orders, invoices, old, till] = &config.outboxes[..] else {
        panic!("{config:?}");
    };
    assert_eq!(
        orders.database.url,
        "postgres://app:hunter2@db.internal/shop"
    );
    assert_eq!(orders.database.max_connections, 9);
    assert_eq!(
        orders.settings.ordering,
        posthaste::store::Ordering::Key(posthaste::store::OnFailure::Park)
    );
    // Given here; the batch is the profile's.
    assert_eq!(
        (orders.settings.max_attempts, orders.settings.batch_size),
        (7, 10)
    );
    assert_eq!(orders.routes[0].sink, "orders");
    assert_eq!(orders.routes[1].topic, "*");
    let scope = &invoices.settings.scope;
    assert_eq!(scope.namespace.as_deref(), Some("billing"));
    assert_eq!(scope.topics, ["billing.invoice.sent.v1"]);
    assert!(scope.tenant_id.is_some());
    assert_eq!(invoices.settings.mode, Mode::SingleActive);
    assert!(!old.settings.deliver && old.settings.cleaning.enabled);
    assert_eq!(till.database.url, "sqlite:till.db");
    assert_eq!(till.settings.in_flight_bytes, 1 << 20);
    let cleaning = &till.settings.cleaning;
    assert_eq!(
        (cleaning.archive, cleaning.retention, cleaning.batch_size),
        (true, S(30 * DAY), 100)
    );
    let (base, max) = (S(1), S(300));
    assert_eq!(
        till.settings.retry,
        Retry::AdditiveJitter {
            base,
            max,
            jitter: S(1)
        }
    );
    assert_eq!(config.sinks["orders"].concurrency, Some(64));
    assert!(config.log.json && config.log.level == "debug");
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_profile_sets_keys_that_there_are() {
    for profile in PROFILES {
        assert!(!presets(profile).is_empty(), "{profile}");
        for (key, value, _) in presets(profile) {
            let (_, key) = keys::find(&format!("outbox.{key}")).unwrap();
            key.kind.parse(value).unwrap();
        }
    }
}

// M10
#[test]
fn mini_chat_is_as_its_document_says() {
    let outbox = profile("mini-chat");
    let (base, max) = (S(1), S(300));
    assert_eq!(outbox.settings.retry, Retry::EqualJitter { base, max });
    // The document leaves these to the deploying module.
    let plain = load(&[]).outboxes.remove(0).settings;
    let (lease, batch_size) = (outbox.settings.lease, outbox.settings.batch_size);
    assert_eq!((lease, batch_size), (plain.lease, plain.batch_size));
    assert_eq!(outbox.settings.max_attempts, 25);
}

// B9 B15 B17
#[test]
fn org_is_as_its_document_says() {
    let outbox = profile("org");
    assert_eq!(outbox.settings.mode, Mode::SingleActive);
    assert!(outbox.settings.deliver);
    assert_eq!(outbox.settings.batch_size, 100);
    assert_eq!(outbox.settings.poll_interval, S(1));
    assert_eq!(outbox.settings.lease, S(60));
    assert_eq!(outbox.settings.dispatch_timeout, S(30));
    let (base, max, jitter) = (S(1), S(60), MS(200));
    assert_eq!(
        outbox.settings.retry,
        Retry::AdditiveJitter { base, max, jitter }
    );
    assert_eq!(outbox.settings.max_attempts, 25);
    assert!(outbox.settings.cleaning.enabled);
    assert_eq!(outbox.settings.cleaning.interval, S(60));
    assert_eq!(outbox.settings.cleaning.retention, S(168 * 3600));
    assert_eq!(outbox.settings.cleaning.dead_retention, None);
}

// K4
#[test]
fn order_service_is_as_its_document_says() {
    let outbox = profile("order-service");
    assert_eq!(outbox.settings.batch_size, 10);
    assert_eq!(outbox.settings.poll_interval, MS(5000));
    assert_eq!(outbox.settings.max_attempts, 5);
    let ladder: Vec<_> = (1..=5)
        .map(|n| outbox.settings.retry.delay(n, 0.5))
        .collect();
    assert_eq!(ladder, [MS(100), MS(200), MS(400), MS(800), MS(1600)]);
    assert_eq!(outbox.settings.cleaning.retention, S(30 * DAY));
}

// N5
#[test]
fn logistics_is_as_its_document_says() {
    let outbox = profile("logistics");
    assert_eq!(outbox.settings.batch_size, 50);
    assert_eq!(outbox.settings.poll_interval, MS(200));
    // Five retries after the first attempt.
    assert_eq!(outbox.settings.max_attempts, 1 + 5);
    let ladder: Vec<_> = (1..=5)
        .map(|n| outbox.settings.retry.delay(n, 0.5))
        .collect();
    assert_eq!(ladder, [S(1), S(2), S(4), S(8), S(16)]);
}

// F3
#[test]
fn farm_is_as_its_document_says() {
    let outbox = profile("farm");
    assert_eq!(outbox.settings.batch_size, 50);
    assert_eq!(outbox.settings.poll_interval, S(5));
    assert_eq!(outbox.settings.max_attempts, 3);
    assert_eq!(outbox.settings.retry, Retry::Fixed { delay: S(10) });
}

#[test]
fn keys_that_are_given_win_over_the_profile() {
    let config = load(&[
        ("POSTHASTE_OUTBOX__0__PROFILE", "farm"),
        ("POSTHASTE_OUTBOX__0__RELAY__BATCH_SIZE", "51"),
    ]);
    let outbox = &config.outboxes[0];
    assert_eq!(
        (outbox.settings.batch_size, outbox.settings.max_attempts),
        (51, 3)
    );
}

// B17
#[test]
fn relay_and_cleaner_can_each_be_switched_off() {
    for (relay, clean) in [("true", "false"), ("false", "true"), ("false", "false")] {
        let config = load(&[
            ("POSTHASTE_OUTBOX__0__RELAY__ENABLED", relay),
            ("POSTHASTE_OUTBOX__0__CLEAN__ENABLED", clean),
        ]);
        let outbox = &config.outboxes[0];
        assert_eq!(outbox.settings.deliver.to_string(), relay);
        assert_eq!(outbox.settings.cleaning.enabled.to_string(), clean);
    }
}

#[test]
fn a_command_finds_its_outbox() {
    let two = load(&[("POSTHASTE_OUTBOX__1__TABLE", "shop.more")]);
    let one = load(&[("POSTHASTE_OUTBOX__0__RELAY__BATCH_SIZE", "9")]);
    assert_eq!(one.outbox(None, None).unwrap().settings.batch_size, 9);
    let there = one
        .outbox(Some("sqlite:x.db"), Some("orders_outbox"))
        .unwrap();
    assert_eq!(
        (there.settings.batch_size, there.database.url.as_str()),
        (9, "sqlite:x.db")
    );
    assert_eq!(
        two.outbox(None, Some("shop.more"))
            .unwrap()
            .table
            .to_string(),
        "shop.more"
    );
    let error = two.outbox(None, None).unwrap_err();
    assert!(error.contains("public.orders_outbox, shop.more"), "{error}");
    let error = two.outbox(None, Some("shop.mroe")).unwrap_err();
    assert!(error.contains("it has public.orders_outbox"), "{error}");
    let nothing = Config::empty();
    let outbox = nothing.outbox(Some("sqlite:x.db"), Some("a")).unwrap();
    assert_eq!(outbox.settings.batch_size, 500);
    assert!(
        nothing
            .outbox(None, Some("a"))
            .unwrap_err()
            .contains("--database")
    );
    let error = nothing.outbox(Some("x:hunter2@y"), Some("a")).unwrap_err();
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn of_outboxes_with_one_name_a_command_is_about_the_one_in_the_database_that_is_named() {
    let config = load(&[
        ("POSTHASTE_OUTBOX__0__RELAY__BATCH_SIZE", "9"),
        ("POSTHASTE_OUTBOX__1__TABLE", "orders_outbox"),
        (
            "POSTHASTE_OUTBOX__1__DATABASE__URL",
            "postgres://ann:hunter2@b/shop",
        ),
        ("POSTHASTE_OUTBOX__1__RELAY__BATCH_SIZE", "7"),
    ]);
    let error = config.outbox(None, Some("orders_outbox")).unwrap_err();
    assert!(error.contains("--database"), "{error}");
    assert!(error.contains("postgres://ann:***@b/shop"), "{error}");
    for url in ["postgres://ann:hunter2@b/shop", "postgres://ann:***@b/shop"] {
        let there = config.outbox(Some(url), Some("orders_outbox")).unwrap();
        assert_eq!(there.settings.batch_size, 7);
        assert_eq!(there.database.url, "postgres://ann:hunter2@b/shop");
    }
}

/// Every file that differs in one character is read to its end, and shows no password.
#[test]
fn no_slip_of_the_keyboard_shows_a_password_or_stops_the_program() {
    let text = "[database]\nurl = \"postgres://app:hunter2@db/shop?connect_timeout=9\"\n\n[[outbox]]\n\
                table = \"orders\"\r\nnamespace = \"für\"\ntopics = [\"a\",\n \"b\"]\n\n[outbox.database]\n\
                url = 'postgres://db/shop?password=hunter2'\n\n[sink.log]\ntype = \"stdout\"\npassword = \"hunter2\"\n";
    let check = |text: String| {
        let name = "x.toml".to_owned();
        let slip = text.clone();
        let source = Some(Source { name, text });
        let explained = explain(&Reading::of(
            source.clone(),
            PathBuf::new(),
            std::iter::empty(),
        ));
        let problems = match Reading::of(source, PathBuf::new(), std::iter::empty()).check() {
            Ok(config) => config.warnings,
            Err(problems) => problems,
        };
        // Without the colon it is the name of a user.
        if slip.contains("//apphunter2@") {
            return;
        }
        for told in [
            explained,
            problems.render(true),
            problems.json().to_string(),
            format!("{problems:?}"),
        ] {
            assert!(!told.contains("hunter2"), "{slip}\n{told}");
        }
    };
    let places = text.char_indices().map(|(at, c)| (at, at + c.len_utf8()));
    for (at, next) in places {
        check(text[..at].to_owned());
        check(format!("{}{}", &text[..at], &text[next..]));
        for hostile in [
            "\n", "\r\n", "\"", "'", "[", "]", "=", "{", "#", "é", "\0", " ", "\t", ":", "@", "x",
        ] {
            check(format!("{}{hostile}{}", &text[..at], &text[at..]));
        }
    }
}
