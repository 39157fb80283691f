//! A relay in a process of its own, as the scenarios that need one run it.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posthaste::Table;
use posthaste::store::{OnFailure, Ordering};
use posthaste_relay::sink::{self, Outcome};
use posthaste_relay::{Cleaning, Relay};
use tempfile::NamedTempFile;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::Result;

/// What was delivered, and when: id and nanoseconds, one after the other.
const RECORD: usize = 32;

/// Arguments: address, table, retention in seconds, in which order, and a file for what was delivered when: in memory it
/// would be taken for the relay's. Works until its standard input ends.
pub(crate) async fn run(arguments: &[String]) -> Result {
    let [url, table, retention, ordering, ledger] = arguments else {
        return Err("usage: relay ADDRESS TABLE RETENTION_SECONDS none|key LEDGER".into());
    };
    let ordering = match &**ordering {
        "key" => Ordering::Key(OnFailure::Block),
        _ => Ordering::None,
    };
    let ledger = Arc::new(Mutex::new(BufWriter::new(File::create(ledger)?)));
    let book = ledger.clone();
    let store = posthaste::store::connect(url, Table::parse(table)?).await?;
    let relay = Relay::builder_on(store)
        .destination(
            "ledger",
            sink::from_fn(move |event| {
                let mut book = book.lock().expect("not poisoned");
                let written = book
                    .write_all(event.id.as_bytes())
                    .and_then(|()| book.write_all(&now().to_be_bytes()));
                written.expect("the ledger can be written");
                std::future::ready(Outcome::Delivered)
            }),
        )
        .ordering(ordering)
        .cleaning(Cleaning {
            retention: Duration::from_secs(retention.parse()?),
            ..Cleaning::default()
        })
        .build()?;
    println!("ready");
    relay
        .run(async {
            let mut rest = Vec::new();
            let _ = tokio::io::stdin().read_to_end(&mut rest).await;
        })
        .await;
    ledger.lock().expect("not poisoned").flush()?;
    Ok(())
}

pub(crate) fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos())
}

/// The process, seen from outside.
pub(crate) struct RelayProcess {
    child: Child,
    ledger: NamedTempFile,
}

/// What it had used so far.
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) peak_kib: u64,
}

impl RelayProcess {
    pub(crate) async fn start(url: &str, table: &Table, retention: u64) -> Result<Self> {
        Self::start_in(url, table, retention, "none").await
    }

    /// `ordering`: `none` or `key`.
    pub(crate) async fn start_in(
        url: &str,
        table: &Table,
        retention: u64,
        ordering: &str,
    ) -> Result<Self> {
        let ledger = NamedTempFile::new()?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["relay", url, &table.to_string(), &retention.to_string()])
            .arg(ordering)
            .arg(ledger.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut ready = [0; 6];
        child
            .stdout
            .as_mut()
            .expect("piped")
            .read_exact(&mut ready)
            .await?;
        Ok(Self { child, ledger })
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let pid = self.child.id().ok_or("the relay has ended")?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        // utime and stime, in ticks of a hundredth of a second.
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let peak_kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|line| line.split_whitespace().next()?.parse().ok())
            .unwrap_or(0);
        Ok(Usage {
            cpu: Duration::from_millis(ticks * 10),
            peak_kib,
        })
    }

    /// Stops it. Gives back what it delivered, and when.
    pub(crate) async fn stop(mut self) -> Result<Vec<(Uuid, u128)>> {
        drop(self.child.stdin.take());
        if !self.child.wait().await?.success() {
            return Err("the relay failed".into());
        }
        let ledger = fs::read(self.ledger.path())?;
        let (records, []) = ledger.as_chunks::<RECORD>() else {
            return Err("the ledger is cut short".into());
        };
        let read = records.iter().map(|record| {
            let (id, at) = record.split_at(size_of::<Uuid>());
            Ok((Uuid::from_slice(id)?, u128::from_be_bytes(at.try_into()?)))
        });
        read.collect()
    }
}
