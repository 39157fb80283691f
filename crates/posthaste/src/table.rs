//! The name of an outbox table: validated once, quoted everywhere.
//!
//! Every SQL statement of the project takes its table from here, so a name that
//! got past [`Table::parse`] cannot change what a statement does.

use std::fmt;
use std::str::FromStr;

/// PostgreSQL cuts identifiers at 63 bytes; the objects that belong to an outbox
/// are named after it (`orders_outbox_delivered`), and must not be cut.
const NAME_LIMIT: usize = 63 - "_delivered_at".len();
const SCHEMA_LIMIT: usize = 63;

/// A schema-qualified table name, such as `public.orders_outbox`.
///
/// A part is either plain (`[a-z_][a-z0-9_]*`) or quoted as in SQL (`"Order Events"`).
/// Without a schema, `public` is meant.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Table {
    schema: String,
    name: String,
}

/// Why a table name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table name {name:?} is not valid: {why}")]
pub struct TableError {
    name: String,
    why: &'static str,
}

impl TableError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "outbox.table_invalid"
    }
}

impl Table {
    /// Parses `table`, `schema.table` or `"Quoted Schema"."table"`.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let refuse = |why| TableError {
            name: text.chars().take(128).collect(),
            why,
        };
        let (first, rest) = part(text).map_err(refuse)?;
        let (schema, name) = match rest {
            "" => ("public".to_owned(), first),
            rest => {
                let rest = rest
                    .strip_prefix('.')
                    .ok_or_else(|| refuse("write it as schema.table"))?;
                let (second, rest) = part(rest).map_err(refuse)?;
                if !rest.is_empty() {
                    return Err(refuse("write it as schema.table"));
                }
                (first, second)
            }
        };
        // It would end the quoting of the functions that belong to an outbox.
        if schema.contains("$$") || name.contains("$$") {
            return Err(refuse("two dollar signs in a row are not allowed"));
        }
        if schema.len() > SCHEMA_LIMIT {
            return Err(refuse("a schema name has at most 63 bytes"));
        }
        if name.len() > NAME_LIMIT {
            return Err(refuse(
                "an outbox name has at most 50 bytes, as its indexes are named after it",
            ));
        }
        Ok(Self { schema, name })
    }

    /// The schema, unquoted.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The table's own name, unquoted.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fills the table into a statement from `sql/postgres/`.
    ///
    /// `{outbox}` is the table, `{outbox:due}` an object of the same schema named
    /// after it, `{name:due}` the same without its schema, `{schema}` the schema,
    /// and `{literal}` the name as a string.
    pub(crate) fn render(&self, sql: &str) -> String {
        self.render_with(sql, |_| None)
    }

    /// The same, with further placeholders.
    pub(crate) fn render_with(
        &self,
        sql: &str,
        further: impl Fn(&str) -> Option<String>,
    ) -> String {
        let schema = quote(&self.schema);
        fill(sql, |place| {
            Some(match place.split_once(':') {
                None => match place {
                    "outbox" => format!("{schema}.{}", quote(&self.name)),
                    "schema" => schema.clone(),
                    "literal" => literal(&self.to_string()),
                    other => further(other)?,
                },
                Some(("outbox", suffix)) => {
                    format!("{schema}.{}", quote(&format!("{}_{suffix}", self.name)))
                }
                Some(("name", suffix)) => quote(&format!("{}_{suffix}", self.name)),
                Some(_) => further(place)?,
            })
        })
    }

    /// The name in a SQLite file, which has no schemas: `orders` of `public` and of `main` is
    /// `"orders"`, and of any other schema it is the one name `"billing.orders"`.
    #[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
    pub(crate) fn in_sqlite(&self) -> Result<InSqlite, TableError> {
        let refuse = |why| TableError {
            name: self.to_string(),
            why,
        };
        if self.schema.contains('.') || self.name.contains('.') {
            return Err(refuse(
                "in SQLite neither part has a dot, as schema and table are one name there",
            ));
        }
        let name = match self.schema.as_str() {
            "public" | "main" => self.name.clone(),
            schema => format!("{schema}.{}", self.name),
        };
        if name.to_ascii_lowercase().starts_with("sqlite_") {
            return Err(refuse(
                "SQLite keeps names that begin with sqlite_ for itself",
            ));
        }
        Ok(InSqlite(name))
    }
}

/// The name of an outbox in a SQLite file.
#[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InSqlite(String);

#[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
impl InSqlite {
    /// Microseconds since 1970 by SQLite's clock, in words that old versions understand, too:
    /// the table's defaults run in whatever SQLite a producer brings along.
    const NOW: &str = "cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000";

    /// The name itself, or the one of an object that belongs to it.
    #[cfg(feature = "sqlite")]
    pub(crate) fn name(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.0)
    }

    /// Fills the table into a statement from `sql/sqlite/`.
    ///
    /// `{outbox}` is the table, `{outbox:due}` and `{name:due}` are what is named after it,
    /// `{literal}` is the name as a string, and `{now}` the time.
    pub(crate) fn render(&self, sql: &str) -> String {
        fill(sql, |place| match place {
            "outbox" => Some(quote(&self.0)),
            "literal" => Some(literal(&self.0)),
            "now" => Some(Self::NOW.to_owned()),
            _ => match place.split_once(':')? {
                ("outbox" | "name", suffix) => Some(quote(&format!("{}_{suffix}", self.0))),
                _ => None,
            },
        })
    }
}

/// Fills in what stands in braces. What is filled in is not looked at again.
fn fill(sql: &str, filling: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(sql.len() + 256);
    let mut rest = sql;
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let filled = rest
            .find('}')
            .and_then(|end| Some((filling(&rest[1..end])?, end)));
        match filled {
            Some((text, end)) => {
                out.push_str(&text);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Takes one identifier off the front: what it means, and what follows it.
fn part(text: &str) -> Result<(String, &str), &'static str> {
    if let Some(body) = text.strip_prefix('"') {
        let mut name = String::new();
        let mut chars = body.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                    chars.next();
                    name.push('"');
                }
                '"' if name.is_empty() => return Err("a quoted part is empty"),
                '"' => return Ok((name, &body[at + 1..])),
                c if c.is_control() => return Err("control characters are not allowed"),
                c => name.push(c),
            }
        }
        return Err("a quote is not closed");
    }
    let end = text.find('.').unwrap_or(text.len());
    let plain = &text[..end];
    let ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if plain.is_empty() {
        Err("a part is empty")
    } else if !plain.chars().all(ok) || plain.starts_with(|c: char| c.is_ascii_digit()) {
        Err("use lower-case letters, digits and _, or put the part in double quotes")
    } else {
        Ok((plain.to_owned(), &text[end..]))
    }
}

/// Text as a string of SQL.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as an identifier of SQL.
pub(crate) fn quote(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |part: &str| match part_is_plain(part) {
            true => part.to_owned(),
            false => quote(part),
        };
        write!(f, "{}.{}", show(&self.schema), show(&self.name))
    }
}

fn part_is_plain(text: &str) -> bool {
    !text.contains('.') && part(text).is_ok_and(|(name, _)| name == text)
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({self})")
    }
}

impl FromStr for Table {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl TryFrom<&str> for Table {
    type Error = TableError;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_quoted_names_are_read_as_sql_reads_them() {
        for (text, schema, name) in [
            ("orders_outbox", "public", "orders_outbox"),
            ("shop.orders", "shop", "orders"),
            ("\"My Shop\".\"odd.name\"", "My Shop", "odd.name"),
            ("\"a\"\"b\"", "public", "a\"b"),
        ] {
            let table = Table::parse(text).unwrap();
            assert_eq!((table.schema(), table.name()), (schema, name));
            assert_eq!(Table::parse(&table.to_string()).unwrap(), table);
        }
    }

    // B2
    #[test]
    fn hostile_names_are_refused_with_a_reason() {
        let long = "x".repeat(64);
        for text in [
            "",
            ".",
            "a.",
            ".a",
            "a.b.c",
            "Orders",
            "1st",
            "a b",
            "a;drop table x",
            "a\"b",
            "\"open",
            "\"\"",
            "\"a\"b",
            "\"nul\0\"",
            "naïve",
            "a--b",
            "\"a$$; drop table x; --\"",
            &long,
        ] {
            let error = Table::parse(text).unwrap_err();
            assert_eq!(error.code(), "outbox.table_invalid");
        }
    }

    // B2
    #[test]
    fn a_quoted_name_cannot_leave_its_quotes() {
        let table = Table::parse("\"x\"\"; drop table y; --\"").unwrap();
        assert_eq!(
            table.render("select * from {outbox} where a = '{}' and {name:due}"),
            "select * from \"public\".\"x\"\"; drop table y; --\" where a = '{}' and \"x\"\"; drop table y; --_due\""
        );
        let table = Table::parse("\"it's\"").unwrap();
        assert_eq!(table.render("{literal}"), "'public.\"it''s\"'");
    }

    // B2
    #[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
    #[test]
    fn in_sqlite_schema_and_table_are_one_name_that_cannot_be_mistaken() {
        let name = |text| Table::parse(text).unwrap().in_sqlite();
        let sql = |text| name(text).unwrap().render("{outbox} {name:due} {literal}");
        assert_eq!(sql("orders"), "\"orders\" \"orders_due\" 'orders'");
        assert_eq!(sql("main.orders"), sql("public.orders"));
        assert_eq!(
            sql("billing.orders"),
            "\"billing.orders\" \"billing.orders_due\" 'billing.orders'"
        );
        for refused in ["\"a.b\".c", "a.\"b.c\"", "\"a.b\"", "sqlite_orders"] {
            let error = name(refused).unwrap_err();
            assert_eq!(error.code(), "outbox.table_invalid", "{refused}");
        }
    }
}
