//! Presence: which owner this store is, which others are gone, and who leads.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::MutexGuard;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Postgres;
use super::link::Session;
use crate::store::{Store, StoreError};
use crate::table::Table;

/// How often to look for owners that are gone and without leases, and how long that may take: it reads all
/// live events. It takes at most this part of the time.
const FORGET: Duration = Duration::from_secs(2);
const FORGETTING: Duration = Duration::from_secs(3);
const FORGETTING_SHARE: u32 = 20;
/// For how long after a sign of life it certainly is not gone. The server, which decides that, waits for twice as
/// long (`session_presence.sql`).
const CERTAIN: Duration = Duration::from_secs(5);

/// What this store's own session stands for, and what it knows of others.
#[derive(Default)]
pub(super) struct Standing {
    session: Option<Arc<Session>>,
    /// Whether the owner's id was ever told to the database: it stands for one session only.
    told: bool,
    leads: bool,
    /// Names that it had before in this session, and has not given up yet.
    former: Vec<Uuid>,
    pub(super) gone: HashSet<Uuid>,
    forgetting: Forgetting,
}

/// When to look next for those that hold no lease any more. `None`: somebody is at it.
#[derive(Clone)]
struct Forgetting(Arc<std::sync::Mutex<Option<Instant>>>);

impl Default for Forgetting {
    fn default() -> Self {
        Self(Arc::new(std::sync::Mutex::new(Some(Instant::now()))))
    }
}

impl Forgetting {
    fn next(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.0.lock().expect("not poisoned")
    }

    fn begins(&self) -> bool {
        let mut next = self.next();
        let begins = next.is_some_and(|next| next <= Instant::now());
        if begins {
            *next = None;
        }
        begins
    }

    fn ended(&self, took: Duration) {
        *self.next() = Some(Instant::now() + FORGET.max(took * FORGETTING_SHARE));
    }
}

impl Postgres {
    /// Is known to other relays as an owner, for as long as its session lives. If that
    /// session broke, what it had leased may be with others by now; if a claim's answer got lost,
    /// it may have leased what it knows nothing of: either way it goes on as a new owner.
    pub(super) async fn be_present(&self) -> Result<MutexGuard<'_, Standing>, StoreError> {
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
                if std::mem::take(&mut standing.told) {
                    // Before it is connected again: others may have what it had by now.
                    self.rename(Uuid::new_v4());
                }
                self.presence.session().await?
            }
        };
        let owner = match standing.told {
            true => Uuid::new_v4(),
            false => self.owner(),
        };
        standing.told = true;
        // Not present until it is known: whoever waits for this may give up at any time.
        standing.session = None;
        let params: [&(dyn ToSql + Sync); 2] = [&owner, &self.name];
        let sent = Instant::now();
        self.presence
            .query_on(&session, "register", &self.sql.register, &params)
            .await?;
        standing.former.extend(former);
        self.held.renamed();
        self.rename(owner);
        self.gave_sign(&session, sent);
        standing.session = Some(session);
        Ok(standing)
    }

    /// The server has heard from this session, and answered, after this was sent.
    fn gave_sign(&self, session: &Arc<Session>, sent: Instant) {
        *self.sign.lock().expect("not poisoned") = Some((session.clone(), sent));
    }

    /// Whether others cannot think that it is gone.
    pub(super) fn is_certainly_present(&self) -> bool {
        let sign = self.sign.lock().expect("not poisoned");
        sign.as_ref()
            .is_some_and(|(session, sent)| session.is_alive() && sent.elapsed() < CERTAIN)
    }

    fn rename(&self, owner: Uuid) {
        *self.owner.lock().expect("not poisoned") = owner;
    }

    /// Runs a statement on the session of a store that is present. Should that fail, nobody knows what the
    /// session stands for, and it ends.
    async fn ask(
        &self,
        standing: &mut Standing,
        name: &'static str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let session = standing.session.clone().expect("present");
        let sent = Instant::now();
        let answer = self.presence.query_on(&session, name, sql, params).await;
        match answer {
            Ok(_) => self.gave_sign(&session, sent),
            Err(_) => {
                standing.session = None;
                standing.leads = false;
            }
        }
        answer
    }

    /// Forgets those of these owners that hold no lease any more. Nobody waits for it: it may take long, and
    /// nothing depends on it.
    fn forget(&self, forgetting: &Forgetting, owners: Vec<Uuid>) {
        if owners.is_empty() || !forgetting.begins() {
            return;
        }
        let (ops, sql) = (self.ops.clone(), self.sql.forget.clone());
        let forgetting = forgetting.clone();
        tokio::spawn(async move {
            let began = Instant::now();
            let forgotten = ops
                .query_within(FORGETTING, "forget", &sql, &[&owners])
                .await;
            if let Err(error) = forgotten {
                tracing::debug!(
                    code = error.code(),
                    "owners that are gone stay known: {error}"
                );
            }
            forgetting.ended(began.elapsed());
        });
    }

    /// Gives up the names that it had before, and under which it holds nothing more.
    async fn give_up_former(&self, standing: &mut Standing) -> Result<(), StoreError> {
        let (free, kept): (Vec<Uuid>, Vec<Uuid>) = standing
            .former
            .iter()
            .partition(|name| self.held.is_free(**name));
        if !free.is_empty() {
            self.ask(standing, "give_up", &self.sql.give_up, &[&free])
                .await?;
            standing.former = kept;
        }
        Ok(())
    }

    /// Looks for owners that are gone. Gives back how many are new.
    pub(super) async fn find_gone(&self) -> Result<usize, StoreError> {
        let mut standing = self.be_present().await?;
        self.give_up_former(&mut standing).await?;
        let owner = self.owner();
        // On the session that stands for it: its answer is the sign that others still see it.
        let rows = self
            .ask(&mut standing, "peers", &self.sql.peers, &[&owner])
            .await?;
        // A name of its own that went with a session is not gone while it is about to settle what it held.
        let gone: HashSet<Uuid> = rows
            .iter()
            .map(|row| row.get(0))
            .filter(|owner| self.held.is_free(*owner))
            .collect();
        let (known, new): (Vec<Uuid>, Vec<Uuid>) = gone
            .iter()
            .partition(|owner| standing.gone.contains(*owner));
        standing.gone = gone;
        self.forget(&standing.forgetting, known);
        Ok(new.len())
    }

    /// Takes, or confirms, the lock of the one active relay.
    pub(super) async fn become_leader(&self) -> Result<bool, StoreError> {
        let mut standing = self.be_present().await?;
        let (name, sql) = match standing.leads {
            true => ("stay", "select true or $1::bigint is null"),
            false => ("lead", "select pg_try_advisory_lock($1::bigint)"),
        };
        let key = leader_key(&self.table);
        let rows = self.ask(&mut standing, name, sql, &[&key]).await?;
        standing.leads = rows.first().is_some_and(|row| row.get(0));
        Ok(standing.leads)
    }

    /// Ends its presence at once.
    pub(super) async fn be_gone(&self) -> Result<(), StoreError> {
        let mut standing = self.standing.lock().await;
        let session = standing.session.take();
        standing.leads = false;
        self.held.let_go();
        // Also one of which nobody knows what it stands for: whoever was about to register gave up.
        self.presence.close().await;
        let mut names = std::mem::take(&mut standing.former);
        names.push(self.owner());
        // Others may have its leases by now: should it come back, then as somebody else.
        self.rename(Uuid::new_v4());
        let Some(session) = session else {
            return Ok(());
        };
        // Only those that hold no lease: otherwise others are to see that they are gone.
        let forgotten = self
            .ops
            .query_within(FORGETTING, "forget", &self.sql.forget, &[&names])
            .await;
        self.presence
            .query_on(&session, "leave", "select pg_advisory_unlock_all()", &[])
            .await?;
        match forgotten {
            // Others forget them.
            Err(StoreError::Slow(_)) => Ok(()),
            forgotten => forgotten.map(drop),
        }
    }
}

/// The same for every version of every relay of this table: FNV-1a of its name.
pub(super) fn leader_key(table: &Table) -> i64 {
    let hash = format!("outbox:{table}")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    i64::from_be_bytes(hash.to_be_bytes())
}
