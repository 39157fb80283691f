use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::TcpListener;

use super::guard::{Guard, Guarded};
use super::*;
use crate::sample;

/// Looks the same name up differently every time.
struct Rebinding {
    answers: Vec<Vec<SocketAddr>>,
    asked: AtomicUsize,
}

impl Rebinding {
    fn new(answers: Vec<Vec<SocketAddr>>) -> Self {
        Self {
            answers,
            asked: AtomicUsize::new(0),
        }
    }
}

impl Resolve for Rebinding {
    fn resolve(&self, _: Name) -> Resolving {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst) % self.answers.len();
        let found = self.answers[turn].clone();
        Box::pin(async move { Ok(Box::new(found.into_iter()) as Addrs) })
    }
}

#[tokio::test]
async fn a_name_that_changes_its_address_gains_nothing() {
    let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = inside.local_addr().unwrap();
    // What was looked up first was fine, but it is not what would be dialled.
    let resolver = Rebinding::new(vec![vec![address]]);
    let url = format!("http://rebinding.example:{}/", address.port());
    let sink = Http::builder(url).build_with(resolver).unwrap();
    let event = Arc::new(sample::full().await);
    for _ in 0..3 {
        let outcome = sink.deliver(event.clone()).await;
        let Outcome::Unavailable(why) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(why.contains("rebinding.example is at 127.0.0.1"), "{why}");
    }
    let knock = tokio::time::timeout(std::time::Duration::from_millis(100), inside.accept());
    assert!(knock.await.is_err(), "it was dialled");
}

#[tokio::test]
async fn of_several_addresses_only_the_allowed_are_left() {
    let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
    let answers = vec![
        vec![at("8.8.8.8")],
        vec![at("127.0.0.1"), at("8.8.8.8"), at("::1")],
        vec![at("10.0.0.1"), at("::ffff:10.0.0.1")],
        vec![],
    ];
    let guarded = Guarded {
        guard: Guard::default(),
        resolver: Arc::new(Rebinding::new(answers)),
    };
    for expected in [
        Some(vec![at("8.8.8.8")]),
        Some(vec![at("8.8.8.8")]),
        None,
        Some(vec![]),
    ] {
        let found = guarded.resolve("name.example".parse().unwrap()).await;
        assert_eq!(found.ok().map(Iterator::collect::<Vec<_>>), expected);
    }
}
