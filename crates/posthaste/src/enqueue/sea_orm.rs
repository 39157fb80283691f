//! Enqueue with sea-orm.
//!
//! Its arrays cannot hold nulls, so the columns of many messages travel as the text of an
//! array, which the casts of the statement read.

use std::fmt::Write as _;

use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryResult, Value};
use uuid::Uuid;

use super::{EnqueueError, Receipt, Row, Rows, Statement, Transaction};

impl Transaction for &DatabaseTransaction {
    async fn run(self, statement: Statement<'_>) -> Result<Vec<Receipt>, EnqueueError> {
        let (sql, values) = match statement {
            Statement::One { sql, row, .. } => (sql, one(row)),
            Statement::Many { sql, rows, .. } => (sql, many(rows)),
        };
        let statement = prepared(self.get_database_backend(), sql, values)?;
        let rows = self.query_all_raw(statement).await;
        rows.and_then(|rows| rows.iter().map(receipt).collect())
            .map_err(EnqueueError::database)
    }

    async fn execute(self, sql: &str, texts: &[&str]) -> Result<u64, EnqueueError> {
        let values = texts.iter().map(|text| Value::from(*text)).collect();
        let statement = prepared(self.get_database_backend(), sql, values)?;
        let done = self.execute_raw(statement).await;
        done.map(|done| done.rows_affected())
            .map_err(EnqueueError::database)
    }
}

fn prepared(
    backend: DbBackend,
    sql: &str,
    values: Vec<Value>,
) -> Result<sea_orm::Statement, EnqueueError> {
    match backend {
        DbBackend::Postgres => Ok(sea_orm::Statement::from_sql_and_values(
            backend, sql, values,
        )),
        other => Err(EnqueueError::DatabaseUnsupported {
            database: format!("{other:?}"),
        }),
    }
}

fn receipt(row: &QueryResult) -> Result<Receipt, DbErr> {
    Ok(Receipt {
        id: row.try_get_by_index(0)?,
        sequence: row.try_get_by_index(1)?,
        new: row.try_get_by_index(2)?,
    })
}

fn one(row: &Row) -> Vec<Value> {
    let row = row.clone();
    vec![
        row.id.into(),
        row.namespace.into(),
        row.topic.into(),
        row.tenant_id.into(),
        row.aggregate_type.into(),
        row.aggregate_id.into(),
        row.event_type.into(),
        row.ordering_key.into(),
        row.dedupe_key.into(),
        row.headers.into(),
        row.content_type.into(),
        row.payload.into(),
        row.payload_bytes.into(),
        row.delay.into(),
        row.due.into(),
        row.traceparent.into(),
        row.tracestate.into(),
    ]
}

fn many(rows: &Rows) -> Vec<Value> {
    vec![
        array(rows.id.iter().map(Some)),
        array(rows.namespace.iter().map(Some)),
        array(rows.topic.iter().map(Some)),
        array(rows.tenant_id.iter().map(Option::as_ref)),
        array(rows.aggregate_type.iter().map(Option::as_ref)),
        array(rows.aggregate_id.iter().map(Option::as_ref)),
        array(rows.event_type.iter().map(Option::as_ref)),
        array(rows.ordering_key.iter().map(Option::as_ref)),
        array(rows.dedupe_key.iter().map(Option::as_ref)),
        array(rows.headers.iter().map(Some)),
        array(rows.content_type.iter().map(Some)),
        array(rows.payload.iter().map(Option::as_ref)),
        array(rows.payload_bytes.iter().map(Option::as_ref)),
        array(rows.delay.iter().map(Some)),
        array(rows.due.iter().map(Option::as_ref)),
        array(rows.traceparent.iter().map(Option::as_ref)),
        array(rows.tracestate.iter().map(Option::as_ref)),
    ]
}

/// An array as PostgreSQL reads it from text: `{"a","b",NULL}`.
fn array<'v, T: Element + 'v>(values: impl Iterator<Item = Option<&'v T>>) -> Value {
    let mut out = String::from("{");
    for value in values {
        if out.len() > 1 {
            out.push(',');
        }
        match value {
            Some(value) => value.write(&mut out),
            None => out.push_str("NULL"),
        }
    }
    out.push('}');
    out.into()
}

/// What can be written into the text of an array.
trait Element {
    fn write(&self, out: &mut String);
}

impl Element for String {
    fn write(&self, out: &mut String) {
        out.reserve(self.len() + 2);
        out.push('"');
        for part in self.split_inclusive(['"', '\\']) {
            match part.strip_suffix(['"', '\\']) {
                Some(plain) => {
                    out.push_str(plain);
                    out.push('\\');
                    out.push_str(&part[plain.len()..]);
                }
                None => out.push_str(part),
            }
        }
        out.push('"');
    }
}

impl Element for Vec<u8> {
    fn write(&self, out: &mut String) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.reserve(self.len() * 2 + 6);
        out.push_str(r#""\\x"#);
        for byte in self {
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        out.push('"');
    }
}

impl Element for Uuid {
    fn write(&self, out: &mut String) {
        write!(out, "{self}").expect("a String takes any text");
    }
}

impl Element for f64 {
    fn write(&self, out: &mut String) {
        write!(out, "{self}").expect("a String takes any text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_written_as_postgres_reads_it() {
        let texts = ["a", "", "NULL", r#"q"b\"#, "{,}"].map(str::to_owned);
        assert_eq!(
            array(texts.iter().map(Some).chain([None])),
            r#"{"a","","NULL","q\"b\\","{,}",NULL}"#.into()
        );
        assert_eq!(
            array([vec![0u8, 255]].iter().map(Some)),
            r#"{"\\x00ff"}"#.into()
        );
        assert_eq!(array([0.5, -2.0].iter().map(Some)), "{0.5,-2}".into());
        assert_eq!(array(std::iter::empty::<Option<&Uuid>>()), "{}".into());
    }

    #[test]
    fn another_database_is_refused_by_name() {
        let error = prepared(DbBackend::MySql, "select", Vec::new()).unwrap_err();
        assert_eq!(error.code(), "outbox.database_unsupported");
        assert!(error.to_string().contains("MySql"), "{error}");
    }
}
