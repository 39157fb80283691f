//! Many deliveries at once, while something happens to the server.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_relay::sink::{Kafka, Outcome, Sink};
use tokio::task::JoinSet;

use crate::cluster::{event_of, message, read};

const PRODUCERS: usize = 32;

/// Delivers events, each until it is delivered, as a relay does.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    producers: JoinSet<(Vec<String>, Vec<Outcome>)>,
}

impl Load {
    pub(crate) fn start(sink: &Arc<Kafka>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = JoinSet::new();
        for producer in 0..PRODUCERS {
            let (sink, stop) = (sink.clone(), stop.clone());
            producers.spawn(async move {
                let (mut delivered, mut others) = (Vec::new(), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let event = event_of(message().ordering_key(format!("{producer}"))).await;
                    loop {
                        match sink.deliver(event.clone()).await {
                            Outcome::Delivered => break,
                            other => others.push(other),
                        }
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    delivered.push(event.id.to_string());
                }
                (delivered, others)
            });
        }
        Self { stop, producers }
    }

    /// Ends it, and checks: all that was acknowledged is there, in the order of each key, and no
    /// event was blamed. Gives back how often the destination was down for one.
    pub(crate) async fn end(self, brokers: &str, topic: &str) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let producers = tokio::time::timeout(Duration::from_secs(60), self.producers.join_all());
        let producers = producers.await.expect("the destination is used again");
        let mut first = HashSet::new();
        let records = read(brokers, topic).await;
        let arrived: Vec<_> = records
            .iter()
            .filter(|record| first.insert(record.id()))
            .map(|record| (record.key.clone().unwrap(), record.id()))
            .collect();
        let mut outages = 0;
        for (producer, (delivered, others)) in producers.into_iter().enumerate() {
            let key = delivered.first().and_then(|id| {
                let found = arrived.iter().find(|(_, known)| known == id);
                found.map(|(key, _)| key.clone())
            });
            let key = key.unwrap_or_else(|| panic!("producer {producer}: nothing arrived"));
            let of_key = arrived.iter().filter(|(known, _)| *known == key);
            let of_key: Vec<_> = of_key.map(|(_, id)| id.clone()).collect();
            assert!(of_key == delivered, "lost or out of order");
            for outcome in &others {
                assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
            }
            outages += others.len();
        }
        outages
    }
}
