//! A fresh SQLite file with an outbox for each test.

use std::path::{Path, PathBuf};

use posthaste::store::sqlite::Sqlite;
use posthaste::{Message, Outbox, Receipt, Table, schema};
use rusqlite::Connection;

/// An outbox that nobody else uses, in a folder of its own that goes with it.
pub struct FreshFile {
    /// The folder, in which there may be more files.
    pub dir: PathBuf,
    /// Its table.
    pub table: Table,
    /// To enqueue into it.
    pub outbox: Outbox,
}

impl FreshFile {
    /// Makes one in the folder for temporary files.
    pub fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// Makes one within this folder.
    pub fn within(folder: &Path) -> Self {
        let dir = folder.join(format!("posthaste-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&dir).expect("a folder");
        let table = Table::parse("shop.outbox").expect("a plain name");
        let fresh = Self {
            dir,
            outbox: Outbox::of(table.clone()),
            table,
        };
        schema::sqlite::apply(&mut fresh.open(), &fresh.table).expect("a new schema");
        fresh
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.dir.join("shop.db")
    }

    /// The address of the file.
    pub fn address(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    /// A connection to the file.
    pub fn open(&self) -> Connection {
        Connection::open(self.path()).expect("a connection")
    }

    /// A store on it, as another relay would have.
    pub async fn store(&self) -> Sqlite {
        Sqlite::connect(&self.address(), self.table.clone())
            .await
            .expect("a store on a fresh outbox")
    }

    /// Enqueues these in one transaction.
    pub fn enqueue(&self, messages: &[Message]) -> Vec<Receipt> {
        let mut connection = self.open();
        let transaction = connection.transaction().expect("a transaction");
        let receipts = self.outbox.enqueue_all_sync(&transaction, messages);
        transaction.commit().expect("a commit");
        receipts.expect("valid messages")
    }

    /// Fills the table into a statement of a test: `{outbox}`, `{outbox:audit}` and `{outbox:archive}`.
    pub fn sql(&self, sql: &str) -> String {
        let name = |suffix: &str| format!("\"shop.outbox{suffix}\"");
        let mut sql = sql.replace("{outbox}", &name(""));
        for part in ["audit", "archive", "attempts", "pauses", "jobs"] {
            let full = name(&format!("_{part}"));
            sql = sql.replace(&format!("{{outbox:{part}}}"), &full);
        }
        sql
    }
}

impl Default for FreshFile {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for FreshFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
