//! Asks PostgreSQL how it runs a statement of the store, and reads the answer.

use posthaste_testkit::outbox::{Fresh, connect};
use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage};

/// A connection that is set up as one of the store's.
pub(crate) struct Session<'f> {
    fresh: &'f Fresh,
    client: Client,
}

/// How a statement was run.
pub(crate) struct Plan {
    root: Value,
    /// Rows that it changed.
    pub(crate) changed: u64,
    /// Pages that it touched.
    pub(crate) buffers: u64,
    pub(crate) milliseconds: f64,
}

impl<'f> Session<'f> {
    pub(crate) async fn new(fresh: &'f Fresh, setup: &str) -> Self {
        let client = connect(&fresh.url).await;
        client.batch_execute(setup).await.expect("settings");
        Self { fresh, client }
    }

    /// Runs a statement with these parameters, and undoes what it did.
    pub(crate) async fn explain(&self, sql: &str, parameters: &str) -> Plan {
        let sql = self.fresh.sql(sql);
        let parameters = match parameters {
            "" => String::new(),
            some => format!("({some})"),
        };
        let text = format!(
            "deallocate all; prepare statement as {sql}; begin;
             explain (analyze, buffers, format json) execute statement {parameters}; rollback;"
        );
        let answer = self.client.simple_query(&text).await.expect("a plan");
        let rows: String = answer
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            })
            .collect();
        let answer: Value = serde_json::from_str(&rows).expect("a plan in JSON");
        let root = answer[0]["Plan"].clone();
        Plan {
            buffers: buffers(&root),
            changed: changed(&root),
            milliseconds: answer[0]["Execution Time"].as_f64().unwrap_or(0.0),
            root,
        }
    }
}

impl Plan {
    /// Every node that reads the outbox does so by row address, or by an index with a condition.
    pub(crate) fn goes_along_indexes(&self, name: &str) {
        let mut reads = 0;
        visit(&self.root, &mut |node| {
            let kind = node["Node Type"].as_str().unwrap_or_default();
            if node["Relation Name"] != "outbox" || kind == "ModifyTable" {
                return;
            }
            reads += 1;
            let along = match kind {
                "Tid Scan" => true,
                "Index Scan" | "Index Only Scan" => node.get("Index Cond").is_some(),
                _ => false,
            };
            assert!(along, "{name} reads the outbox by {kind}:\n{node:#}");
        });
        assert!(reads > 0, "{name} does not read the outbox");
    }

    /// Every node that reads the outbox does so along an index.
    pub(crate) fn never_reads_the_whole_table(&self, name: &str) {
        visit(&self.root, &mut |node| {
            let kind = node["Node Type"].as_str().unwrap_or_default();
            let along = matches!(
                kind,
                "Index Scan" | "Index Only Scan" | "Bitmap Heap Scan" | "Tid Scan"
            );
            let is_outbox = node["Relation Name"] == "outbox";
            assert!(
                !is_outbox || along,
                "{name} reads the outbox by {kind}:\n{node:#}"
            );
        });
    }

    /// The indexes that it finds events by, in the order of the plan. Empty: it reads them all.
    pub(crate) fn indexes(&self) -> Vec<String> {
        let mut indexes = Vec::new();
        visit(&self.root, &mut |node| {
            assert_ne!(node["Node Type"], "Seq Scan", "reads everything:\n{node:#}");
            indexes.extend(node["Index Name"].as_str().map(str::to_owned));
        });
        indexes
    }

    /// How often it looked for attempts, each time along their index.
    pub(crate) fn looks_at_attempts(&self) -> u64 {
        let mut looks = 0;
        visit(&self.root, &mut |node| {
            let loops = whole(&node["Actual Loops"]);
            if node["Relation Name"] == "outbox_attempts"
                && node["Node Type"] != "ModifyTable"
                && loops > 0
            {
                assert!(node.get("Index Cond").is_some(), "{node:#}");
                looks += loops;
            }
        });
        looks
    }

    /// Pages that it touched to find events by their index.
    pub(crate) fn buffers_of_index_scans(&self) -> u64 {
        let mut sum = 0;
        visit(&self.root, &mut |node| {
            if node["Node Type"] == "Index Scan" {
                sum += buffers(node);
            }
        });
        sum
    }
}

/// Pages that a node touched, and those below it.
fn buffers(node: &Value) -> u64 {
    let count = |field| whole(&node[field]);
    count("Shared Hit Blocks") + count("Shared Read Blocks")
}

/// Rows that came out of what a change reads: its own count is of what it returns.
fn changed(root: &Value) -> u64 {
    let mut changed = 0;
    visit(root, &mut |node| {
        if node["Node Type"] == "ModifyTable" && node["Relation Name"] == "outbox" {
            let input = |plan: &&Value| plan["Parent Relationship"] == "Outer";
            let input = node["Plans"].as_array().into_iter().flatten().find(input);
            changed += input.map_or(0, |plan| whole(&plan["Actual Rows"]));
        }
    });
    changed
}

fn visit(node: &Value, see: &mut impl FnMut(&Value)) {
    see(node);
    for below in node["Plans"].as_array().into_iter().flatten() {
        visit(below, see);
    }
}

/// An array of PostgreSQL, as text.
pub(crate) fn array<T: ToString>(values: impl Iterator<Item = T>) -> String {
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    format!("'{{{}}}'", values.join(","))
}

/// A count, which PostgreSQL 18 and later write with decimals.
fn whole(number: &serde_json::Value) -> u64 {
    number.as_f64().map_or(0, |number| number.round() as u64)
}
