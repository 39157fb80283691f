//! The SQL of the guide for consumers, on both databases.

use posthaste::{Table, schema};

use crate::{Server, repository};

/// The blocks of a guide in this language.
fn blocks(guide: &str, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join(guide)).unwrap();
    let fence = format!("```{language}\n");
    let rest = |part: &str| part.split("```").next().unwrap_or_default().to_owned();
    text.split(&fence).skip(1).map(rest).collect()
}

fn statement() -> String {
    let [statement] = &blocks("docs/consumer.md", "sql")[..] else {
        panic!("docs/consumer.md has one statement");
    };
    statement.clone()
}

#[tokio::test]
async fn the_consumers_statement_finds_out_what_is_new_on_postgres() {
    let server = Server::start();
    let connected = tokio_postgres::connect(&server.address(), tokio_postgres::NoTls).await;
    let (client, connection) = connected.unwrap();
    tokio::spawn(connection);
    let inbox = schema::inbox_sql(&Table::parse("inbox").unwrap());
    client.batch_execute(&inbox).await.unwrap();
    for rows in [1, 0] {
        let touched = client.execute(&statement(), &[]).await.unwrap();
        assert_eq!(touched, rows);
    }
}

#[test]
fn the_consumers_statement_finds_out_what_is_new_on_sqlite() {
    let file = rusqlite::Connection::open_in_memory().unwrap();
    let inbox = schema::sqlite::inbox_sql(&Table::parse("inbox").unwrap());
    file.execute_batch(&inbox.unwrap()).unwrap();
    for rows in [1, 0] {
        assert_eq!(file.execute(&statement(), []).unwrap(), rows);
    }
}
