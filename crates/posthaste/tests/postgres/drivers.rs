//! Every driver that can enqueue, behind one small trait: a test is a script of steps in one
//! transaction, and a driver knows how to play it.
//!
//! A new driver is an `impl Driver` here and a line in `for_every_driver!`.

use std::sync::Arc;

use posthaste::{EnqueueError, Inbox, InboxError, Message, Once, Outbox, Receipt};
use tokio::sync::Notify;
use uuid::Uuid;

/// What happens in one transaction.
#[derive(Default)]
pub struct Script {
    steps: Vec<Step>,
    rolls_back: bool,
}

enum Step {
    Enqueue(Outbox, Box<Message>),
    EnqueueAll(Outbox, Vec<Message>),
    Once(Inbox, &'static str, Uuid),
    Sql(String),
    Tell(Arc<Notify>),
    Wait(Arc<Notify>),
}

/// What the steps answered, in order.
#[derive(Debug, Default)]
pub struct Played {
    pub receipts: Vec<Result<Vec<Receipt>, EnqueueError>>,
    pub once: Vec<Result<Once, InboxError>>,
}

impl Script {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn enqueue(self, outbox: &Outbox, message: Message) -> Self {
        self.with(Step::Enqueue(outbox.clone(), Box::new(message)))
    }

    pub fn enqueue_all(self, outbox: &Outbox, messages: Vec<Message>) -> Self {
        self.with(Step::EnqueueAll(outbox.clone(), messages))
    }

    pub fn once(self, inbox: &Inbox, consumer: &'static str, event: Uuid) -> Self {
        self.with(Step::Once(inbox.clone(), consumer, event))
    }

    pub fn sql(self, sql: impl Into<String>) -> Self {
        self.with(Step::Sql(sql.into()))
    }

    pub fn tell(self, whom: &Arc<Notify>) -> Self {
        self.with(Step::Tell(whom.clone()))
    }

    pub fn wait(self, for_what: &Arc<Notify>) -> Self {
        self.with(Step::Wait(for_what.clone()))
    }

    /// Rolls back at the end. Otherwise it commits.
    pub fn roll_back(mut self) -> Self {
        self.rolls_back = true;
        self
    }

    fn with(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

impl Played {
    /// The receipt of the only message of the only enqueue.
    pub fn receipt(mut self) -> Receipt {
        let receipts = self.receipts.remove(0).expect("enqueued");
        assert_eq!((receipts.len(), self.receipts.len()), (1, 0));
        receipts[0]
    }

    /// The receipts of the only enqueue.
    pub fn all(mut self) -> Vec<Receipt> {
        assert_eq!(self.receipts.len(), 1);
        self.receipts.remove(0).expect("enqueued")
    }
}

/// A connection of some driver.
pub trait Driver: Sized {
    async fn connect(url: &str) -> Self;

    /// Plays the script in one transaction.
    async fn play(&mut self, script: Script) -> Played;
}

/// The steps, on whatever `$transaction` gives for each of them.
macro_rules! steps {
    ($steps:expr, $transaction:expr, |$sql:ident| $run:expr) => {{
        let mut played = Played::default();
        for step in $steps {
            match step {
                Step::Enqueue(outbox, message) => {
                    let receipt = outbox.enqueue($transaction, &message).await;
                    played.receipts.push(receipt.map(|receipt| vec![receipt]));
                }
                Step::EnqueueAll(outbox, messages) => {
                    let receipts = outbox.enqueue_all($transaction, &messages).await;
                    played.receipts.push(receipts);
                }
                Step::Once(inbox, consumer, event) => {
                    played
                        .once
                        .push(inbox.once($transaction, consumer, event).await);
                }
                Step::Sql($sql) => drop($run.await.expect("the statement of a test")),
                Step::Tell(whom) => whom.notify_one(),
                Step::Wait(for_what) => for_what.notified().await,
            }
        }
        played
    }};
}

/// The end of a transaction, where it is a value with `commit` and `rollback`.
macro_rules! end {
    ($transaction:expr, $rolls_back:expr) => {
        match $rolls_back {
            true => $transaction.rollback().await.expect("a rollback"),
            false => $transaction.commit().await.expect("a commit"),
        }
    };
}

pub struct TokioPostgres(tokio_postgres::Client);

impl Driver for TokioPostgres {
    async fn connect(url: &str) -> Self {
        Self(posthaste_testkit::outbox::connect(url).await)
    }

    async fn play(&mut self, script: Script) -> Played {
        let transaction = self.0.transaction().await.expect("a transaction");
        let played = steps!(script.steps, &transaction, |sql| transaction
            .batch_execute(&sql));
        end!(transaction, script.rolls_back);
        played
    }
}

#[cfg(feature = "deadpool")]
pub struct Deadpool(deadpool_postgres::Pool);

#[cfg(feature = "deadpool")]
impl Driver for Deadpool {
    async fn connect(url: &str) -> Self {
        let config = url.parse().expect("an address");
        let manager = deadpool_postgres::Manager::new(config, tokio_postgres::NoTls);
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(1)
            .build();
        Self(pool.expect("a pool"))
    }

    async fn play(&mut self, script: Script) -> Played {
        let mut client = self.0.get().await.expect("a connection");
        let transaction = client.transaction().await.expect("a transaction");
        let played = steps!(script.steps, &transaction, |sql| transaction
            .batch_execute(&sql));
        end!(transaction, script.rolls_back);
        played
    }
}

#[cfg(feature = "sqlx")]
pub struct Sqlx(sqlx::PgConnection);

#[cfg(feature = "sqlx")]
impl Driver for Sqlx {
    async fn connect(url: &str) -> Self {
        let connection = <sqlx::PgConnection as sqlx::Connection>::connect(url).await;
        Self(connection.expect("a connection"))
    }

    async fn play(&mut self, script: Script) -> Played {
        use sqlx::{AssertSqlSafe, Connection, Executor};

        let mut transaction = self.0.begin().await.expect("a transaction");
        let played = steps!(script.steps, &mut transaction, |sql| transaction
            .execute(sqlx::raw_sql(AssertSqlSafe(sql))));
        end!(transaction, script.rolls_back);
        played
    }
}

#[cfg(feature = "diesel-async")]
pub struct Diesel(diesel_async::AsyncPgConnection);

#[cfg(feature = "diesel-async")]
impl Driver for Diesel {
    async fn connect(url: &str) -> Self {
        use diesel_async::AsyncConnection;

        let connection = diesel_async::AsyncPgConnection::establish(url).await;
        Self(connection.expect("a connection"))
    }

    async fn play(&mut self, script: Script) -> Played {
        use diesel_async::{AnsiTransactionManager, SimpleAsyncConnection, TransactionManager};

        let connection = &mut self.0;
        let begun = AnsiTransactionManager::begin_transaction(connection).await;
        begun.expect("a transaction");
        let played = steps!(script.steps, &mut *connection, |sql| connection
            .batch_execute(&sql));
        let ended = match script.rolls_back {
            true => AnsiTransactionManager::rollback_transaction(connection).await,
            false => AnsiTransactionManager::commit_transaction(connection).await,
        };
        ended.expect("the end of a transaction");
        played
    }
}

#[cfg(feature = "sea-orm")]
pub struct SeaOrm(sea_orm::DatabaseConnection);

#[cfg(feature = "sea-orm")]
impl Driver for SeaOrm {
    async fn connect(url: &str) -> Self {
        let mut options = sea_orm::ConnectOptions::new(url);
        options.max_connections(1).sqlx_logging(false);
        Self(
            sea_orm::Database::connect(options)
                .await
                .expect("a connection"),
        )
    }

    async fn play(&mut self, script: Script) -> Played {
        use sea_orm::{ConnectionTrait, TransactionTrait};

        let transaction = self.0.begin().await.expect("a transaction");
        let played = steps!(script.steps, &transaction, |sql| transaction
            .execute_unprepared(&sql));
        end!(transaction, script.rolls_back);
        played
    }
}

/// Makes a test of each scenario for each driver.
macro_rules! for_every_driver {
    ($($scenario:ident),+ $(,)?) => {
        crate::drivers::for_driver!(with_tokio_postgres, TokioPostgres, $($scenario),+);
        #[cfg(feature = "deadpool")]
        crate::drivers::for_driver!(with_deadpool, Deadpool, $($scenario),+);
        #[cfg(feature = "sqlx")]
        crate::drivers::for_driver!(with_sqlx, Sqlx, $($scenario),+);
        #[cfg(feature = "diesel-async")]
        crate::drivers::for_driver!(with_diesel, Diesel, $($scenario),+);
        #[cfg(feature = "sea-orm")]
        crate::drivers::for_driver!(with_sea_orm, SeaOrm, $($scenario),+);
    };
}

macro_rules! for_driver {
    ($name:ident, $driver:ident, $($scenario:ident),+) => {
        mod $name {
            $(
                #[tokio::test]
                async fn $scenario() {
                    super::$scenario::<crate::drivers::$driver>().await;
                }
            )+
        }
    };
}

pub(crate) use {for_driver, for_every_driver};
