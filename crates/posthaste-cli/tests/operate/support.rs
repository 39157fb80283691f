//! A place with an outbox, the program run on it, and what it answers.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use posthaste::store::{Claim, Filter, Settlement, Verdict};
use posthaste::{DeadReason, Message, Record, Status, Store, TopicRule};
use posthaste_testkit::bed::{Bed, OnPostgres, OnSqlite};
use uuid::Uuid;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// An outbox that the program can be told about. A further database is one more of these, and
/// one more line in [`every_place!`].
pub(crate) trait Place: Bed {
    /// The address of the database, and the name of the outbox.
    fn address(&self) -> (String, String);
}

impl Place for OnPostgres {
    fn address(&self) -> (String, String) {
        (self.fresh().url.clone(), self.fresh().table.to_string())
    }
}

impl Place for OnSqlite {
    fn address(&self) -> (String, String) {
        (self.fresh().address(), self.fresh().table.to_string())
    }
}

/// Makes a test of each function, for every database.
macro_rules! every_place {
    ($($test:ident)*) => {
        crate::support::every_place! { postgres: posthaste_testkit::bed::OnPostgres; $($test)* }
        crate::support::every_place! { sqlite: posthaste_testkit::bed::OnSqlite; $($test)* }
    };
    ($name:ident: $bed:ty; $($test:ident)*) => {
        mod $name {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(<$bed>::new().await).await;
            })*
        }
    };
}
pub(crate) use every_place;

/// What the program answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output of a command that is to succeed.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Lines of JSON of a command that is to succeed.
    pub(crate) fn json(self) -> Vec<serde_json::Value> {
        let line = |line: &str| serde_json::from_str(line).expect("JSON");
        self.ok().lines().map(line).collect()
    }

    /// Everything, for a snapshot.
    pub(crate) fn whole(&self) -> String {
        format!(
            "exit code {}\n--- out\n{}--- err\n{}",
            self.code, self.out, self.err
        )
    }
}

/// The program, without what the environment of the tests may hold.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments).stdin(Stdio::null());
    for name in [
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "POSTHASTE_CONFIG",
        "SUDO_USER",
    ] {
        command.env_remove(name);
    }
    command.env("USER", "ann");
    command
}

/// The program, told where the outbox is.
pub(crate) fn at(place: &impl Place, arguments: &[&str]) -> Command {
    let (database, table) = place.address();
    let mut command = program(arguments);
    command.args(["--database", &database, "--table", &table]);
    command
}

pub(crate) fn run(place: &impl Place, arguments: &[&str]) -> Answer {
    Answer::of(at(place, arguments).output().unwrap())
}

/// Compares with the snapshot of this name, which is the same for every database.
pub(crate) fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.add_filter(
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[id]",
    );
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "[time]");
    settings.add_filter(r"\b(t[0-9a-f]{32}|shop)\.outbox", "[outbox]");
    settings.add_filter(r"ann@[\w.-]+", "ann@[host]");
    settings.add_filter(r"[\w.-]+ \(\d+\)", "[relay]");
    settings.bind(|| insta::assert_snapshot!(name, text));
}

pub(crate) const PLACED: &str = "shop.order.placed.v1";
pub(crate) const PAID: &str = "shop.order.paid.v1";
pub(crate) const BOOKED: &str = "hotel.room.booked.v2";

pub(crate) fn message(topic: &str) -> Message {
    Message::json_text(topic, r#"{"order": 42}"#).unwrap()
}

/// Six events in this order: delivered, rejected, exhausted, leased, retried, pending.
pub(crate) struct Shop<B: Bed> {
    pub(crate) store: B::Store,
    pub(crate) ids: Vec<Uuid>,
}

impl<B: Bed> Shop<B> {
    pub(crate) async fn open(place: &B) -> Self {
        let store = place.relay().await;
        let messages = [
            message(PLACED)
                .aggregate("order", "42")
                .event_type("OrderPlaced"),
            message(PLACED)
                .aggregate("order", "7")
                .header("source", "checkout"),
            message(PAID).aggregate("order", "42").namespace("shop"),
            message(PLACED),
            message(PLACED),
            message(BOOKED).ordering_key("room 3"),
        ];
        let receipts = place.enqueue(&messages).await.unwrap();
        let dead = |reason, error: &str| Verdict::Dead {
            reason,
            error: error.to_owned(),
            letter: None,
        };
        let retry = Verdict::Retry {
            delay: HOUR,
            error: "connection refused".to_owned(),
        };
        let claimed = store.claim(&Claim::new(5)).await.unwrap().events;
        let verdicts = [
            (0, Verdict::Delivered { keep: true }),
            (1, dead(DeadReason::Rejected, "100% too odd")),
            (2, dead(DeadReason::Exhausted, "timeout after 30 s")),
            (4, retry),
        ];
        // One by one, so that it is known which ended first.
        for (n, verdict) in verdicts {
            let lease = claimed[n].lease;
            store
                .settle(&[Settlement::new(lease, verdict)])
                .await
                .unwrap();
        }
        let ids = receipts.iter().map(|receipt| receipt.id).collect();
        Self { store, ids }
    }

    pub(crate) async fn all(&self) -> Vec<Record> {
        all(&self.store).await
    }

    pub(crate) async fn statuses(&self) -> Vec<Status> {
        self.all()
            .await
            .iter()
            .map(|record| record.status)
            .collect()
    }

    pub(crate) fn id(&self, n: usize) -> String {
        self.ids[n].to_string()
    }
}

pub(crate) async fn all(store: &impl Store) -> Vec<Record> {
    store.list(&Filter::default(), 100_000).await.unwrap()
}

/// This many dead events, all for the same reason.
pub(crate) async fn bury(store: &impl Store, count: usize) {
    Store::enqueue(store, &vec![message(PLACED); count], TopicRule::Strict)
        .await
        .unwrap();
    let claimed = store.claim(&Claim::new(count as u32)).await.unwrap().events;
    let settle = |event: &posthaste::Event| Settlement {
        lease: event.lease,
        tried: None,
        verdict: Verdict::Dead {
            reason: DeadReason::Rejected,
            error: "too odd".to_owned(),
            letter: None,
        },
    };
    let settlements: Vec<_> = claimed.iter().map(settle).collect();
    assert_eq!(store.settle(&settlements).await.unwrap().applied, count);
}

/// Delivers all that is due.
pub(crate) async fn deliver(store: &impl Store) -> usize {
    let claimed = store.claim(&Claim::new(1000)).await.unwrap().events;
    let settle = |event: &posthaste::Event| Settlement {
        lease: event.lease,
        tried: None,
        verdict: Verdict::Delivered { keep: true },
    };
    let settlements: Vec<_> = claimed.iter().map(settle).collect();
    store.settle(&settlements).await.unwrap().applied
}
