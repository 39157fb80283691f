//! What an operator waits for, on an outbox of ten million events: the real daemon, asked over HTTP.
//!
//! The outbox is paused, so that nothing moves while it is looked at. Each figure is the slowest of many
//! answers, beside the limit that the dashboard promises.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::process::{Child, Command};

use crate::Result;
use crate::bed::{Bed, Fresh};
use crate::program::posthaste;

/// What an answer may take.
const LIMIT: Duration = Duration::from_millis(200);
/// What must not take longer, however large the outbox is.
const MUST: [&str; 2] = ["overview", "first page"];
const ASKED: usize = 30;
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How many events one statement inserts.
const SLICE: i64 = 500_000;

pub(crate) async fn run(bed: &Bed) -> Result {
    let events: i64 = if bed.quick { 200_000 } else { 10_000_000 };
    let fresh = bed.fresh().await?;
    fill(&fresh, events).await?;
    let daemon = Daemon::start(&bed.url, &fresh).await?;
    let mut late = Vec::new();
    for (name, path) in questions(&daemon).await? {
        let mut took = Vec::new();
        // The first answer also fills caches, as that of every process does.
        let first = daemon.ask(&path).await?;
        for _ in 0..ASKED {
            took.push(daemon.ask(&path).await?);
        }
        took.sort();
        let milliseconds = |time: &Duration| time.as_micros() as f64 / 1000.0;
        let slowest = took.last().expect("asked");
        if MUST.contains(&name) && *slowest > LIMIT {
            late.push(name);
        }
        bed.tell(
            &format!("{name} of {events} events"),
            milliseconds(slowest),
            "ms",
            None,
            json!({
                "limit": milliseconds(&LIMIT),
                "within": *slowest <= LIMIT,
                "first": milliseconds(&first),
                "median": milliseconds(&took[took.len() / 2]),
                "asked": ASKED,
            }),
        );
    }
    drop(daemon);
    fresh.drop().await?;
    match late.is_empty() {
        true => Ok(()),
        false => Err(format!("slower than {LIMIT:?}: {}", late.join(", ")).into()),
    }
}

/// Four fifths delivered, a hundredth dead of a dozen kinds of errors, the rest pending, half of it by key.
async fn fill(fresh: &Fresh, events: i64) -> Result {
    let sql = fresh.sql(
        "insert into {outbox} (topic, aggregate_type, aggregate_id, ordering_key, payload, status, attempts, \
                               created_at, next_attempt_at, delivered_at, dead_at, dead_reason, last_error, \
                               fingerprint) \
         select 'shop.order.' || (array['placed', 'paid', 'shipped'])[1 + n % 3] || '.v1', 'Order', n::text, \
                case when n % 2 = 0 then (n % 5000)::text end, jsonb_build_object('order', n), \
                case when is_delivered then 'delivered' when is_dead then 'dead' else 'pending' end, \
                case when is_delivered or is_dead then 1 else 0 end, at, at, \
                case when is_delivered then at + interval '20 ms' end, \
                case when is_dead then at + interval '1 h' end, \
                case when is_dead then 'rejected' end, \
                case when is_dead then 'status 4' || (n / 100) % 12 || ' of order ' || n end, \
                case when is_dead then 'status 4' || (n / 100) % 12 || ' of order #' end \
         from generate_series($1::bigint, $2::bigint) n, \
              lateral (select n % 100 < 80 as is_delivered, n % 100 = 80 as is_dead, \
                              now() - (1 - n::float8 / $3::float8) * interval '6 days') as of (is_delivered, is_dead, at)",
    );
    fresh
        .client
        .batch_execute(&fresh.sql("alter table {outbox} set (autovacuum_enabled = off)"))
        .await?;
    let mut from = 1;
    while from <= events {
        let to = (from + SLICE - 1).min(events);
        fresh
            .client
            .execute(&sql, &[&from, &to, &(events as f64)])
            .await?;
        from = to + 1;
    }
    fresh
        .client
        .batch_execute(&fresh.sql("alter table {outbox} reset (autovacuum_enabled)"))
        .await?;
    fresh.settle_down().await
}

/// What the pages of the dashboard ask for.
async fn questions(daemon: &Daemon) -> Result<Vec<(&'static str, String)>> {
    let overview: serde_json::Value =
        serde_json::from_str(&daemon.get("/api/v1/overview").await?.1)?;
    let name = overview["outboxes"][0]["name"]
        .as_str()
        .ok_or("no outbox")?;
    let at = |rest: &str| format!("/api/v1/outboxes/{name}/{rest}");
    Ok(vec![
        ("overview", "/api/v1/overview".to_owned()),
        ("first page", at("events?limit=50")),
        ("first page of the dead", at("events?limit=50&status=dead")),
        (
            "first page of the pending",
            at("events?limit=50&status=pending&order=oldest"),
        ),
        (
            "filtered page",
            at("events?limit=50&topic=shop.order.paid.*&newer_than=2d"),
        ),
        (
            "page of an error",
            at("events?limit=50&status=dead&error=status%2043"),
        ),
        (
            "page of what is rare",
            at("events?limit=50&aggregate_id=123456"),
        ),
        ("groups", at("groups?limit=50")),
        ("blocked keys", at("blocked?limit=50")),
        ("relays", at("relays")),
        ("database", at("database")),
        ("health", "/healthz".to_owned()),
        ("metrics", "/metrics".to_owned()),
    ])
}

/// `posthaste run`, which stands beside this program.
struct Daemon {
    _process: Child,
    _folder: tempfile::TempDir,
    client: reqwest::Client,
    address: String,
}

impl Daemon {
    async fn start(url: &str, fresh: &Fresh) -> Result<Self> {
        let program = posthaste()?;
        let folder = tempfile::tempdir()?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        let address = format!("127.0.0.1:{port}");
        let table = &fresh.table;
        let configuration = format!(
            "[admin]\nlisten = \"{address}\"\nrate_limit = 1000000\n[database]\nurl = \"{url}\"\n\
             [[outbox]]\ntable = \"{table}\"\n[sink.log]\ntype = \"stdout\"\n"
        );
        std::fs::write(folder.path().join("posthaste.toml"), configuration)?;
        let command = |arguments: &[&str]| {
            let mut command = Command::new(&program);
            command.args(arguments).current_dir(folder.path());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.kill_on_drop(true);
            command
        };
        let paused = command(&["pause", "--why", "to be looked at"])
            .status()
            .await?;
        if !paused.success() {
            return Err("the outbox could not be paused".into());
        }
        let daemon = Self {
            _process: command(&["run"]).stderr(Stdio::null()).spawn()?,
            _folder: folder,
            client: reqwest::Client::builder()
                .tls_backend_preconfigured(no_tls()?)
                .build()?,
            address,
        };
        let started = Instant::now();
        while daemon.get("/readyz").await.is_err() {
            if started.elapsed() > READY_WITHIN {
                return Err("the daemon is not ready".into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(daemon)
    }

    /// How long an answer takes, to its last byte.
    async fn ask(&self, path: &str) -> Result<Duration> {
        Ok(self.get(path).await?.0)
    }

    async fn get(&self, path: &str) -> Result<(Duration, String)> {
        let started = Instant::now();
        let answer = self.client.get(format!("http://{}{path}", self.address));
        let answer = answer.send().await?;
        let status = answer.status();
        let body = answer.text().await?;
        // Whatever is found to be ill here, it is the time that counts.
        match status.is_success() || path == "/healthz" {
            true => Ok((started.elapsed(), body)),
            false => Err(format!("{path}: {status}: {body}").into()),
        }
    }
}

/// The client wants to be told, though it never needs it.
fn no_tls() -> Result<rustls::ClientConfig> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}
