//! Applying and checking migrations over a PostgreSQL connection.

use tokio_postgres::{Client, GenericClient, IsolationLevel, Transaction};

use super::{INBOX, MIGRATIONS_TABLE, Migration, OUTBOX, SchemaError, Structure};
use crate::table::{Table, literal, quote};

/// Makes the outbox, or brings it up to date. Safe to call at every start, and from many
/// processes at once. Gives back the version that it is at.
pub async fn apply(client: &mut Client, table: &Table) -> Result<i32, SchemaError> {
    OUTBOX.apply(client, table).await
}

/// Makes an inbox, or brings it up to date.
pub async fn apply_inbox(client: &mut Client, table: &Table) -> Result<i32, SchemaError> {
    INBOX.apply(client, table).await
}

/// Checks that the outbox is what this version works with, and says what mends it if not.
pub async fn check(client: &Client, table: &Table) -> Result<(), SchemaError> {
    OUTBOX.check(client, table).await
}

/// Checks an inbox in the same way.
pub async fn check_inbox(client: &Client, table: &Table) -> Result<(), SchemaError> {
    INBOX.check(client, table).await
}

/// Switches on, or off, that every statement which enqueues wakes listening relays.
///
/// Off by default: commits that notify queue up behind one lock of the server.
pub async fn notify(client: &mut Client, table: &Table, on: bool) -> Result<(), SchemaError> {
    let failed = |error| database(table, error);
    let transaction = begin(client).await.map_err(failed)?;
    // Looked for first: to change a trigger waits for every transaction that has enqueued.
    let row = transaction
        .query_one(TRIGGER_EXISTS, &[&table.schema(), &table.name()])
        .await
        .map_err(failed)?;
    let sql = match (row.get(0), on) {
        (false, true) => {
            "create trigger {name:notify} after insert on {outbox} for each statement execute function {outbox:notify}();"
        }
        (true, false) => "drop trigger {name:notify} on {outbox};",
        _ => return Ok(()),
    };
    let sql = table.render(sql);
    transaction.batch_execute(&sql).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)
}

/// Whoever waited sees what was done meanwhile, whatever the database prefers.
async fn begin(client: &mut Client) -> Result<Transaction<'_>, tokio_postgres::Error> {
    let transaction = client.build_transaction();
    transaction
        .isolation_level(IsolationLevel::ReadCommitted)
        .start()
        .await
}

impl Structure {
    async fn apply(&self, client: &mut Client, table: &Table) -> Result<i32, SchemaError> {
        let failed = |error| database(table, error);
        let transaction = begin(client).await.map_err(failed)?;
        // Two processes may start at once: the second waits here, and finds it done.
        transaction
            .execute(
                "select pg_advisory_xact_lock(hashtextextended('posthaste.migrate', 0))",
                &[],
            )
            .await
            .map_err(failed)?;
        transaction
            .batch_execute(&create_schema(table))
            .await
            .map_err(failed)?;
        if !has_migrations(&transaction, table).await? {
            transaction
                .batch_execute(&table.render(MIGRATIONS_TABLE))
                .await
                .map_err(failed)?;
        }
        let applied = self.applied(&transaction, table).await?;
        for migration in &self.migrations[applied..] {
            let sql = table.render(migration.sql) + &migration.record(table);
            transaction.batch_execute(&sql).await.map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)?;
        Ok(self.version())
    }

    async fn check(&self, client: &Client, table: &Table) -> Result<(), SchemaError> {
        if !has_migrations(client, table).await? {
            return Err(SchemaError::Missing {
                table: table.to_string(),
            });
        }
        let applied = self.applied(client, table).await?;
        self.up_to_date(&table.to_string(), applied)?;
        self.complete(client, table).await
    }

    /// How many of our migrations were applied, having made sure that they are ours.
    async fn applied(
        &self,
        client: &impl GenericClient,
        table: &Table,
    ) -> Result<usize, SchemaError> {
        let sql = table.render(
            "select version, checksum from {schema}.posthaste_migrations where object = {literal} order by version",
        );
        let rows = client
            .query(&sql, &[])
            .await
            .map_err(|error| database(table, error))?;
        let applied: Vec<(i32, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        self.recognise(&table.to_string(), &applied)
    }

    /// Every table, index, function and constraint that the migrations name is there and valid.
    async fn complete(&self, client: &Client, table: &Table) -> Result<(), SchemaError> {
        for migration in self.migrations {
            for object in migration.objects(table) {
                let found: bool = client
                    .query_one(object.exists, &[&table.schema(), &object.name])
                    .await
                    .map_err(|error| database(table, error))?
                    .get(0);
                if !found {
                    return Err(SchemaError::Damaged {
                        table: table.to_string(),
                        what: format!("{} {} is missing or not valid", object.kind, object.name),
                        remedy: object.definition,
                    });
                }
            }
        }
        Ok(())
    }
}

struct Object {
    kind: &'static str,
    name: String,
    definition: String,
    /// $1 schema, $2 name.
    exists: &'static str,
}

const TABLE_EXISTS: &str = "select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace \
     where n.nspname = $1 and c.relname = $2 and c.relkind in ('r', 'p'))";
const INDEX_EXISTS: &str = "select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace \
     join pg_index i on i.indexrelid = c.oid where n.nspname = $1 and c.relname = $2 and i.indisvalid)";
const FUNCTION_EXISTS: &str = "select exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace \
     where n.nspname = $1 and p.proname = $2)";
const TRIGGER_EXISTS: &str = "select exists (select from pg_trigger t join pg_class c on c.oid = t.tgrelid \
     join pg_namespace n on n.oid = c.relnamespace \
     where n.nspname = $1 and c.relname = $2 and t.tgname = $2 || '_notify')";
const CONSTRAINT_EXISTS: &str = "select exists (select from pg_constraint c join pg_namespace n on n.oid = c.connamespace \
     where n.nspname = $1 and c.conname = $2 and c.convalidated)";

const COLUMN_EXISTS: &str = "select exists (select from pg_attribute a join pg_class c on c.oid = a.attrelid \
     join pg_namespace n on n.oid = c.relnamespace \
     where n.nspname = $1 and c.relname || '.' || a.attname = $2 and not a.attisdropped)";

impl Migration {
    /// What the statements of this migration create.
    fn objects(&self, table: &Table) -> Vec<Object> {
        let mut objects: Vec<Object> = columns(self.sql, table).collect();
        let mut rest = self.sql;
        while let Some(start) = rest.find("\ncreate ").map(|at| at + 1) {
            rest = &rest[start..];
            let words: Vec<&str> = rest.split_whitespace().take(4).collect();
            let (kind, placeholder, exists) = match words[..] {
                [_, "table", name, ..] => ("table", name, TABLE_EXISTS),
                [_, "index", name, ..] | [_, "unique", "index", name] => {
                    ("index", name, INDEX_EXISTS)
                }
                [_, "function", name, ..] => ("function", name, FUNCTION_EXISTS),
                _ => unreachable!("migrations create tables, indexes and functions"),
            };
            let placeholder = placeholder.split('(').next().unwrap_or(placeholder);
            let suffix = placeholder
                .trim_matches(['{', '}'])
                .split_once(':')
                .map_or(String::new(), |(_, suffix)| format!("_{suffix}"));
            let end = if kind == "function" { "end $$;" } else { ";" };
            let length = rest
                .find(&format!("{end}\n"))
                .map_or(rest.len(), |at| at + end.len());
            objects.push(Object {
                kind,
                name: format!("{}{suffix}", table.name()),
                definition: table.render(&rest[..length]),
                exists,
            });
            if kind == "table" {
                objects.extend(constraints(&rest[..length], placeholder, table));
            }
            rest = &rest[length..];
        }
        objects
    }
}

/// The columns that `alter table` adds.
fn columns(sql: &str, table: &Table) -> impl Iterator<Item = Object> {
    let added = sql.lines().filter(|line| line.starts_with("alter table {"));
    added.filter_map(move |line| {
        let (of, rest) = line
            .strip_prefix("alter table {")?
            .split_once("} add column ")?;
        let suffix = of
            .split_once(':')
            .map_or(String::new(), |(_, s)| format!("_{s}"));
        let column = rest.split(' ').next()?;
        Some(Object {
            kind: "column",
            name: format!("{}{suffix}.{column}", table.name()),
            definition: table.render(line),
            exists: COLUMN_EXISTS,
        })
    })
}

/// The constraints that a `create table` names.
fn constraints<'s>(create: &'s str, of: &'s str, table: &Table) -> impl Iterator<Item = Object> {
    let body = create.split_once("(\n").map_or("", |(_, body)| body);
    let body = body.split("\n)").next().unwrap_or(body);
    body.split(",\n").filter_map(move |item| {
        let (suffix, rule) = item
            .trim()
            .strip_prefix("constraint {name:")?
            .split_once("} ")?;
        let add = format!("alter table {of} add constraint {{name:{suffix}}} {rule};");
        Some(Object {
            kind: "constraint",
            name: format!("{}_{suffix}", table.name()),
            definition: table.render(&add),
            exists: CONSTRAINT_EXISTS,
        })
    })
}

async fn has_migrations(client: &impl GenericClient, table: &Table) -> Result<bool, SchemaError> {
    client
        .query_one(TABLE_EXISTS, &[&table.schema(), &"posthaste_migrations"])
        .await
        .map(|row| row.get(0))
        .map_err(|error| database(table, error))
}

/// Not `create schema if not exists`: that needs the right to create one even where it exists.
fn create_schema(table: &Table) -> String {
    let schema = quote(table.schema());
    let body = format!(
        "begin if to_regnamespace({}) is null then create schema {schema}; end if; end",
        literal(&schema)
    );
    format!("do {};", literal(&body))
}

fn database(table: &Table, error: tokio_postgres::Error) -> SchemaError {
    SchemaError::Database {
        table: table.to_string(),
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outbox as a later version may have it.
    const LATER: Structure = Structure {
        migrations: &[
            Migration {
                version: 1,
                name: "outbox",
                sql: OUTBOX.migrations[0].sql,
            },
            Migration {
                version: 2,
                name: "operate",
                sql: OUTBOX.migrations[1].sql,
            },
            Migration {
                version: 3,
                name: "audit",
                sql: OUTBOX.migrations[2].sql,
            },
            Migration {
                version: 4,
                name: "more",
                sql: "-- More.\ncreate table {outbox:more} (id integer);\n",
            },
        ],
    };

    #[tokio::test]
    async fn an_older_schema_is_told_and_brought_up_to_date() {
        let url = posthaste_testkit::server::postgres_url();
        let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        let name = format!("t{}.outbox", uuid::Uuid::new_v4().simple());
        let table = Table::parse(&name).unwrap();
        OUTBOX.apply(&mut client, &table).await.unwrap();
        let older = LATER.check(&client, &table).await.unwrap_err();
        assert!(
            matches!(
                older,
                SchemaError::Older {
                    found: 3,
                    needed: 4,
                    ..
                }
            ),
            "{older}"
        );
        assert!(
            older.to_string().contains("posthaste::schema::apply"),
            "{older}"
        );
        assert_eq!(LATER.apply(&mut client, &table).await.unwrap(), 4);
        LATER.check(&client, &table).await.unwrap();
        let newer = OUTBOX.check(&client, &table).await.unwrap_err();
        assert_eq!(newer.code(), "schema.newer");
    }

    #[test]
    fn every_object_of_a_migration_is_known() {
        let table = Table::parse("shop.orders").unwrap();
        let objects = OUTBOX.migrations[0].objects(&table);
        let (constraints, objects): (Vec<Object>, Vec<Object>) = objects
            .into_iter()
            .partition(|object| object.kind == "constraint");
        let written = OUTBOX.migrations[0]
            .sql
            .matches("  constraint {name:")
            .count();
        assert_eq!(constraints.len(), written);
        for constraint in constraints {
            let (open, close) = ('(', ')');
            let count = |c| constraint.definition.matches(c).count();
            assert_eq!(count(open), count(close), "{}", constraint.definition);
        }
        let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "orders",
                "orders_due",
                "orders_keyed",
                "orders_dedupe",
                "orders_delivered",
                "orders_dead",
                "orders_relay",
                "orders_audit",
                "orders_audit_event",
                "orders_archive",
                "orders_existing",
                "orders_enqueue",
                "orders_notify",
            ]
        );
        assert!(
            objects[1]
                .definition
                .starts_with("create index \"orders_due\"")
        );
        assert!(objects[11].definition.ends_with("end $$;"));
    }

    #[test]
    fn columns_that_a_migration_adds_are_known() {
        let table = Table::parse("shop.orders").unwrap();
        let objects = OUTBOX.migrations[1].objects(&table);
        let names: Vec<String> = objects
            .iter()
            .map(|object| format!("{} {}", object.kind, object.name))
            .collect();
        assert_eq!(
            names,
            [
                "column orders.fingerprint",
                "column orders_archive.fingerprint",
                "column orders.redeliveries",
                "column orders_archive.redeliveries",
                "table orders_attempts",
                "table orders_pauses",
                "table orders_jobs",
                "constraint orders_job_state",
                "constraint orders_job_ended",
                "constraint orders_job_rate",
                "index orders_jobs_open",
            ]
        );
        assert_eq!(
            objects[1].definition,
            "alter table \"shop\".\"orders_archive\" add column fingerprint text collate \"C\";"
        );
    }
}
