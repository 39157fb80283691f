//! One scenario: an outbox in some database, a ledger, and relays as processes of their own.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use posthaste::{Store, Table};
use posthaste_testkit::file::FreshFile;
use posthaste_testkit::outbox::Fresh;
use posthaste_testkit::server::{self, Machine};
use rustix::process::{Pid, Signal, kill_process};

use crate::ledger::{Consumed, Faults, Produced, verdict};
use crate::producer::Producers;

/// Long enough for a busy machine; a scenario that works never waits for it.
const PATIENCE: Duration = Duration::from_secs(60);
const FLOW_RELAY: &str = env!("CARGO_BIN_EXE_flow-relay");
/// How many events a relay has in hand at most.
pub(crate) const IN_HAND: usize = 40;

/// Where the outbox of a scenario is.
pub(crate) trait Place {
    fn table(&self) -> &Table;

    /// The address for relays, whose sessions are to have this name.
    fn address(&self, name: &str) -> String;

    async fn store(&self) -> impl Store;
}

impl Place for Fresh {
    fn table(&self) -> &Table {
        &self.table
    }

    fn address(&self, name: &str) -> String {
        format!("{}?application_name={name}", self.url)
    }

    async fn store(&self) -> impl Store {
        Self::store(self).await
    }
}

impl Place for FreshFile {
    fn table(&self) -> &Table {
        &self.table
    }

    fn address(&self, _: &str) -> String {
        Self::address(self)
    }

    async fn store(&self) -> impl Store {
        Self::store(self).await
    }
}

pub(crate) struct Scene<P = Fresh> {
    pub(crate) fresh: P,
    pub(crate) ordered: bool,
    /// Where relays find the database, if not where producers do.
    pub(crate) relays_url: Option<String>,
    dir: PathBuf,
}

impl Scene {
    pub(crate) async fn new(ordered: bool) -> Self {
        Self::at(&server::postgres_url(), ordered).await
    }

    pub(crate) async fn at(url: &str, ordered: bool) -> Self {
        Self::on(Fresh::at(url).await, ordered)
    }

    pub(crate) fn producers(&self, count: usize) -> Producers {
        Producers::start(&self.fresh.url, &self.fresh.table, count)
    }
}

impl Scene<FreshFile> {
    pub(crate) fn on_sqlite(ordered: bool) -> Self {
        Self::on(FreshFile::new(), ordered)
    }
}

impl<P: Place> Scene<P> {
    fn on(fresh: P, ordered: bool) -> Self {
        let name = format!("posthaste-flow-{}", uuid::Uuid::new_v4().simple());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        Self {
            fresh,
            ordered,
            relays_url: None,
            dir,
        }
    }

    /// Starts a relay, and waits until it is ready. `options` are those of `flow-relay`.
    pub(crate) async fn relay(&self, options: &[(&str, u64)]) -> Process {
        self.relay_that_dies(None, options).await
    }

    /// Starts a relay that kills itself at a named point.
    pub(crate) async fn relay_that_dies(
        &self,
        at: Option<&str>,
        options: &[(&str, u64)],
    ) -> Process {
        let name = self.name();
        let address = match &self.relays_url {
            Some(url) => format!("{url}?application_name={name}"),
            None => self.fresh.address(&name),
        };
        self.start(Command::new(FLOW_RELAY), &address, at, options)
            .await
    }

    /// Starts a relay on another machine, which has the database at this address.
    pub(crate) async fn relay_on(
        &self,
        machine: &Machine,
        url: &str,
        options: &[(&str, u64)],
    ) -> Process {
        let address = format!("{url}?application_name={}", self.name());
        self.start(machine.command(FLOW_RELAY), &address, None, options)
            .await
    }

    async fn start(
        &self,
        mut command: Command,
        address: &str,
        at: Option<&str>,
        options: &[(&str, u64)],
    ) -> Process {
        command
            .args(["--url", address])
            .args(["--table", &self.fresh.table().to_string()])
            .arg("--ledger")
            .arg(self.ledger())
            .args(["--in-flight", &IN_HAND.to_string()])
            .args(["--ordered", if self.ordered { "1" } else { "0" }]);
        for (name, value) in options {
            command.args([format!("--{name}"), value.to_string()]);
        }
        if let Some(point) = at {
            command.args(["--die-at", point]);
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("relays.log"))
            .unwrap();
        let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let process = Process(child);
        let pid = process.pid();
        self.eventually("the relay is ready", async |scene| {
            scene.consumed().ready.contains(&pid)
        })
        .await;
        process
    }

    /// What the sessions of this scene's relays are called.
    pub(crate) fn name(&self) -> String {
        format!("flow-{}", self.fresh.table().schema())
    }

    /// What the relays logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("relays.log")).unwrap_or_default()
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.dir.join("ledger")
    }

    pub(crate) fn consumed(&self) -> Consumed {
        Consumed::read(&self.ledger())
    }

    pub(crate) fn faults(&self) -> Faults {
        Faults {
            in_hand: IN_HAND,
            ordered: self.ordered,
            ..Faults::default()
        }
    }

    pub(crate) async fn eventually(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self).await {
            assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until all that was committed is delivered and settled.
    pub(crate) async fn until_done(&self, produced: &Produced) {
        self.eventually("all is delivered", async |scene| {
            produced.committed.is_subset(&scene.consumed().ids())
        })
        .await;
        let store = self.fresh.store().await;
        self.eventually("all is settled", async |_| {
            let stats = store.stats().await.unwrap();
            stats.pending + stats.processing == 0
        })
        .await;
        assert_eq!(
            store.stats().await.unwrap().dead,
            0,
            "nothing dies of a fault"
        );
    }

    /// The end of a scenario: everything arrives, the relays stop, the ledgers decide.
    pub(crate) async fn close(
        &self,
        produced: &Produced,
        relays: Vec<Process>,
        faults: &Faults,
    ) -> Consumed {
        self.until_done(produced).await;
        for mut relay in relays {
            relay.signal(Signal::TERM);
            assert!(relay.ended().success());
        }
        let consumed = self.consumed();
        println!(
            "{} committed, {} rolled back, {} unsure; {} delivered, {} repeats, faults {:?}",
            produced.committed.len(),
            produced.rolled_back.len(),
            produced.unsure.len(),
            consumed.deliveries.len(),
            consumed.repeats(),
            faults.of,
        );
        verdict(produced, &consumed, faults);
        consumed
    }
}

impl<P> Drop for Scene<P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the ledger and the logs of the relays are in {}",
                self.dir.display()
            );
        } else {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// A process, of a relay if nothing else is said. Killed when it is dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn of(child: Child) -> Self {
        Self(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), signal).unwrap();
    }

    /// Stops it as a debugger would, and waits until none of its threads does anything more.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let deadline = Instant::now() + PATIENCE;
        while !self.is_frozen() {
            assert!(Instant::now() < deadline, "the process does not stop");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn is_frozen(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name is in brackets, and may hold anything.
            let state = stat
                .rsplit_once(") ")
                .map(|(_, rest)| rest.starts_with('T'));
            state.unwrap_or(true)
        })
    }

    /// Waits until it has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the process does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// `kill -9`
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.ended();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
