//! A relay in a process of its own, as the scenarios that need one run it.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posthaste::Table;
use posthaste_relay::sink::{self, Outcome};
use posthaste_relay::{Cleaning, Relay};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::Result;

/// Arguments: address, table, retention in seconds. Works until its standard input ends, then
/// prints what it used, and what it delivered when.
pub(crate) async fn run(arguments: &[String]) -> Result {
    let [url, table, retention] = arguments else {
        return Err("usage: relay ADDRESS TABLE RETENTION_SECONDS".into());
    };
    let ledger: Arc<Mutex<Vec<(Uuid, u128)>>> = Arc::default();
    let book = ledger.clone();
    let store = posthaste::store::connect(url, Table::parse(table)?).await?;
    let relay = Relay::builder_on(store)
        .destination(
            "ledger",
            sink::from_fn(move |event| {
                book.lock().expect("not poisoned").push((event.id, now()));
                std::future::ready(Outcome::Delivered)
            }),
        )
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
    let deliveries: Vec<Value> = ledger
        .lock()
        .expect("not poisoned")
        .iter()
        .map(|(id, at)| json!([id, at.to_string()]))
        .collect();
    println!("{}", json!({"deliveries": deliveries}));
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
}

/// What it had used so far.
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) peak_kib: u64,
}

impl RelayProcess {
    pub(crate) async fn start(url: &str, table: &Table, retention: u64) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["relay", url, &table.to_string(), &retention.to_string()])
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
        Ok(Self { child })
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let pid = self.child.id().ok_or("the relay has ended")?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        // utime and stime, in ticks of a hundredth of a second.
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
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
        let output = self.child.wait_with_output().await?;
        let told: Value = serde_json::from_slice(&output.stdout)?;
        let deliveries = told["deliveries"].as_array().ok_or("no deliveries")?;
        deliveries
            .iter()
            .map(|delivery| {
                let id = delivery[0].as_str().ok_or("no id")?.parse()?;
                Ok((id, delivery[1].as_str().ok_or("no time")?.parse()?))
            })
            .collect()
    }
}
