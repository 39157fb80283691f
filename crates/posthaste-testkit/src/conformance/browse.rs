//! Browse: pages of events by when they ended or are due.

use posthaste::store::{Claim, Filter, Mark, Order, PAGE_LOOK, Settlement, Verdict};
use posthaste::{Event, Message, Pattern, Record, Status, Store};
use uuid::Uuid;

use super::{HOUR, TOPIC, enqueue, ids, message, messages, reject, retry, settle};
use crate::bed::Bed;

/// All pages of a filter.
async fn pages(store: &impl Store, filter: &Filter, order: Order, size: u32) -> Vec<Record> {
    let mut found = Vec::new();
    let mut from: Option<Mark> = None;
    loop {
        let page = store.browse(filter, order, from, size).await.unwrap();
        assert!(page.records.len() <= size as usize);
        found.extend(page.records);
        match page.next {
            Some(next) => from = Some(next),
            None => return found,
        }
    }
}

// K6
pub async fn pages_come_newest_or_oldest_first_without_gaps_and_repeats(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(8)).await;
    let events = store.claim(&Claim::new(6)).await.unwrap().events;
    for event in &events[..2] {
        settle(&store, event, Verdict::Delivered { keep: true }).await;
    }
    reject(&store, &events[2]).await;
    retry(&store, &events[3], HOUR).await;
    reject(&store, &events[4]).await;
    let mut expected = super::all(&store).await;
    expected.sort_by_key(Record::place);
    let any = Filter::default();
    for size in [1, 3, 8, 100] {
        let oldest = pages(&store, &any, Order::OldestFirst, size).await;
        assert_eq!(ids(&oldest), ids(&expected), "{size} at once");
        let mut newest = pages(&store, &any, Order::NewestFirst, size).await;
        newest.reverse();
        assert_eq!(ids(&newest), ids(&expected), "{size} at once");
    }
    assert_eq!(expected.last().map(|record| record.id), Some(events[3].id));
    let none = store.browse(&any, Order::NewestFirst, None, 0).await;
    assert!(none.unwrap().records.is_empty());
}

// K6
pub async fn a_page_keeps_to_its_filter(bed: impl Bed) {
    let store = bed.relay().await;
    let other = Message::bytes("shop.order.paid.v1", "text/plain", "x");
    enqueue(&bed, &[message(), other.clone(), message(), other]).await;
    let events = store.claim(&Claim::new(3)).await.unwrap().events;
    reject(&store, &events[0]).await;
    reject(&store, &events[1]).await;
    settle(&store, &events[2], Verdict::Delivered { keep: true }).await;
    let found = async |filter: &Filter| {
        let found = pages(&store, filter, Order::OldestFirst, 2).await;
        found
            .iter()
            .map(|record| record.sequence)
            .collect::<Vec<_>>()
    };
    let status = |status: &[Status]| Filter {
        status: status.to_vec(),
        ..Filter::default()
    };
    assert_eq!(found(&status(&[Status::Dead])).await, [1, 2]);
    assert_eq!(found(&status(&[Status::Delivered])).await, [3]);
    assert_eq!(found(&status(&[Status::Pending])).await, [4]);
    assert!(found(&status(&[Status::Processing])).await.is_empty());
    let both = status(&[Status::Pending, Status::Delivered]);
    assert_eq!(found(&both).await.len(), 2);
    let topic = Filter {
        topic: Some(Pattern::new(TOPIC)),
        ..status(&[Status::Dead])
    };
    assert_eq!(found(&topic).await, [1]);
    let named = Filter {
        ids: vec![events[1].id, events[2].id, Uuid::new_v4()],
        ..Filter::default()
    };
    assert_eq!(found(&named).await, [2, 3]);
    let odd = Filter {
        error: Some("\0".to_owned()),
        ..Filter::default()
    };
    assert!(found(&odd).await.is_empty());
}

// Looking for what is rare must not take longer and longer: the page ends, and says where.
pub async fn a_page_that_finds_little_says_where_to_go_on(bed: impl Bed) {
    let store = bed.relay().await;
    let rare = Message::bytes("shop.order.paid.v1", "text/plain", "x");
    enqueue(&bed, std::slice::from_ref(&rare)).await;
    for _ in 0..2 {
        enqueue(&bed, &messages(PAGE_LOOK as usize / 2 + 10)).await;
    }
    let filter = Filter {
        topic: Some(Pattern::new("shop.order.paid.v1")),
        ..Filter::default()
    };
    let found = pages(&store, &filter, Order::NewestFirst, 5).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].sequence, 1);
}

// K6: what a page looked at, and where it ended, are from one moment.
pub async fn pages_pass_over_nothing_that_stays_while_a_relay_works(bed: impl Bed) {
    const WANTED: &str = "shop.order.paid.v1";
    let (store, relay) = (bed.relay().await, bed.relay().await);
    let wanted = Message::bytes(WANTED, "text/plain", "x");
    for _ in 0..4 {
        let pairs = [message(), wanted.clone()];
        let some: Vec<Message> = pairs
            .into_iter()
            .cycle()
            .take(PAGE_LOOK as usize / 2)
            .collect();
        enqueue(&bed, &some).await;
    }
    let filter = Filter {
        topic: Some(Pattern::new(WANTED)),
        ..Filter::default()
    };
    let others = Claim {
        except_topics: vec![WANTED.to_owned()],
        ..Claim::new(4000)
    };
    let events = relay.claim(&others).await.unwrap().events;
    let delivers = async {
        for few in events.chunks(10) {
            let delivered = Verdict::Delivered { keep: false };
            let settle = |event: &Event| Settlement::new(event.lease, delivered.clone());
            let settlements: Vec<Settlement> = few.iter().map(settle).collect();
            relay.settle(&settlements).await.unwrap();
        }
    };
    let looks = pages(&store, &filter, Order::OldestFirst, PAGE_LOOK);
    let ((), found) = tokio::join!(delivers, looks);
    assert_eq!(found.len(), PAGE_LOOK as usize);
}
