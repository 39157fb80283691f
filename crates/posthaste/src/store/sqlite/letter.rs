//! Dead letters, each in the transaction in which its event dies.

use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::{Outbox, decode};

impl Outbox {
    /// Enqueues a copy of this dead event under the topic, unless it is a letter itself.
    pub(super) fn send_letter(
        &self,
        connection: &Connection,
        id: Uuid,
        topic: &str,
    ) -> rusqlite::Result<()> {
        let headers = connection
            .prepare_cached(&self.sql.dead)?
            .query_row(params![id.to_string()], |row| decode::letter(row, id))
            .optional()?
            .flatten();
        if let Some(headers) = headers {
            connection
                .prepare_cached(&self.sql.letter)?
                .execute(params![id.to_string(), topic, headers])?;
        }
        Ok(())
    }
}
