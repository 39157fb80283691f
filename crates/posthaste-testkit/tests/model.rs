//! Whatever is done to them, the stores on PostgreSQL, on SQLite and in memory come to the same
//! states. Time is made to pass by hours, so that the moments which a test takes do not matter.

mod world;

use posthaste::DeadReason;
use posthaste::store::{Claim, Clean, OnFailure, Ordering, Scope, Verdict};
use proptest::prelude::*;
use proptest::sample::Index;
use world::{Mail, Step, World};

fn mail() -> impl Strategy<Value = Mail> {
    (
        0..3_usize,
        0..2_usize,
        prop::option::weighted(0.2, 0..2_usize),
    )
        .prop_map(|(key, topic, dedupe)| Mail {
            key: [None, Some("a"), Some("b")][key],
            topic,
            dedupe,
        })
}

fn letters() -> impl Strategy<Value = Option<String>> {
    prop::option::of(Just(world::LETTERS.to_owned()))
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        any::<bool>().prop_map(|keep| Verdict::Delivered { keep }),
        (0..3_u32).prop_map(|hours| Verdict::Retry {
            delay: hours * world::HOUR,
            error: format!("wait {hours}"),
        }),
        letters().prop_map(|letter| Verdict::Dead {
            reason: DeadReason::Rejected,
            error: "too odd".to_owned(),
            letter,
        }),
        Just(Verdict::Release),
        (0..3_u32).prop_map(|hours| Verdict::Postpone {
            delay: hours * world::HOUR,
        }),
    ]
}

fn ordering() -> impl Strategy<Value = Ordering> {
    prop_oneof![
        Just(Ordering::None),
        Just(Ordering::Key(OnFailure::Block)),
        Just(Ordering::Key(OnFailure::Park)),
        Just(Ordering::Key(OnFailure::Skip)),
    ]
}

fn claim() -> impl Strategy<Value = Claim> {
    let limit = prop_oneof![Just(5_u32), Just(100)];
    let attempts = prop_oneof![1 => Just(1_u32), 1 => Just(2), 4 => Just(25)];
    let topics = prop_oneof![4 => Just(vec![]), 1 => Just(vec![world::topic(1)])];
    let except = prop_oneof![4 => Just(vec![]), 1 => Just(vec![world::topic(0)])];
    let order = (ordering(), letters());
    (limit, attempts, topics, except, order, 1..20_u32).prop_map(
        |(limit, max_attempts, topics, except_topics, (ordering, dead_letters), hours)| Claim {
            lease: hours * world::HOUR,
            max_attempts,
            scope: Scope {
                topics,
                ..Scope::default()
            },
            except_topics,
            ordering,
            dead_letters,
            ..Claim::new(limit)
        },
    )
}

fn clean() -> impl Strategy<Value = Clean> {
    (0..12_u32, prop::option::of(0..12_u32), any::<bool>()).prop_map(|(hours, dead, archive)| {
        Clean {
            retention: hours * world::HOUR,
            dead_retention: dead.map(|hours| hours * world::HOUR),
            archive,
            // Of events that die of one claim it is open which was first.
            limit: if dead.is_none() { 2 } else { 100 },
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let relay = || 0..2_usize;
    prop_oneof![
        4 => prop::collection::vec(mail(), 1..4).prop_map(Step::Enqueue),
        6 => (relay(), claim()).prop_map(|(relay, claim)| Step::Claim(relay, claim)),
        8 => prop::collection::vec((any::<Index>(), verdict()), 1..4).prop_map(Step::Settle),
        1 => (any::<Index>(), 0..20_u32).prop_map(|(lease, hours)| Step::Extend(lease, hours)),
        3 => (1..12_u32).prop_map(Step::Pass),
        1 => relay().prop_map(Step::Kill),
        1 => relay().prop_map(Step::Leave),
        2 => relay().prop_map(Step::TakeOver),
        1 => relay().prop_map(Step::Lead),
        2 => any::<Index>().prop_map(Step::Redeliver),
        1 => any::<Index>().prop_map(Step::Discard),
        1 => clean().prop_map(Step::Clean),
    ]
}

// M7, M8, M9, M15, N4, B7, B14, F10
#[test]
fn postgres_sqlite_and_memory_come_to_the_same_states() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let world = std::cell::RefCell::new(runtime.block_on(World::new()));
    let cases = std::env::var("PROPTEST_CASES").ok();
    let config = ProptestConfig {
        cases: cases.map_or(64, |cases| cases.parse().expect("a number of cases")),
        max_shrink_iters: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..40))| {
        let mut world = world.borrow_mut();
        runtime.block_on(async {
            world.start_over().await;
            for step in &steps {
                world.take(step).await?;
                world.compare().await?;
            }
            Ok::<(), TestCaseError>(())
        })?;
    });
}
