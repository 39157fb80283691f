//! One connection that mends itself: connected on first use, again after it broke.
//!
//! The relay's statements run on connections of its own, never on a borrowed one, so that
//! session settings, prepared statements and session locks are where they belong.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Config, Row, Statement};

use super::connect::{self, Connector};
use crate::enqueue::EnqueueError;
use crate::schema::SchemaError;
use crate::store::StoreError;

/// One round trip that takes longer than this is given up, and its connection with it. A dead
/// connection is noticed sooner (`tcp_user_timeout`); this is for a server that never answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it may be doubled: up to a quarter of an hour.
const DOUBLINGS: u32 = 4;
/// For so long, and no longer, what is not asked again makes all others of its connection as patient.
const MEMORY: Duration = Duration::from_secs(60 * 60);

pub(super) struct Link {
    patience: Duration,
    /// How many sessions in a row ended because this statement was not answered in time, and when the last one did.
    unanswered: std::sync::Mutex<HashMap<&'static str, (u32, Instant)>>,
    config: Config,
    connector: Connector,
    setup: &'static str,
    session: Mutex<Option<Arc<Session>>>,
    /// Who is woken by a notification with this text.
    listener: (Arc<str>, Arc<Notify>),
}

/// One life of a connection.
pub(super) struct Session {
    client: Client,
    statements: Mutex<HashMap<&'static str, Statement>>,
}

impl Link {
    pub(super) fn new(
        config: Config,
        connector: Connector,
        setup: &'static str,
        listener: (Arc<str>, Arc<Notify>),
    ) -> Self {
        Self {
            patience: PATIENCE,
            unanswered: std::sync::Mutex::default(),
            config,
            connector,
            setup,
            session: Mutex::new(None),
            listener,
        }
    }

    /// The session, or a new one if there is none or it broke. That it worked before is why a log-in
    /// that is refused now, be it for a new password or a server that is starting, may pass: whoever
    /// wants to settle must not take it for a word about what is to be settled.
    pub(super) async fn session(&self) -> Result<Arc<Session>, StoreError> {
        self.connect().await.map_err(|error| match error {
            StoreError::Refused(said) => StoreError::Unavailable(said),
            other => other,
        })
    }

    /// The same, and tells a refusal as what it is.
    pub(super) async fn connect(&self) -> Result<Arc<Session>, StoreError> {
        let mut slot = self.session.lock().await;
        if let Some(session) = slot.as_ref().filter(|session| session.is_alive()) {
            return Ok(session.clone());
        }
        *slot = None;
        let session = Arc::new(in_time(self.patience, self.open()).await?);
        *slot = Some(session.clone());
        Ok(session)
    }

    /// Ends the session, if there is one.
    pub(super) async fn close(&self) {
        *self.session.lock().await = None;
    }

    /// Runs a named statement. After any failure the session is not used again: whatever
    /// it was, a fresh one starts from a known state.
    pub(super) async fn query(
        &self,
        name: &'static str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let session = self.session().await?;
        self.query_on(&session, name, sql, params).await
    }

    /// Runs a named statement on a session that stands for something; it ends with any failure.
    pub(super) async fn query_on(
        &self,
        session: &Arc<Session>,
        name: &'static str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let asked = Instant::now();
        let result = in_time(self.patience(), session.query(name, sql, params)).await;
        self.end_after(session, name, asked, result).await
    }

    /// The same for a question that the server is to give up after a while: others wait behind it.
    pub(super) async fn query_within(
        &self,
        limit: Duration,
        name: &'static str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let session = self.session().await?;
        let asked = Instant::now();
        let question = session.query_within(limit, name, sql, params);
        let result = in_time(self.patience(), question).await;
        let result = self.end_after(&session, name, asked, result).await;
        result.map_err(slow)
    }

    async fn end_after<T>(
        &self,
        session: &Arc<Session>,
        name: &'static str,
        asked: Instant,
        result: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let silence = result.as_ref().is_err_and(is_silence);
        // What has only just come to its end will take as long the next time.
        let is_quick = asked.elapsed() < self.patience;
        if is_quick && result.as_ref().err().is_none_or(is_answer) {
            self.unanswered().remove(name);
        }
        if result.is_err() {
            if silence {
                self.cancel(session);
            }
            let mut slot = self.session.lock().await;
            let ended = slot.take_if(|current| Arc::ptr_eq(current, session));
            if silence && ended.is_some() {
                let mut unanswered = self.unanswered();
                let sessions = unanswered.get(name).map_or(1, |(before, _)| before + 1);
                unanswered.insert(name, (sessions, Instant::now()));
            }
        }
        result
    }

    /// How long a statement may take. A server that takes sessions and does not answer in time is slow, not gone:
    /// the next session gives it twice as long, or what takes that long would never be done. Others that were
    /// answered meanwhile say nothing about it; and those that wait behind it have as long.
    fn patience(&self) -> Duration {
        let unanswered = self.unanswered();
        let doublings = unanswered.values().map(|(sessions, _)| *sessions).max();
        self.patience * 2_u32.pow(doublings.unwrap_or_default().min(DOUBLINGS))
    }

    fn unanswered(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, (u32, Instant)>> {
        let mut unanswered = self.unanswered.lock().expect("not poisoned");
        unanswered.retain(|_, (_, last)| last.elapsed() < MEMORY);
        unanswered
    }

    /// Has the server stop what nobody waits for any more: it does not notice before it is done with it.
    fn cancel(&self, session: &Session) {
        let (token, connector) = (session.client.cancel_token(), self.connector.clone());
        let patience = self.patience;
        tokio::spawn(async move {
            let cancelled = tokio::time::timeout(patience, token.cancel_query(connector)).await;
            if !matches!(cancelled, Ok(Ok(()))) {
                tracing::debug!("a statement without an answer could not be cancelled");
            }
        });
    }

    /// Runs a named statement that answers with no rows. Gives back how many it touched.
    pub(super) async fn execute(
        &self,
        name: &'static str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        let session = self.session().await?;
        let asked = Instant::now();
        let result = in_time(self.patience(), session.execute(name, sql, params)).await;
        self.end_after(&session, name, asked, result).await
    }

    async fn open(&self) -> Result<Session, StoreError> {
        let (client, mut connection) = connect::open(&self.config, &self.connector).await?;
        let (wakes, woken) = self.listener.clone();
        tokio::spawn(async move {
            while let Some(message) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                match message {
                    Ok(AsyncMessage::Notification(note)) if note.payload() == &*wakes => {
                        woken.notify_one();
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a connection ended");
                        break;
                    }
                }
            }
        });
        client.batch_execute(self.setup).await.map_err(classify)?;
        Ok(Session {
            client,
            statements: Mutex::new(HashMap::new()),
        })
    }
}

impl Session {
    pub(super) fn is_alive(&self) -> bool {
        !self.client.is_closed()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    async fn query(
        &self,
        name: &'static str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepared(name, sql).await?;
        self.client
            .query(&statement, params)
            .await
            .map_err(classify)
    }

    async fn query_within(
        &self,
        limit: Duration,
        name: &'static str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        // To prepare it may take long, too: whoever locks the table holds it up.
        let statement = self.within(limit, self.prepared(name, sql)).await?;
        let answer = async {
            let rows = self.client.query(&statement, params).await;
            rows.map_err(classify)
        };
        self.within(limit, answer).await
    }

    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let set = format!("set statement_timeout = {}", limit.as_millis());
        // All three are sent, in this order, before any is waited for: whoever gives up meanwhile leaves no
        // limit behind.
        let (set, done, reset) = tokio::join!(
            biased;
            self.client.batch_execute(&set),
            work,
            self.client.batch_execute("set statement_timeout = 0"),
        );
        set.map_err(classify)?;
        let done = done?;
        reset.map_err(classify)?;
        Ok(done)
    }

    async fn execute(
        &self,
        name: &'static str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        let statement = self.prepared(name, sql).await?;
        self.client
            .execute(&statement, params)
            .await
            .map_err(classify)
    }

    async fn prepared(&self, name: &'static str, sql: &str) -> Result<Statement, StoreError> {
        let mut statements = self.statements.lock().await;
        if let Some(statement) = statements.get(name) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await.map_err(classify)?;
        statements.insert(name, statement.clone());
        Ok(statement)
    }
}

async fn in_time<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(patience, work).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Unavailable(Box::new(Silence(patience)))),
    }
}

/// The server did not answer.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs())]
struct Silence(Duration);

fn is_silence(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(said) if said.is::<Silence>())
}

/// Whether the server said what is wrong with a statement, and not only that it stopped it.
fn is_answer(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable(said) | StoreError::Refused(said) | StoreError::Denied(said) => {
            let said: Option<&ServerError> = said.downcast_ref();
            said.is_some_and(|said| said.code != SqlState::QUERY_CANCELED.code())
        }
        _ => false,
    }
}

/// What the server said, without its details: those may quote a row, and with it a payload.
#[derive(Debug, thiserror::Error)]
#[error("{message} (SQLSTATE {code})")]
struct ServerError {
    code: String,
    message: String,
}

/// Whether trying again may help.
pub(super) fn classify(error: tokio_postgres::Error) -> StoreError {
    let passing = is_passing(&error);
    let Some(server) = error.as_db_error() else {
        return StoreError::Unavailable(error.into());
    };
    let state = server.code();
    let said = Box::new(ServerError {
        code: state.code().to_owned(),
        message: server.message().to_owned(),
    });
    match passing {
        true => StoreError::Unavailable(said),
        false if *state == SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Denied(said),
        false => StoreError::Refused(said),
    }
}

fn is_passing(error: &tokio_postgres::Error) -> bool {
    // Connection exceptions, transaction rollbacks, insufficient resources, operator intervention, errors of
    // the system and of the server itself, and a server that was a primary and is one no more.
    let passing = ["08", "40", "53", "57", "58", "XX", "25006", "55P03"];
    error
        .code()
        .is_none_or(|state| passing.iter().any(|it| state.code().starts_with(it)))
}

/// The same for what a look at the schema met: a connection that was lost says nothing about the schema.
pub(crate) fn of_schema(error: SchemaError) -> StoreError {
    let SchemaError::Database { table, source } = error else {
        return error.into();
    };
    let source: Box<dyn std::error::Error + Send + Sync> =
        match source.downcast::<tokio_postgres::Error>() {
            Ok(said) if is_passing(&said) => return classify(*said),
            Ok(said) => said,
            Err(other) => other,
        };
    SchemaError::Database { table, source }.into()
}

/// The same for what was to be enqueued.
pub(super) fn of_enqueue(error: EnqueueError) -> EnqueueError {
    match error {
        EnqueueError::Database(said) => match said.downcast::<tokio_postgres::Error>() {
            Ok(said) => EnqueueError::database(classify(*said)),
            Err(other) => EnqueueError::Database(other),
        },
        error => error,
    }
}

/// A refusal as one of what was to be settled, unless it is about the table. One that is not there, or that somebody
/// changes, may be there again: what was delivered must not be delivered once more for it. All else may be about one
/// event, as a trigger refuses with any code that it likes: the others must not wait for it.
pub(super) fn of_settlements(error: StoreError) -> StoreError {
    // A statement that was prepared for another structure, a transaction or an object in the wrong state; tables, columns,
    // types and functions that are not there; something else by that name.
    let of_structure = |said: &ServerError| {
        [
            "0A", "25", "26", "3F", "55", "42P01", "42703", "42704", "42883", "42809", "42P05",
        ]
        .iter()
        .any(|class| said.code.starts_with(class))
    };
    match error {
        StoreError::Refused(said) if said.downcast_ref().is_some_and(of_structure) => {
            StoreError::Unavailable(said)
        }
        error => error,
    }
}

/// Tells a question that took too long (`statement_timeout`) from a database that is away.
fn slow(error: StoreError) -> StoreError {
    let canceled = |said: &ServerError| said.code == SqlState::QUERY_CANCELED.code();
    match error {
        StoreError::Unavailable(said) if said.downcast_ref().is_some_and(canceled) => {
            StoreError::Slow(said)
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::server::postgres_url;
    use uuid::Uuid;

    use super::*;

    fn link(config: Config) -> Link {
        let connector = connect::connector().unwrap();
        Link::new(config, connector, "", (Arc::from(""), Arc::default()))
    }

    #[tokio::test]
    async fn what_takes_long_is_given_twice_as_long_the_next_time() {
        let mut impatient = link(postgres_url().parse().unwrap());
        impatient.patience = Duration::from_millis(200);
        let mut tries = 0;
        // However slow the machine is, the first two tries are too short.
        while let Err(error) = impatient
            .query("sleep", "select pg_sleep(0.5)::text", &[])
            .await
        {
            assert!(is_silence(&error), "{error}");
            tries += 1;
            assert!(tries < 10);
            // What else is asked meanwhile, and answered, takes nothing away.
            let _ = impatient.query("one", "select 1", &[]).await;
        }
        assert!(tries >= 2, "{tries}");
        // It takes as long the next time. What is quick again needs no such patience.
        assert!(impatient.patience() > impatient.patience);
        impatient.close().await;
        for name in ["sleep", "one"] {
            let mut tries = 0;
            let asked = async || impatient.query(name, "select 1", &[]).await;
            while asked().await.is_err() || impatient.unanswered().contains_key(name) {
                tries += 1;
                assert!(tries < 10);
            }
        }
        assert_eq!(impatient.patience(), impatient.patience);
    }

    #[tokio::test]
    async fn what_waits_behind_it_does_not_cut_it_short() {
        let mut impatient = link(postgres_url().parse().unwrap());
        impatient.patience = Duration::from_millis(200);
        let behind = async || {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let _ = impatient.query("one", "select 1", &[]).await;
        };
        for tries in 0.. {
            assert!(tries < 10);
            let slept = impatient.query("sleep", "select pg_sleep(0.5)::text", &[]);
            let (slept, ()) = tokio::join!(slept, behind());
            if slept.is_ok() {
                break;
            }
        }
    }

    // As a look for a destination that was down, which is asked of no database that is well.
    #[test]
    fn what_is_not_asked_again_makes_others_patient_for_an_hour_and_no_longer() {
        let link = link(Config::new());
        let silent = |since: Duration| (3, Instant::now().checked_sub(since).unwrap());
        link.unanswered().insert("claim aside", silent(MEMORY / 2));
        assert_eq!(link.patience(), link.patience * 8);
        link.unanswered().insert("claim aside", silent(MEMORY * 2));
        assert_eq!(link.patience(), link.patience);
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_cancelled() {
        let name = format!("impatient-{}", Uuid::new_v4().simple());
        let mut config: Config = postgres_url().parse().unwrap();
        config.application_name(&name);
        let mut impatient = link(config.clone());
        impatient.patience = Duration::from_secs(3);
        let asked = impatient
            .query("sleep", "select pg_sleep(600)::text", &[])
            .await;
        assert!(is_silence(&asked.unwrap_err()));
        config.application_name("witness");
        let witness = link(config);
        let look = "select 1 from pg_stat_activity where application_name = $1";
        let asleep = async || {
            let rows = witness.query("look", look, &[&name]).await;
            !rows.unwrap().is_empty()
        };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while asleep().await {
            assert!(tokio::time::Instant::now() < deadline, "it still sleeps");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // And it goes on as if nothing had been.
        let rows = impatient.query("one", "select 1", &[]).await.unwrap();
        assert_eq!(rows[0].get::<_, i32>(0), 1);
    }
}
