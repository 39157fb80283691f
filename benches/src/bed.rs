//! What every scenario needs: a fresh outbox, a connection, a line of output.

use posthaste::{Message, Outbox, Table, schema};
use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};

use crate::Result;

pub(crate) struct Bed {
    pub(crate) url: String,
    pub(crate) quick: bool,
    machine: Value,
}

/// An outbox of its own for one measurement.
pub(crate) struct Fresh {
    pub(crate) table: Table,
    pub(crate) outbox: Outbox,
    pub(crate) client: Client,
}

impl Bed {
    pub(crate) async fn from_environment(quick: bool) -> Result<Self> {
        let url = std::env::var("POSTHASTE_BENCH_POSTGRES")
            .map_err(|_| "POSTHASTE_BENCH_POSTGRES is not set: run `cargo xtask bench`")?;
        let client = connect(&url).await?;
        let server: String = client
            .query_one("select current_setting('server_version')", &[])
            .await?
            .get(0);
        let fsync: String = client
            .query_one(
                "select 'fsync ' || current_setting('fsync') || ', synchronous_commit ' || current_setting('synchronous_commit')",
                &[],
            )
            .await?
            .get(0);
        let machine = json!({
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "postgresql": server,
            "durability": fsync,
            "quick": quick,
        });
        Ok(Self {
            url,
            quick,
            machine,
        })
    }

    pub(crate) async fn fresh(&self) -> Result<Fresh> {
        let mut client = connect(&self.url).await?;
        let table = Table::parse(&format!("bench_{}.outbox", uuid::Uuid::new_v4().simple()))?;
        schema::apply(&mut client, &table).await?;
        Ok(Fresh {
            outbox: Outbox::of(table.clone()),
            table,
            client,
        })
    }

    /// Prints one result.
    pub(crate) fn tell(
        &self,
        scenario: &str,
        value: f64,
        unit: &str,
        floor: Option<f64>,
        settings: Value,
    ) {
        let line = json!({
            "scenario": scenario,
            "value": rounded(value),
            "unit": unit,
            "floor": floor.map(rounded),
            "ratio": floor.map(|floor| (value / floor * 1000.0).round() / 1000.0),
            "settings": settings,
            "machine": self.machine,
        });
        println!("{line}");
    }
}

fn rounded(value: f64) -> f64 {
    match value.abs() {
        large if large >= 100.0 => value.round(),
        _ => (value * 1000.0).round() / 1000.0,
    }
}

impl Fresh {
    /// Fills the table's name into a statement.
    pub(crate) fn sql(&self, sql: &str) -> String {
        let name = |suffix: &str| {
            format!(
                "\"{}\".\"{}{suffix}\"",
                self.table.schema(),
                self.table.name()
            )
        };
        sql.replace("{outbox}", &name(""))
            .replace("{outbox:attempts}", &name("_attempts"))
            .replace("{outbox:relay}", &name("_relay"))
    }

    /// Fills the outbox with pending events, as if they had been enqueued over the last while.
    pub(crate) async fn fill(&self, events: i64) -> Result {
        self.fill_keys(events, None).await
    }

    /// The same, with the events spread over this many ordering keys.
    pub(crate) async fn fill_keys(&self, events: i64, keys: Option<i64>) -> Result {
        let sql = self.sql(
            "insert into {outbox} (id, topic, aggregate_type, aggregate_id, ordering_key, payload) \
             select (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7' \
                     || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid, \
                    'shop.order.placed.v1', 'Order', n::text, (n % $2::bigint)::text, \
                    jsonb_build_object('order', n, 'note', repeat('x', 220)) \
             from generate_series(1, $1::bigint) n",
        );
        self.client.execute(&sql, &[&events, &keys]).await?;
        self.settle_down().await
    }

    /// So that no measurement pays for the one before.
    pub(crate) async fn settle_down(&self) -> Result {
        self.client
            .batch_execute(&self.sql("vacuum analyze {outbox}"))
            .await?;
        Ok(self.client.batch_execute("checkpoint").await?)
    }

    pub(crate) async fn drop(self) -> Result {
        let sql = format!("drop schema \"{}\" cascade", self.table.schema());
        Ok(self.client.batch_execute(&sql).await?)
    }
}

pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A message with a payload of 250 bytes of JSON.
pub(crate) fn message(n: u64) -> Message {
    let payload = json!({"order": n, "note": "x".repeat(225)});
    Message::json("shop.order.placed.v1", &payload)
        .expect("JSON")
        .aggregate("Order", n.to_string())
}
