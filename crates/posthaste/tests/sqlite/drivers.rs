//! Both drivers for SQLite, behind one small trait: what happens in one transaction.

use posthaste::{EnqueueError, Inbox, InboxError, Message, Once, Outbox, Receipt};
use posthaste_testkit::file::FreshFile;
use uuid::Uuid;

/// One thing to do in a transaction.
pub enum Step<'a> {
    Enqueue(&'a Outbox, &'a Message),
    EnqueueAll(&'a Outbox, &'a [Message]),
    Once(&'a Inbox, Uuid),
    Clean(&'a Inbox),
    Sql(&'a str),
}

/// What the steps answered, in order.
#[derive(Debug, Default)]
pub struct Played {
    pub receipts: Vec<Result<Vec<Receipt>, EnqueueError>>,
    pub once: Vec<Result<Once, InboxError>>,
    pub cleaned: u64,
}

impl Played {
    pub fn all(&self) -> &[Receipt] {
        self.receipts[0].as_deref().expect("enqueued")
    }
}

pub trait Driver: Sized {
    async fn connect(file: &FreshFile) -> Self;

    /// Does all of it in one transaction.
    async fn play(&mut self, steps: &[Step<'_>], commits: bool) -> Played;
}

macro_rules! steps {
    ($steps:expr, $transaction:expr, |$sql:ident| $run:expr) => {{
        let mut played = Played::default();
        for step in $steps {
            match step {
                Step::Enqueue(outbox, message) => {
                    let receipt = outbox.enqueue($transaction, message).await;
                    played.receipts.push(receipt.map(|receipt| vec![receipt]));
                }
                Step::EnqueueAll(outbox, messages) => {
                    let receipts = outbox.enqueue_all($transaction, messages).await;
                    played.receipts.push(receipts);
                }
                Step::Once(inbox, event) => {
                    let once = inbox.once($transaction, "invoices", *event).await;
                    played.once.push(once);
                }
                Step::Clean(inbox) => {
                    let nothing = std::time::Duration::ZERO;
                    let cleaned = inbox.clean($transaction, nothing, 10).await;
                    played.cleaned += cleaned.expect("a count");
                }
                Step::Sql($sql) => $run,
            }
        }
        played
    }};
}

pub struct Rusqlite(rusqlite::Connection);

impl Driver for Rusqlite {
    async fn connect(file: &FreshFile) -> Self {
        Self(file.open())
    }

    async fn play(&mut self, steps: &[Step<'_>], commits: bool) -> Played {
        let transaction = self.0.transaction().unwrap();
        let played = steps!(steps, &transaction, |sql| transaction
            .execute_batch(sql)
            .unwrap());
        match commits {
            true => transaction.commit().unwrap(),
            false => transaction.rollback().unwrap(),
        }
        played
    }
}

#[cfg(feature = "sqlx-sqlite")]
pub struct Sqlx(sqlx::SqliteConnection);

#[cfg(feature = "sqlx-sqlite")]
impl Driver for Sqlx {
    async fn connect(file: &FreshFile) -> Self {
        let connection = <sqlx::SqliteConnection as sqlx::Connection>::connect(&file.address());
        Self(connection.await.unwrap())
    }

    async fn play(&mut self, steps: &[Step<'_>], commits: bool) -> Played {
        use sqlx::{AssertSqlSafe, Connection, Executor};

        let mut transaction = self.0.begin().await.unwrap();
        let played = steps!(steps, &mut transaction, |sql| {
            let sql = sqlx::raw_sql(AssertSqlSafe((*sql).to_owned()));
            transaction.execute(sql).await.unwrap();
        });
        match commits {
            true => transaction.commit().await.unwrap(),
            false => transaction.rollback().await.unwrap(),
        }
        played
    }
}

/// Makes a test of each scenario for each driver.
macro_rules! for_every_driver {
    ($($scenario:ident),+ $(,)?) => {
        mod with_rusqlite {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario::<crate::drivers::Rusqlite>().await;
            })+
        }
        #[cfg(feature = "sqlx-sqlite")]
        mod with_sqlx {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario::<crate::drivers::Sqlx>().await;
            })+
        }
    };
}

pub(crate) use for_every_driver;
