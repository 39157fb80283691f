//! The store on PostgreSQL. Every operation is one statement of `sql/postgres/`.
#![cfg_attr(
    not(feature = "tls"),
    allow(clippy::clone_on_copy, reason = "a connector with TLS is not Copy")
)]

mod connect;
mod decode;
mod held;
mod link;

use std::collections::{HashMap, HashSet};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Mutex, Notify};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Row};
use uuid::Uuid;

use self::decode::Timestamp;
use self::held::Held;
use self::link::{Link, Session, classify};
use super::{
    Act, Claim, Claimed, Clean, Filter, OnFailure, Ordering, Reach, Scope, Settled, Settlement,
    Stats, Store, StoreError, Verdict,
};
use crate::event::{Lease, Record};
use crate::schema;
use crate::table::Table;

const SETTLE: &str = include_str!("../../sql/postgres/session_settle.sql");
const CLAIM: &str = include_str!("../../sql/postgres/session_claim.sql");
const PLAIN: &str = "set jit = off;";
const PRESENCE: &str = "listen posthaste;";

/// How often to look for owners that are gone and without leases.
const FORGET: Duration = Duration::from_secs(2);
/// At the end of the due events, look again at this much: commits do not come in the order of their times.
const SLACK: i64 = 100_000;
/// With ordering by key, how many due events to look at for each one that is wanted.
const LOOK: u32 = 4;

/// An outbox in PostgreSQL, as a relay or an operator sees it. It has up to four connections.
pub struct Postgres {
    table: Arc<Table>,
    sql: Sql,
    name: String,
    claim: Link,
    settle: Link,
    ops: Link,
    presence: Link,
    standing: Mutex<Standing>,
    owner: std::sync::Mutex<Uuid>,
    held: Held,
    cursors: std::sync::Mutex<Cursors>,
    woken: Arc<Notify>,
}

/// What this store's own session stands for, and what it knows of others.
#[derive(Default)]
struct Standing {
    session: Option<Arc<Session>>,
    /// Whether the owner's id was ever told to the database: it stands for one session only.
    told: bool,
    leads: bool,
    /// Names that it had before in this session, and has not given up yet.
    former: Vec<Uuid>,
    gone: HashSet<Uuid>,
    /// When those were last looked at that hold no lease any more.
    forgot: Option<Instant>,
}

/// Where claims go on from.
#[derive(Clone, Copy)]
struct Cursors {
    /// Where the last claim ended.
    onward: Cursor,
    /// The furthest that any claim has seen.
    latest: Cursor,
    /// Whether going onward came to the end. With order by key only then does it start over:
    /// a line of waiting events may be longer than what one claim looks at.
    at_end: bool,
}

/// A place among the due events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor(Timestamp, i64);

const START: Cursor = Cursor(Timestamp(i64::MIN), 0);

struct Sql {
    claim: String,
    claim_keyed: String,
    deliver: String,
    deliver_delete: String,
    settle: String,
    extend: String,
    clean: String,
    clean_archive: String,
    stats: String,
    list: String,
    redeliver: String,
    discard: String,
    register: String,
    peers: String,
    forget: String,
    give_up: String,
}

impl Postgres {
    /// Connects to the database at this address (`postgres://…` or `host=… user=…`), and
    /// makes sure that the outbox is set up.
    pub async fn connect(address: &str, table: Table) -> Result<Self, StoreError> {
        let mut config = Config::from_str(address)
            // The address may hold a password: say what is wrong, not what was given.
            .map_err(|error| {
                StoreError::Settings(format!("the database address is not valid: {error}"))
            })?;
        if config.get_application_name().is_none() {
            config.application_name("posthaste");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        config.keepalives_idle(Duration::from_secs(10));
        config.tcp_user_timeout(Duration::from_secs(20));
        let connector = connect::connector()?;
        let woken = Arc::new(Notify::new());
        let wakes: Arc<str> = table.to_string().into();
        let link = |setup| {
            let listener = (wakes.clone(), woken.clone());
            Link::new(config.clone(), connector.clone(), setup, listener)
        };
        let render = |sql: &str| table.render(sql);
        let store = Self {
            sql: Sql {
                claim: render(include_str!("../../sql/postgres/claim.sql")),
                claim_keyed: render(include_str!("../../sql/postgres/claim_keyed.sql")),
                deliver: render(include_str!("../../sql/postgres/deliver.sql")),
                deliver_delete: render(include_str!("../../sql/postgres/deliver_delete.sql")),
                settle: render(include_str!("../../sql/postgres/settle.sql")),
                extend: render(include_str!("../../sql/postgres/extend.sql")),
                clean: render(include_str!("../../sql/postgres/clean.sql")),
                clean_archive: render(include_str!("../../sql/postgres/clean_archive.sql")),
                stats: render(include_str!("../../sql/postgres/stats.sql")),
                list: render(include_str!("../../sql/postgres/list.sql")),
                redeliver: render(include_str!("../../sql/postgres/redeliver.sql")),
                discard: render(include_str!("../../sql/postgres/discard.sql")),
                register: render(include_str!("../../sql/postgres/register.sql")),
                peers: render(include_str!("../../sql/postgres/peers.sql")),
                forget: render(include_str!("../../sql/postgres/forget.sql")),
                give_up: render(include_str!("../../sql/postgres/give_up.sql")),
            },
            name: format!("{} ({})", host(), std::process::id()),
            claim: link(CLAIM),
            settle: link(SETTLE),
            ops: link(PLAIN),
            presence: link(PRESENCE),
            standing: Mutex::new(Standing::default()),
            owner: std::sync::Mutex::new(Uuid::new_v4()),
            held: Held::default(),
            cursors: std::sync::Mutex::new(Cursors {
                onward: START,
                latest: START,
                at_end: true,
            }),
            woken,
            table: Arc::new(table),
        };
        let session = store.ops.session().await?;
        schema::check(session.client(), &store.table).await?;
        Ok(store)
    }

    /// Is known to other relays as an owner, for as long as its session lives. If that
    /// session broke, what it had leased may be with others by now; if a claim's answer got lost,
    /// it may have leased what it knows nothing of: either way it goes on as a new owner.
    async fn be_present(&self) -> Result<tokio::sync::MutexGuard<'_, Standing>, StoreError> {
        let mut standing = self.standing.lock().await;
        let alive = standing
            .session
            .clone()
            .filter(|session| session.is_alive());
        let former = alive.as_ref().map(|_| self.owner());
        let session = match alive {
            Some(_) if !self.held.is_in_doubt() => return Ok(standing),
            Some(session) => session,
            None => {
                standing.session = None;
                standing.leads = false;
                standing.former.clear();
                self.presence.session().await?
            }
        };
        let owner = match standing.told {
            true => Uuid::new_v4(),
            false => self.owner(),
        };
        standing.told = true;
        let registered = session
            .query("register", &self.sql.register, &[&owner, &self.name])
            .await;
        if let Err(error) = registered {
            // Then nobody knows what this session stands for.
            standing.session = None;
            self.presence.close().await;
            return Err(error);
        }
        standing.former.extend(former);
        self.held.renamed();
        *self.owner.lock().expect("not poisoned") = owner;
        standing.session = Some(session);
        Ok(standing)
    }

    /// Whether it is time to look again for owners without leases: it reads all live events.
    async fn forgets(&self) -> bool {
        let mut standing = self.standing.lock().await;
        let due = standing.forgot.is_none_or(|last| last.elapsed() > FORGET);
        if due {
            standing.forgot = Some(Instant::now());
        }
        due
    }

    /// Gives up the names that it had before, and under which it holds nothing more.
    async fn give_up_former(&self, standing: &mut Standing) -> Result<(), StoreError> {
        let (free, kept): (Vec<Uuid>, Vec<Uuid>) = standing
            .former
            .iter()
            .partition(|name| self.held.is_free(**name));
        if let (Some(session), false) = (&standing.session, free.is_empty()) {
            session
                .query("give_up", &self.sql.give_up, &[&free])
                .await?;
            standing.former = kept;
        }
        Ok(())
    }

    /// Where a claim looks from.
    fn from(&self, reach: Reach) -> Cursor {
        let cursors = self.cursors.lock().expect("not poisoned");
        match reach {
            Reach::Oldest => START,
            Reach::Onward => cursors.onward,
            Reach::Latest => cursors.latest,
        }
    }

    /// Remembers where a claim ended: further on while there is more, and a little way back
    /// at the end, for those that commit late.
    fn move_cursors(&self, claim: &Claim, last: Option<Cursor>, more: bool) {
        let mut cursors = self.cursors.lock().expect("not poisoned");
        let onward = match claim.reach {
            Reach::Oldest => claim.ordering == Ordering::None || cursors.at_end || !more,
            Reach::Onward => true,
            Reach::Latest => false,
        };
        if onward {
            cursors.at_end = !more;
        }
        let Some(Cursor(at, sequence)) = last else {
            return;
        };
        let ended = match more {
            true => Cursor(at, sequence),
            false => Cursor(Timestamp(at.0.saturating_sub(SLACK)), 0),
        };
        cursors.latest = cursors.latest.max(ended);
        if onward {
            cursors.onward = ended;
        }
    }

    fn claimed(&self, rows: &[Row], owner: Uuid, more: bool) -> Claimed {
        let mut claimed = Claimed {
            more,
            ..Claimed::default()
        };
        let mut order = Vec::with_capacity(rows.len());
        for row in rows {
            if let Some(died) = decode::died(row) {
                claimed.died.push(died);
                continue;
            }
            let lease = decode::lease(row, owner);
            match decode::event(row, &self.table, lease) {
                Ok(event) => order.push((place(row), event)),
                Err(why) => claimed.malformed.push((lease, why)),
            }
        }
        order.sort_unstable_by_key(|(place, _)| *place);
        claimed.events = order.into_iter().map(|(_, event)| event).collect();
        claimed
    }

    /// The leases among these that the statement did not touch.
    fn lost<'l>(leases: impl Iterator<Item = &'l Lease>, touched: &[Row]) -> Vec<Lease> {
        let touched: HashSet<(Uuid, i64)> =
            touched.iter().map(|row| (row.get(0), row.get(1))).collect();
        leases
            .filter(|lease| !touched.contains(&(lease.id, lease.epoch)))
            .copied()
            .collect()
    }
}

fn place(row: &Row) -> Cursor {
    let (at, sequence) = decode::place(row);
    Cursor(at, sequence)
}

/// Sets apart what comes after a malformed event in its key: it must not overtake.
fn hold_back(claimed: &mut Claimed, rows: &[Row]) {
    let malformed: HashSet<Uuid> = claimed
        .malformed
        .iter()
        .map(|(lease, _)| lease.id)
        .collect();
    let mut first: HashMap<&str, i64> = HashMap::new();
    for row in rows.iter().filter(|row| malformed.contains(&row.get("id"))) {
        let sequence = row.get("sequence");
        if let Some(key) = row.get("ordering_key") {
            let first = first.entry(key).or_insert(sequence);
            *first = sequence.min(*first);
        }
    }
    let held_back = &mut claimed.held_back;
    claimed.events.retain(|event| {
        let key = event.ordering_key.as_deref();
        let behind = key
            .and_then(|key| first.get(key))
            .is_some_and(|first| *first < event.sequence);
        if behind {
            held_back.push(event.lease);
        }
        !behind
    });
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .unwrap_or_else(|_| "unknown host".to_owned())
}

/// The columns of a batch of leases.
struct Leases {
    owners: Vec<Uuid>,
    ids: Vec<Uuid>,
    epochs: Vec<i64>,
}

impl<'l> FromIterator<&'l Lease> for Leases {
    fn from_iter<I: IntoIterator<Item = &'l Lease>>(leases: I) -> Self {
        let mut columns = Self {
            owners: Vec::new(),
            ids: Vec::new(),
            epochs: Vec::new(),
        };
        for lease in leases {
            columns.owners.push(lease.owner);
            columns.ids.push(lease.id);
            columns.epochs.push(lease.epoch);
        }
        columns
    }
}

/// An empty list of topics means any.
fn topics(scope: &Scope) -> Option<&[String]> {
    Some(scope.topics.as_slice()).filter(|topics| !topics.is_empty())
}

#[async_trait]
impl Store for Postgres {
    fn table(&self) -> &Table {
        &self.table
    }

    fn owner(&self) -> Uuid {
        *self.owner.lock().expect("not poisoned")
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let (owner, gone) = {
            let standing = self.be_present().await?;
            let owner = self.owner();
            // The claim itself counts, so that its name is not given up meanwhile.
            self.held.take(owner, 1);
            (owner, standing.gone.iter().copied().collect())
        };
        let claimed = self.claim_as(owner, gone, claim).await;
        match &claimed {
            Ok(claimed) => self.held.take(owner, claimed.leases()),
            Err(StoreError::Unavailable(_)) => self.held.doubt(),
            Err(_) => {}
        }
        self.held.end(std::iter::once(owner));
        claimed
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Settled, StoreError> {
        let with = |wanted: fn(&Verdict) -> bool| {
            settlements
                .iter()
                .filter(move |s| wanted(&s.verdict))
                .map(|s| &s.lease)
        };
        let kept = with(|verdict| matches!(verdict, Verdict::Delivered { keep: true }));
        let deleted = with(|verdict| matches!(verdict, Verdict::Delivered { keep: false }));
        let others = settlements
            .iter()
            .filter(|s| !matches!(s.verdict, Verdict::Delivered { .. }));
        // Sent together on one connection: however mixed, a batch is one round trip.
        let (kept, deleted, others) = tokio::join!(
            self.end("deliver", &self.sql.deliver, kept),
            self.end("deliver_delete", &self.sql.deliver_delete, deleted),
            self.end_otherwise(others),
        );
        let lost = [kept?, deleted?, others?].concat();
        self.held.end(settlements.iter().map(|s| s.lease.owner));
        Ok(Settled {
            applied: settlements.len() - lost.len(),
            lost,
        })
    }

    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<Lease>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let columns: Leases = leases.iter().collect();
        let lease = lease.as_secs_f64();
        let rows = self
            .settle
            .query(
                "extend",
                &self.sql.extend,
                &[&columns.owners, &columns.ids, &columns.epochs, &lease],
            )
            .await?;
        Ok(Self::lost(leases.iter(), &rows))
    }

    async fn take_over(&self) -> Result<usize, StoreError> {
        let known: Vec<Uuid> = {
            let mut standing = self.be_present().await?;
            self.give_up_former(&mut standing).await?;
            standing.gone.iter().copied().collect()
        };
        if !known.is_empty() && self.forgets().await {
            self.ops
                .query("forget", &self.sql.forget, &[&known])
                .await?;
        }
        let rows = self
            .ops
            .query("peers", &self.sql.peers, &[&self.owner()])
            .await?;
        let gone: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        let new = gone.iter().filter(|owner| !known.contains(owner)).count();
        self.standing.lock().await.gone = gone;
        Ok(new)
    }

    async fn lead(&self) -> Result<bool, StoreError> {
        let mut standing = self.be_present().await?;
        let session = standing.session.clone().expect("present");
        let sql = match standing.leads {
            true => "select true or $1::bigint is null",
            false => "select pg_try_advisory_lock($1::bigint)",
        };
        let name = if standing.leads { "stay" } else { "lead" };
        let rows = session.query(name, sql, &[&leader_key(&self.table)]).await;
        match rows {
            Ok(rows) => {
                standing.leads = rows.first().is_some_and(|row| row.get(0));
                Ok(standing.leads)
            }
            Err(error) => {
                standing.leads = false;
                self.presence.close().await;
                Err(error)
            }
        }
    }

    async fn leave(&self) -> Result<(), StoreError> {
        let mut standing = self.standing.lock().await;
        let Some(session) = standing.session.take() else {
            return Ok(());
        };
        standing.leads = false;
        self.presence.close().await;
        let mut names = std::mem::take(&mut standing.former);
        names.push(self.owner());
        // Only those that hold no lease: otherwise others are to see that they are gone.
        let forgotten = self.ops.query("forget", &self.sql.forget, &[&names]).await;
        // Others may have its leases by now: should it come back, then as somebody else.
        *self.owner.lock().expect("not poisoned") = Uuid::new_v4();
        session
            .client()
            .batch_execute("select pg_advisory_unlock_all()")
            .await
            .map_err(classify)?;
        forgotten.map(drop)
    }

    async fn woken(&self) {
        self.woken.notified().await;
    }

    async fn clean(&self, clean: &Clean) -> Result<u64, StoreError> {
        let (name, sql) = match clean.archive {
            true => ("clean_archive", &self.sql.clean_archive),
            false => ("clean", &self.sql.clean),
        };
        self.ops
            .execute(
                name,
                sql,
                &[
                    &clean.retention.as_secs_f64(),
                    &clean
                        .dead_retention
                        .map(|retention| retention.as_secs_f64()),
                    &i64::from(clean.limit),
                ],
            )
            .await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let rows = self.ops.query("stats", &self.sql.stats, &[]).await?;
        let row = rows.first().expect("stats has one row");
        let count = |column| row.get::<_, i64>(column).unsigned_abs();
        Ok(Stats {
            pending: count("pending"),
            processing: count("processing"),
            dead: count("dead"),
            stuck: count("stuck"),
            oldest_pending: Duration::try_from_secs_f64(row.get("oldest_pending"))
                .unwrap_or_default(),
        })
    }

    async fn list(&self, filter: &Filter, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.records(filter, None, limit).await
    }

    async fn show(&self, id: Uuid) -> Result<Option<Record>, StoreError> {
        let records = self.records(&Filter::default(), Some(vec![id]), 1).await?;
        Ok(records.into_iter().next())
    }

    async fn redeliver(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError> {
        self.act("redeliver", &self.sql.redeliver, ids, act).await
    }

    async fn discard(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError> {
        self.act("discard", &self.sql.discard, ids, act).await
    }
}

impl Postgres {
    async fn claim_as(
        &self,
        owner: Uuid,
        gone: Vec<Uuid>,
        claim: &Claim,
    ) -> Result<Claimed, StoreError> {
        let gone = match claim.reach {
            Reach::Oldest => gone,
            Reach::Onward | Reach::Latest => Vec::new(),
        };
        let from = self.from(claim.reach);
        let limit = i64::from(claim.limit);
        let lease = claim.lease.as_secs_f64();
        let max_attempts = i32::try_from(claim.max_attempts).unwrap_or(i32::MAX);
        let topics = topics(&claim.scope);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            &limit,
            &lease,
            &owner,
            &max_attempts,
            &claim.scope.namespace,
            &topics,
            &claim.scope.tenant_id,
            &claim.except_topics,
            &from.0,
            &from.1,
            &gone,
        ];
        let Ordering::Key(on_failure) = claim.ordering else {
            let rows = self.claim.query("claim", &self.sql.claim, &params).await?;
            let more = rows.len() as i64 >= limit;
            self.move_cursors(claim, rows.iter().map(place).max(), more);
            return Ok(self.claimed(&rows, owner, more));
        };
        let look = limit * i64::from(LOOK);
        let on_failure = match on_failure {
            OnFailure::Block => "block",
            OnFailure::Park => "park",
            OnFailure::Skip => "skip",
        };
        params.extend([&look as &(dyn ToSql + Sync), &on_failure]);
        let mut rows = self
            .claim
            .query("claim_keyed", &self.sql.claim_keyed, &params)
            .await?;
        let looked_at: i64 = rows.first().map_or(0, |row| row.get("looked_at"));
        let last_seen = rows.first().and_then(|row| {
            let at: Option<Timestamp> = row.get("last_at");
            Some(Cursor(at?, row.get("last_sequence")))
        });
        rows.retain(decode::is_event);
        let full = rows.len() as i64 >= limit;
        let more = full || looked_at >= look;
        let last = match full {
            true => rows.iter().map(place).max(),
            false => last_seen,
        };
        self.move_cursors(claim, last, more);
        let mut claimed = self.claimed(&rows, owner, more);
        // Within a key the sequence decides, also over which was due first after a retry.
        claimed.events.sort_by_key(|event| event.sequence);
        if on_failure != "skip" {
            hold_back(&mut claimed, &rows);
        }
        Ok(claimed)
    }

    async fn end<'l>(
        &self,
        name: &'static str,
        sql: &str,
        leases: impl Iterator<Item = &'l Lease> + Clone,
    ) -> Result<Vec<Lease>, StoreError> {
        let columns: Leases = leases.clone().collect();
        if columns.ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self
            .settle
            .query(name, sql, &[&columns.owners, &columns.ids, &columns.epochs])
            .await?;
        match rows.len() == columns.ids.len() {
            true => Ok(Vec::new()),
            false => Ok(Self::lost(leases, &rows)),
        }
    }

    async fn end_otherwise<'s>(
        &self,
        settlements: impl Iterator<Item = &'s Settlement> + Clone,
    ) -> Result<Vec<Lease>, StoreError> {
        let leases: Leases = settlements.clone().map(|s| &s.lease).collect();
        if leases.ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut verdicts = Vec::new();
        let mut delays = Vec::new();
        let mut reasons = Vec::new();
        let mut errors = Vec::new();
        for settlement in settlements.clone() {
            let (verdict, delay, reason, error) = match &settlement.verdict {
                Verdict::Retry { delay, error } => {
                    ("retry", delay.as_secs_f64(), None, Some(error))
                }
                Verdict::Dead { reason, error } => {
                    ("dead", 0.0, Some(reason.as_str()), Some(error))
                }
                Verdict::Release | Verdict::Delivered { .. } => ("release", 0.0, None, None),
            };
            verdicts.push(verdict);
            delays.push(delay);
            reasons.push(reason);
            errors.push(error.map(|text| text.replace('\0', "\u{fffd}")));
        }
        let rows = self
            .settle
            .query(
                "settle",
                &self.sql.settle,
                &[
                    &leases.owners,
                    &leases.ids,
                    &leases.epochs,
                    &verdicts,
                    &delays,
                    &reasons,
                    &errors,
                ],
            )
            .await?;
        Ok(Self::lost(settlements.map(|s| &s.lease), &rows))
    }

    async fn records(
        &self,
        filter: &Filter,
        ids: Option<Vec<Uuid>>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let rows = self
            .ops
            .query(
                "list",
                &self.sql.list,
                &[
                    &filter.scope.namespace,
                    &topics(&filter.scope),
                    &filter.scope.tenant_id,
                    &filter.status.map(|status| status.as_str()),
                    &filter.after,
                    &ids,
                    &i64::from(limit),
                ],
            )
            .await?;
        Ok(rows.iter().map(decode::record).collect())
    }

    async fn act(
        &self,
        name: &'static str,
        sql: &str,
        ids: &[Uuid],
        act: &Act,
    ) -> Result<Vec<Uuid>, StoreError> {
        let rows = self
            .ops
            .query(name, sql, &[&ids, &act.actor, &act.why])
            .await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

/// The same for every version of every relay of this table: FNV-1a of its name.
fn leader_key(table: &Table) -> i64 {
    let hash = format!("outbox:{table}")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    i64::from_be_bytes(hash.to_be_bytes())
}
