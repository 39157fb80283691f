//! A real producer for whole-flow tests on SQLite: it commits and rolls back, and keeps a ledger of it.
//!
//! `flow-producer <file> <table> <ledger> <place>`, until SIGTERM. Each line of the ledger is a letter and
//! ids: `T` before a transaction ends, then `C` if it committed or `R` if it rolled back.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste::{Message, Outbox, Receipt, Table};
use rusqlite::{Connection, TransactionBehavior};

const TOPIC: &str = "shop.order.placed.v1";
const KEYS: u32 = 7;

fn note(ledger: &mut File, letter: char, receipts: &[Receipt]) -> std::io::Result<()> {
    let ids = receipts.iter().map(|receipt| format!(" {}", receipt.id));
    let line = format!("{letter}{}\n", ids.collect::<String>());
    ledger.write_all(line.as_bytes())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, table, ledger, place] = &words[..] else {
        return Err("give it a file, a table, a ledger and a place".into());
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut asked = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let told = stop.clone();
    tokio::spawn(async move {
        asked.recv().await;
        told.store(true, Ordering::SeqCst);
    });
    let mut connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(60))?;
    connection.execute_batch("create table if not exists orders (id integer)")?;
    let outbox = Outbox::of(Table::parse(table)?);
    // Whoever sees the ledger knows that SIGTERM is obeyed.
    let mut ledger = OpenOptions::new().create(true).append(true).open(ledger)?;
    let mut round: u32 = 0;
    while !stop.load(Ordering::SeqCst) {
        round += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let messages: Vec<Message> = (0..1 + round % 4)
            .map(|n| {
                let key = format!("{place}-{}", (round * 4 + n) % KEYS);
                let text = format!("{{\"n\":{n}}}");
                Message::json_text(TOPIC, text).map(|message| message.ordering_key(key))
            })
            .collect::<Result<_, _>>()?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("insert into orders values (?1)", [round])?;
        let receipts = outbox.enqueue_all_sync(&transaction, &messages)?;
        note(&mut ledger, 'T', &receipts)?;
        if round % 6 == 5 {
            transaction.rollback()?;
            note(&mut ledger, 'R', &receipts)?;
        } else {
            transaction.commit()?;
            note(&mut ledger, 'C', &receipts)?;
        }
    }
    Ok(())
}
