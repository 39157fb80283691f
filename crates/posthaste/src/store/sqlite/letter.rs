//! Dead letters, each in the transaction in which its event dies.

use rusqlite::{Connection, params};

use super::{Outbox, decode};

impl Outbox {
    /// Enqueues a copy of this dead event under the topic, unless it is a letter itself.
    pub(super) fn send_letter(
        &self,
        connection: &Connection,
        sequence: i64,
        topic: &str,
    ) -> rusqlite::Result<()> {
        let letter = connection
            .prepare_cached(&self.sql.dead)?
            .query_row([sequence], decode::letter)?;
        if let Some((headers, tenant)) = letter {
            connection
                .prepare_cached(&self.sql.letter)?
                .execute(params![sequence, topic, headers, tenant])?;
        }
        Ok(())
    }
}
