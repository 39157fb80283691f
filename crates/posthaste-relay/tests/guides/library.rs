//! `docs/library.md`.

mod outbox {
    use posthaste::{Table, schema};

    async fn set_up(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
        let table = Table::parse("shop.orders_outbox")?;
        schema::apply(client, &table).await?;
        Ok(())
    }

    #[tokio::test]
    async fn it_can_be_set_up_at_every_start() {
        let url = posthaste_testkit::scene::database().await;
        let mut client = posthaste_testkit::outbox::connect(&url).await;
        set_up(&mut client).await.unwrap();
        set_up(&mut client).await.unwrap();
        let events = "select count(*) from shop.orders_outbox";
        let events = client.query_one(events, &[]).await.unwrap();
        assert_eq!(events.get::<_, i64>(0), 0);
    }
}

mod own_sink {
    use posthaste_relay::sink::{self, Outcome, Sink};

    fn webhook() -> impl Sink {
        sink::from_fn(|event| async move {
            // With the HTTP client of your choice.
            match post(&event.payload).await {
                Ok(200..=299) => Outcome::Delivered,
                Ok(413) => Outcome::Reject("too large".into()), // dead at once
                Ok(status) => Outcome::Retry(format!("status {status}")), // later again, costs an attempt
                Err(error) => Outcome::Unavailable(error.to_string()), // nobody's fault: all wait
            }
        })
    }

    use std::io::{Error, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::OnceLock;

    use posthaste::store::{Claim, Store};
    use posthaste::{Message, TopicRule};
    use posthaste_testkit::file::FreshFile;

    static ENDPOINT: OnceLock<TcpListener> = OnceLock::new();

    /// The smallest client.
    async fn post(body: &[u8]) -> std::io::Result<u16> {
        let request = format!("POST / HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        let sent = [request.as_bytes(), body].concat();
        let Some(endpoint) = ENDPOINT.get() else {
            return Err(Error::other("nobody listens"));
        };
        let address = endpoint.local_addr()?;
        let answer = tokio::task::spawn_blocking(move || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(&sent)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        let answer = answer.await??;
        let status = answer.split(' ').nth(1).and_then(|text| text.parse().ok());
        status.ok_or_else(|| Error::other("not HTTP"))
    }

    /// Answers each call with the status that its body names.
    fn answer(listener: TcpListener) {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 1024];
            let mut got = 0;
            let body = loop {
                got += stream.read(&mut request[got..]).unwrap();
                let text = String::from_utf8_lossy(&request[..got]).into_owned();
                match text.split_once("\r\n\r\n") {
                    Some((_, body)) if body.len() >= 3 => break body.to_owned(),
                    _ => {}
                }
            };
            write!(stream, "HTTP/1.0 {body} So\r\n\r\n").unwrap();
        }
    }

    #[tokio::test]
    async fn it_says_what_came_of_it() {
        let file = FreshFile::new();
        let store = file.store().await;
        let message = |status: u16| Message::json(crate::TOPIC, &status).unwrap();
        let messages = [204, 413, 500].map(message);
        store.enqueue(&messages, TopicRule::Strict).await.unwrap();
        let events = store.claim(&Claim::new(3)).await.unwrap().events;
        let sink = webhook();
        let first = std::sync::Arc::new(events[0].clone());
        let away = Outcome::Unavailable("nobody listens".to_owned());
        assert_eq!(sink.deliver(first).await, away);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let answering = listener.try_clone().unwrap();
        std::thread::spawn(move || answer(answering));
        ENDPOINT.set(listener).unwrap();
        let mut outcomes = Vec::new();
        for event in events {
            outcomes.push(sink.deliver(event.into()).await);
        }
        let rejected = Outcome::Reject("too large".to_owned());
        let retried = Outcome::Retry("status 500".to_owned());
        assert_eq!(outcomes, [Outcome::Delivered, rejected, retried]);
    }
}

mod bus {
    use posthaste_relay::sink::Bus;

    #[derive(serde::Deserialize)]
    struct Placed {
        order: u64,
    }

    fn handlers() -> Bus {
        Bus::new()
            .on_json("shop.order.placed.v1", |event, placed: Placed| async move {
                println!("order {}, told by event {}", placed.order, event.id);
                Ok::<(), std::io::Error>(())
            })
            .on("shop.*", |event| async move {
                println!("{} bytes about {}", event.payload.len(), event.topic);
                Ok::<(), std::io::Error>(())
            })
    }

    use posthaste::store::Store;
    use posthaste::{Message, Status, TopicRule};
    use posthaste_relay::Relay;
    use posthaste_testkit::file::FreshFile;
    use posthaste_testkit::scene::eventually;

    #[tokio::test]
    async fn handlers_get_what_they_subscribed_to() {
        let file = FreshFile::new();
        let store = file.store().await;
        let message = |topic: &str, text: &str| Message::json_text(topic, text).unwrap();
        let messages = [
            message(crate::TOPIC, "{\"order\": 42}"),
            message("shop.order.paid.v1", "{}"),
            message(crate::TOPIC, "{\"order\": \"none\"}"),
            message("farm.cow.milked.v1", "{}"),
        ];
        let receipts = store.enqueue(&messages, TopicRule::Strict).await.unwrap();
        let relay = Relay::builder(file.store().await).max_attempts(1);
        let relay = relay.destination("bus", handlers()).build().unwrap();
        let settled = eventually("all is settled", async || {
            let stats = store.stats().await.unwrap();
            stats.pending + stats.processing == 0
        });
        relay.run(settled).await;
        let expected = [
            (Status::Delivered, ""),
            (Status::Delivered, ""),
            (Status::Dead, "bus.undecodable"),
            (Status::Dead, "bus.no_subscribers"),
        ];
        for (receipt, (status, error)) in receipts.iter().zip(expected) {
            let record = store.show(receipt.id).await.unwrap().unwrap();
            let said = record.last_error.unwrap_or_default();
            assert!(record.status == status && said.contains(error), "{said}");
        }
    }
}

mod aggregate {
    use posthaste::{EnqueueError, Message, Outbox, Recorded};

    struct Order {
        id: i64,
        paid: bool,
        events: Recorded,
    }

    impl Order {
        fn pay(&mut self) -> Result<(), EnqueueError> {
            self.paid = true;
            let paid = Message::json("shop.order.paid.v1", &self.id)?;
            self.events.record(paid);
            Ok(())
        }
    }

    async fn save(
        order: &mut Order,
        client: &mut tokio_postgres::Client,
        outbox: &Outbox,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let transaction = client.transaction().await?;
        let update = "update orders set paid = $2 where id = $1";
        transaction
            .execute(update, &[&order.id, &order.paid])
            .await?;
        let saved = outbox.save(&transaction, [&mut order.events]).await?;
        saved.after(transaction.commit()).await?;
        Ok(())
    }

    use posthaste::Store;
    use posthaste_testkit::outbox::Fresh;

    #[tokio::test]
    async fn its_events_are_saved_with_it_and_once() {
        let mut fresh = Fresh::new().await;
        let schema = fresh.table.schema().to_owned();
        let orders = format!(
            "set search_path = {schema}; create table orders (id bigint, paid boolean);
             insert into orders values (42, false)"
        );
        fresh.client.batch_execute(&orders).await.unwrap();
        let mut order = Order {
            id: 42,
            paid: false,
            events: Recorded::default(),
        };
        order.pay().unwrap();
        for _ in 0..2 {
            save(&mut order, &mut fresh.client, &fresh.outbox)
                .await
                .unwrap();
        }
        let paid = fresh.client.query_one("select paid from orders", &[]).await;
        assert!(paid.unwrap().get::<_, bool>(0));
        assert_eq!(fresh.store().await.stats().await.unwrap().pending, 1);
    }
}
