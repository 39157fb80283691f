//! Dead letters, each in the transaction in which its event dies.

use rusqlite::{Connection, params};

use super::{Outbox, decode};
use crate::store::Attempt;
use crate::store::letter::HISTORY_KEPT;

impl Outbox {
    /// Enqueues a copy of this dead event under the topic, unless it is a letter itself.
    pub(super) fn send_letter(
        &self,
        connection: &Connection,
        sequence: i64,
        topic: &str,
    ) -> rusqlite::Result<()> {
        let mut history = connection.prepare_cached(&self.sql.history)?;
        let letter = connection
            .prepare_cached(&self.sql.dead)?
            .query_row([sequence], |row| {
                let values = params![decode::shown(row, 0)?, HISTORY_KEPT as i64];
                let attempts: Vec<Attempt> = history
                    .query_map(values, decode::attempt)?
                    .collect::<Result<_, _>>()?;
                decode::letter(row, &attempts)
            })?;
        if let Some((headers, tenant)) = letter {
            connection
                .prepare_cached(&self.sql.letter)?
                .execute(params![sequence, topic, headers, tenant])?;
        }
        Ok(())
    }
}
