//! `docs/tracing.md`.

mod enqueue {
    use posthaste::{Outbox, TableError, TraceContext};

    fn outbox() -> Result<Outbox, TableError> {
        Ok(Outbox::new("public.orders_outbox")?.trace_with(TraceContext::opentelemetry))
    }

    use opentelemetry::Context;
    use opentelemetry::trace::{
        SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState,
    };
    use posthaste::Message;

    #[tokio::test]
    async fn the_current_span_is_stored_with_the_event() {
        let url = posthaste_testkit::scene::database().await;
        let outbox = outbox().unwrap();
        posthaste::schema::apply_at(&url, outbox.table())
            .await
            .unwrap();
        let mut client = posthaste_testkit::outbox::connect(&url).await;
        let current = SpanContext::new(
            TraceId::from_bytes([7; 16]),
            SpanId::from_bytes([9; 8]),
            TraceFlags::SAMPLED,
            true,
            TraceState::default(),
        );
        let transaction = client.transaction().await.unwrap();
        let message = Message::json(crate::TOPIC, &42).unwrap();
        let enqueue = outbox.enqueue(&transaction, &message);
        let context = Context::new().with_remote_span_context(current);
        opentelemetry::context::FutureExt::with_context(enqueue, context)
            .await
            .unwrap();
        transaction.commit().await.unwrap();
        let stored = "select traceparent from orders_outbox";
        let stored = client.query_one(stored, &[]).await.unwrap();
        let expected = format!("00-{}-{}-01", "07".repeat(16), "09".repeat(8));
        assert_eq!(stored.get::<_, &str>(0), expected);
    }
}

mod relay {
    use posthaste_relay::{Relay, SettingsError, sink};

    fn relay(store: impl posthaste::Store) -> Result<Relay, SettingsError> {
        Relay::builder(store)
            .destination("log", sink::stdout())
            .trace_with(posthaste_relay::OPENTELEMETRY)
            .build()
    }

    #[tokio::test]
    async fn a_relay_that_traces_delivers() {
        crate::arrives(relay).await;
    }
}
