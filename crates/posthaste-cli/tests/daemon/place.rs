//! Where a test runs the program: a folder with a `posthaste.toml`, and a database.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use posthaste_testkit::server;
use tempfile::TempDir;
use uuid::Uuid;

use crate::process::{Answer, Daemon};

/// The password in every address of these tests. It must never be seen again.
pub(crate) const SECRET: &str = "hunter2";

pub(crate) struct Place {
    folder: TempDir,
    pub(crate) url: String,
    pub(crate) table: String,
}

/// Makes a test of each function, for every database. A further one is one more module here.
macro_rules! every_place {
    ($($test:ident)*) => {
        mod postgres {
            $(#[test]
            fn $test() {
                super::$test(&crate::place::Place::postgres());
            })*
        }
        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test(&crate::place::Place::sqlite());
            })*
        }
    };
}
pub(crate) use every_place;

impl Place {
    /// In the PostgreSQL that the tests were given, with a schema of its own.
    pub(crate) fn postgres() -> Self {
        Self::at(&server::postgres_url())
    }

    /// In a PostgreSQL that a test has for itself.
    pub(crate) fn at(url: &str) -> Self {
        let url = url.replacen("postgres@", &format!("postgres:{SECRET}@"), 1);
        Self::new(url, format!("t{}.orders_outbox", Uuid::new_v4().simple()))
    }

    /// In a file in the folder.
    pub(crate) fn sqlite() -> Self {
        Self::new("sqlite:shop.db".into(), "public.orders_outbox".into())
    }

    fn new(url: String, table: String) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            url,
            table,
        };
        place.configure("", "");
        place
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres")
    }

    /// Writes `posthaste.toml`: one outbox with more settings, standard output, and more of anything.
    pub(crate) fn configure(&self, outbox: &str, more: &str) {
        let (url, table) = (&self.url, &self.table);
        self.write(&format!(
            "[database]\nurl = \"{url}\"\n\n[[outbox]]\ntable = \"{table}\"\n{outbox}\n\
             [sink.log]\ntype = \"stdout\"\n{more}\n"
        ));
    }

    pub(crate) fn write(&self, configuration: &str) {
        std::fs::write(self.file("posthaste.toml"), configuration).unwrap();
    }

    /// The program in this folder, without what the environment of the tests may hold.
    pub(crate) fn posthaste(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        let ours = |name: &str| name.starts_with("POSTHASTE_") || name.starts_with("OTEL_");
        for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .env_remove("NO_COLOR");
        command
    }

    /// What a command answers.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Answer {
        Answer::of(self.posthaste(arguments))
    }

    /// A place whose outbox is there.
    pub(crate) fn migrated(&self) -> &Self {
        self.ask(&["migrate"]).done();
        self
    }

    pub(crate) fn enqueue(&self, count: usize) {
        let count = count.to_string();
        let arguments = ["enqueue", "shop.order.placed.v1", "{}", "--count", &count];
        self.ask(&arguments).done();
    }

    /// The daemon.
    pub(crate) fn run(&self) -> Daemon {
        Daemon::start(self.posthaste(&["run"]))
    }

    /// Every event, as `list` has them.
    pub(crate) fn events(&self) -> Vec<serde_json::Value> {
        let all = ["list", "--status", "any", "--limit", "0", "--json"];
        self.ask(&all).json()
    }

    /// How many events have this status.
    pub(crate) fn count(&self, status: &str) -> usize {
        let events = self.events();
        events.iter().filter(|it| it["status"] == status).count()
    }

    /// Runs statements past the program, as somebody else would. `{outbox}` is the table.
    pub(crate) fn sql(&self, sql: &str) {
        let (schema, name) = self.table.split_once('.').unwrap();
        if self.is_postgres() {
            let sql = sql.replace("{outbox}", &self.table);
            postgres(&self.url, &sql.replace("{schema}", schema));
        } else {
            let sql = sql.replace("{outbox}", name).replace("{schema}.", "");
            let connection = rusqlite::Connection::open(self.file("shop.db")).unwrap();
            connection.execute_batch(&sql).unwrap();
        }
    }
}

/// Runs statements in PostgreSQL.
pub(crate) fn postgres(url: &str, sql: &str) {
    ask_postgres(url, async |client| client.batch_execute(sql).await);
}

/// The one number that a query gives.
pub(crate) fn number(url: &str, sql: &str) -> i64 {
    ask_postgres(url, async |client| {
        client.query_one(sql, &[]).await.map(|row| row.get(0))
    })
}

fn ask_postgres<T>(
    url: &str,
    work: impl AsyncFnOnce(&tokio_postgres::Client) -> Result<T, tokio_postgres::Error>,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
        let (client, connection) = connected.unwrap();
        tokio::spawn(connection);
        work(&client).await.unwrap()
    })
}
