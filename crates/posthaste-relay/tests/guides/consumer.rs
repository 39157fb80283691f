//! `docs/consumer.md`.

mod inbox {
    use posthaste::{Inbox, Once};

    async fn handle(
        client: &mut tokio_postgres::Client,
        inbox: &Inbox, // Inbox::new("billing.inbox")?, made once
        event_id: uuid::Uuid,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let transaction = client.transaction().await?;
        if inbox.once(&transaction, "invoices", event_id).await? == Once::First {
            let insert = "insert into invoices default values";
            transaction.execute(insert, &[]).await?;
        }
        transaction.commit().await?; // then acknowledge to the broker
        Ok(())
    }

    use posthaste::{Table, schema};

    #[tokio::test]
    async fn an_event_that_comes_again_makes_no_second_invoice() {
        let url = posthaste_testkit::scene::database().await;
        let mut client = posthaste_testkit::outbox::connect(&url).await;
        let table = Table::parse("billing.inbox").unwrap();
        schema::apply_inbox(&mut client, &table).await.unwrap();
        let make = "create table invoices (id bigint generated always as identity)";
        client.batch_execute(make).await.unwrap();
        let inbox = Inbox::new("billing.inbox").unwrap();
        let (one, other) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        for event in [one, one, other] {
            handle(&mut client, &inbox, event).await.unwrap();
        }
        let invoices = client.query_one("select count(*) from invoices", &[]);
        assert_eq!(invoices.await.unwrap().get::<_, i64>(0), 2);
    }
}

mod compressed {
    use posthaste::{DEFAULT_PAYLOAD_LIMIT, DecompressError};

    fn payload(encoding: Option<&str>, body: Vec<u8>) -> Result<bytes::Bytes, DecompressError> {
        posthaste::decompress(encoding, body.into(), DEFAULT_PAYLOAD_LIMIT)
    }

    use posthaste::store::{Claim, Store};
    use posthaste::{Compression, Message, header};
    use posthaste_testkit::file::FreshFile;
    use rusqlite::TransactionBehavior::Immediate;

    #[tokio::test]
    async fn what_was_compressed_is_read_and_what_was_not_is_too() {
        let file = FreshFile::new();
        let compression = Compression {
            above: 1000,
            ..Compression::default()
        };
        let outbox = file.outbox.clone().compress(compression);
        let large = format!("\"{}\"", "lamp ".repeat(1000));
        let mut connection = file.open();
        let transaction = connection.transaction_with_behavior(Immediate).unwrap();
        for text in [&*large, "42"] {
            let message = Message::json_text(crate::TOPIC, text).unwrap();
            outbox.enqueue_sync(&transaction, &message).unwrap();
        }
        transaction.commit().unwrap();
        let store = file.store().await;
        let events = store.claim(&Claim::new(2)).await.unwrap().events;
        for (event, text) in events.iter().zip([&*large, "42"]) {
            let encoding = event.headers.get(header::CONTENT_ENCODING);
            assert_eq!(encoding.is_some(), text == large);
            let body = event.payload.to_vec();
            let read = payload(encoding.map(String::as_str), body).unwrap();
            assert_eq!(read, text.as_bytes());
        }
    }
}
