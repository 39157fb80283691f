//! A real relay for whole-flow tests: it writes what it delivers into a ledger, and can be told to
//! die at a named point.
//!
//! `flow-relay --url … --table … --ledger …`; the other options are the fields of [`Options`].
//! All that is odd about it is here, in its own sink and its own wrapper around the store.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use posthaste::store::{
    Act, Attempt, Audit, BlockedKey, Claim, Claimed, Clean, Content, Filter, Finding, Group,
    Health, Job, JobState, Mark, OnFailure, Order, Ordering, Page, Pause, Redelivery, RelayInfo,
    Settled, Settlement, StartedJob, Stats, Target, Verdict,
};
use posthaste::{
    EnqueueError, Event, Lease, Message, Receipt, Record, Store, StoreError, Table, TopicRule,
};
use posthaste_relay::sink::{Outcome, Sink};
use posthaste_relay::{Mode, Relay, Retry};
use rustix::process::{Signal, getpid, kill_process};
use uuid::Uuid;

struct Options {
    url: String,
    table: String,
    ledger: String,
    lease: Duration,
    /// How long one delivery takes.
    takes: Duration,
    in_flight: u32,
    max_attempts: u32,
    /// So many deliveries of a hundred fail.
    fails: u64,
    ordered: bool,
    single_active: bool,
    /// When it leads for the first time, its sessions are cut before it knows.
    cut_as_leader: bool,
    die_at: Point,
    /// When it gets there for this time.
    die_after: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Point {
    Never,
    AfterClaim,
    MidDispatch,
    BeforeSettle,
    AfterSettle,
}

impl Options {
    fn read() -> Self {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let given = |name: &str| {
            let place = words.iter().position(|word| word == name)?;
            words.get(place + 1).cloned()
        };
        let text = |name: &str| given(name).unwrap_or_else(|| panic!("{name} is needed"));
        let number = |name: &str, otherwise: u64| {
            given(name).map_or(otherwise, |text| text.parse().expect("a number"))
        };
        Self {
            url: text("--url"),
            table: text("--table"),
            ledger: text("--ledger"),
            lease: Duration::from_millis(number("--lease", 60_000)),
            takes: Duration::from_millis(number("--takes", 5)),
            in_flight: u32::try_from(number("--in-flight", 40)).expect("a small number"),
            max_attempts: u32::try_from(number("--max-attempts", 25)).expect("a small number"),
            fails: number("--fails", 0),
            ordered: number("--ordered", 0) == 1,
            single_active: number("--single-active", 0) == 1,
            cut_as_leader: number("--cut-as-leader", 0) == 1,
            die_at: match given("--die-at").as_deref() {
                None => Point::Never,
                Some("after-claim") => Point::AfterClaim,
                Some("mid-dispatch") => Point::MidDispatch,
                Some("before-settle") => Point::BeforeSettle,
                Some("after-settle") => Point::AfterSettle,
                Some(other) => panic!("there is no point {other}"),
            },
            die_after: number("--die-after", 1),
        }
    }
}

/// Ends this process as `kill -9` would, when it gets to a point often enough.
struct Doom {
    at: Point,
    left: AtomicU64,
}

impl Doom {
    fn pass(&self, point: Point) {
        if point == self.at && self.left.fetch_sub(1, Memory::SeqCst) == 1 {
            kill_process(getpid(), Signal::KILL).expect("one may kill oneself");
        }
    }
}

/// The consumer's ledger: one line for each delivery, appended in a single write, so that the
/// lines of all processes stand in the order in which they were delivered.
struct Ledger(File);

impl Ledger {
    fn write(&self, kind: char, what: std::fmt::Arguments<'_>) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let line = format!("{kind} {} {} {what}\n", std::process::id(), now.as_millis());
        (&self.0)
            .write_all(line.as_bytes())
            .expect("the ledger can be written to");
    }
}

struct ToLedger {
    ledger: Arc<Ledger>,
    doom: Arc<Doom>,
    takes: Duration,
    fails: u64,
}

#[async_trait]
impl Sink for ToLedger {
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        tokio::time::sleep(self.takes / 2).await;
        self.doom.pass(Point::MidDispatch);
        // The same event fails at the same attempts, whoever delivers it.
        if (event.id.as_u128() as u64).wrapping_add(u64::from(event.attempts)) % 100 < self.fails {
            return Outcome::Retry("now and then".to_owned());
        }
        let key = event.ordering_key.as_deref().unwrap_or("-");
        self.ledger.write(
            'D',
            format_args!("{} {} {} {key}", event.id, event.sequence, event.attempts),
        );
        tokio::time::sleep(self.takes / 2).await;
        Outcome::Delivered
    }
}

/// The store, with points to die at.
struct Doomed {
    store: Arc<dyn Store>,
    ledger: Arc<Ledger>,
    doom: Arc<Doom>,
    cut: std::sync::Mutex<Option<Cut>>,
}

/// Cuts all sessions of this name, and waits until another relay has claimed something.
struct Cut {
    url: String,
    name: String,
    table: String,
}

impl Cut {
    async fn sessions(&self) {
        let client = posthaste_testkit::outbox::connect(&self.url).await;
        let sql =
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1";
        let cut = client.query(sql, &[&self.name]).await;
        assert!(!cut.expect("sessions can be cut").is_empty());
        let leased = format!("select from {} where lease_owner is not null", self.table);
        while client.query(&leased, &[]).await.expect("rows").is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[async_trait]
impl Store for Doomed {
    fn table(&self) -> &Table {
        self.store.table()
    }

    fn owner(&self) -> Uuid {
        self.store.owner()
    }

    fn holds(&self, lease: &Lease) -> bool {
        self.store.holds(lease)
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let claimed = self.store.claim(claim).await?;
        if !claimed.events.is_empty() {
            self.doom.pass(Point::AfterClaim);
        }
        Ok(claimed)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Settled, StoreError> {
        let delivers = settlements
            .iter()
            .any(|settlement| matches!(settlement.verdict, Verdict::Delivered { .. }));
        if delivers {
            self.doom.pass(Point::BeforeSettle);
        }
        let settled = self.store.settle(settlements).await?;
        if delivers {
            self.doom.pass(Point::AfterSettle);
        }
        if !settled.lost.is_empty() {
            self.ledger
                .write('L', format_args!("{}", settled.lost.len()));
        }
        Ok(settled)
    }

    fn abandon(&self, leases: &[Lease]) {
        self.store.abandon(leases);
    }

    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<Lease>, StoreError> {
        self.store.extend(leases, lease).await
    }

    async fn take_over(&self) -> Result<usize, StoreError> {
        self.store.take_over().await
    }

    async fn lead(&self) -> Result<bool, StoreError> {
        let leads = self.store.lead().await?;
        let cut = self.cut.lock().expect("not poisoned").take_if(|_| leads);
        if let Some(cut) = cut {
            cut.sessions().await;
        }
        Ok(leads)
    }

    async fn leave(&self) -> Result<(), StoreError> {
        self.store.leave().await
    }

    async fn woken(&self) {
        self.store.woken().await;
    }

    async fn clean(&self, clean: &Clean) -> Result<u64, StoreError> {
        self.store.clean(clean).await
    }

    async fn remove(&self, ids: &[Uuid], archive: bool) -> Result<u64, StoreError> {
        self.store.remove(ids, archive).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.store.stats().await
    }

    async fn list(&self, filter: &Filter, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.store.list(filter, limit).await
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        self.store.count(filter).await
    }

    async fn show(&self, id: Uuid) -> Result<Option<Record>, StoreError> {
        self.store.show(id).await
    }

    async fn content(&self, id: Uuid) -> Result<Option<Content>, StoreError> {
        self.store.content(id).await
    }

    async fn finished(&self, after: Option<Mark>, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.store.finished(after, limit).await
    }

    async fn audit_from(
        &self,
        event: Option<Uuid>,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Vec<Audit>, StoreError> {
        self.store.audit_from(event, from, limit).await
    }

    async fn redeliver(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError> {
        self.store.redeliver(ids, act).await
    }

    async fn discard(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError> {
        self.store.discard(ids, act).await
    }

    async fn enqueue(
        &self,
        messages: &[Message],
        topics: TopicRule,
    ) -> Result<Vec<Receipt>, EnqueueError> {
        self.store.enqueue(messages, topics).await
    }

    async fn note(&self, what: &'static str, act: &Act) -> Result<(), StoreError> {
        self.store.note(what, act).await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.store.examine().await
    }

    async fn browse(
        &self,
        filter: &Filter,
        order: Order,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.store.browse(filter, order, from, limit).await
    }

    async fn history(&self, id: Uuid) -> Result<Vec<Attempt>, StoreError> {
        self.store.history(id).await
    }

    async fn groups(&self, filter: &Filter, limit: u32) -> Result<Vec<Group>, StoreError> {
        self.store.groups(filter, limit).await
    }

    async fn pause(&self, target: &Target, act: &Act) -> Result<bool, StoreError> {
        self.store.pause(target, act).await
    }

    async fn resume(&self, target: &Target, act: &Act) -> Result<bool, StoreError> {
        self.store.resume(target, act).await
    }

    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.store.pauses().await
    }

    async fn start_job_as(
        &self,
        id: Uuid,
        redelivery: &Redelivery,
        act: &Act,
    ) -> Result<StartedJob, StoreError> {
        self.store.start_job_as(id, redelivery, act).await
    }

    async fn jobs(&self, limit: u32) -> Result<Vec<Job>, StoreError> {
        self.store.jobs(limit).await
    }

    async fn job(&self, id: Uuid) -> Result<Option<Job>, StoreError> {
        self.store.job(id).await
    }

    async fn set_job(
        &self,
        id: Uuid,
        state: JobState,
        act: &Act,
    ) -> Result<Option<Job>, StoreError> {
        self.store.set_job(id, state, act).await
    }

    async fn advance(&self, id: Uuid, limit: u32) -> Result<Option<Job>, StoreError> {
        self.store.advance(id, limit).await
    }

    async fn relays(&self) -> Result<Vec<RelayInfo>, StoreError> {
        self.store.relays().await
    }

    async fn blocked(&self, limit: u32) -> Result<Vec<BlockedKey>, StoreError> {
        self.store.blocked(limit).await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.store.health().await
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let options = Options::read();
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&options.ledger)?;
    let ledger = Arc::new(Ledger(file));
    let doom = Arc::new(Doom {
        at: options.die_at,
        left: AtomicU64::new(options.die_after),
    });
    let sink = ToLedger {
        ledger: ledger.clone(),
        doom: doom.clone(),
        takes: options.takes,
        fails: options.fails,
    };
    // Told apart by its name from those that are not to be cut.
    let name = format!("cut-{}", std::process::id());
    let (url, cut) = match (options.cut_as_leader, options.url.split_once('?')) {
        (true, Some((url, _))) => {
            let url = url.to_owned();
            let table = options.table.clone();
            let named = format!("{url}?application_name={name}");
            (named, Some(Cut { url, name, table }))
        }
        _ => (options.url.clone(), None),
    };
    let store = Doomed {
        store: posthaste::store::connect(&url, Table::parse(&options.table)?).await?,
        ledger: ledger.clone(),
        doom,
        cut: std::sync::Mutex::new(cut),
    };
    let ordering = match options.ordered {
        true => Ordering::Key(OnFailure::Block),
        false => Ordering::None,
    };
    let mode = match options.single_active {
        true => Mode::SingleActive,
        false => Mode::Parallel,
    };
    let relay = Relay::builder(store)
        .mode(mode)
        .lease(options.lease)
        .dispatch_timeout(options.lease / 2)
        .poll_interval((options.lease / 4).min(Duration::from_secs(1)))
        .batch_size(options.in_flight)
        .in_flight(options.in_flight as usize)
        .max_attempts(options.max_attempts)
        .retry(Retry::Fixed {
            delay: Duration::from_millis(30),
        })
        .ordering(ordering)
        .destination("ledger", sink)
        .build()?;
    let mut asked = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    ledger.write('R', format_args!("ready"));
    relay
        .run(async move {
            asked.recv().await;
        })
        .await;
    Ok(())
}
