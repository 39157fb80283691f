//! What only a store on SQLite does: who may relay, what wakes it, how its statements look.

use std::time::{Duration, Instant};

use posthaste::store::sqlite::Sqlite;
use posthaste::store::{Act, Claim, OnFailure, Ordering, Settlement, Store, Verdict};
use posthaste::{Message, StoreError};
use posthaste_testkit::file::FreshFile;

fn message() -> Message {
    Message::json("shop.order.placed.v1", &1).unwrap()
}

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn is_woken(store: &Sqlite) {
    tokio::time::timeout(PATIENCE, store.woken()).await.unwrap();
}

/// Waits out what was there to wake for before the test began.
async fn settle_down(store: &Sqlite) {
    let calm = Duration::from_millis(500);
    while tokio::time::timeout(calm, store.woken()).await.is_ok() {}
}

#[tokio::test]
async fn a_relay_is_woken_when_somebody_else_commits() {
    let file = FreshFile::new();
    let (one, other) = (file.store().await, file.store().await);
    one.claim(&Claim::new(1)).await.unwrap();
    settle_down(&one).await;
    settle_down(&other).await;
    file.enqueue(&[message()]);
    tokio::join!(is_woken(&one), is_woken(&other));
}

// The longer nothing happens, the more rarely it looks; but it does.
#[tokio::test]
async fn a_relay_that_was_idle_for_long_is_woken_too() {
    let file = FreshFile::new();
    let store = file.store().await;
    store.claim(&Claim::new(1)).await.unwrap();
    settle_down(&store).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    file.enqueue(&[message()]);
    is_woken(&store).await;
}

#[tokio::test]
async fn what_a_relay_does_itself_wakes_nobody() {
    let file = FreshFile::new();
    let store = file.store().await;
    file.enqueue(&vec![message(); 3]);
    // It watches from its first claim on.
    store.claim(&Claim::new(0)).await.unwrap();
    settle_down(&store).await;
    for _ in 0..3 {
        assert_eq!(store.claim(&Claim::new(1)).await.unwrap().events.len(), 1);
        let moment = Duration::from_millis(60);
        assert!(tokio::time::timeout(moment, store.woken()).await.is_err());
    }
}

// M15
#[tokio::test]
async fn a_relay_is_woken_when_an_operator_acts() {
    let file = FreshFile::new();
    let (relay, operator) = (file.store().await, file.store().await);
    let receipts = file.enqueue(&[message()]);
    relay.claim(&Claim::new(1)).await.unwrap();
    settle_down(&relay).await;
    let act = Act {
        actor: "ann".to_owned(),
        why: "a test".to_owned(),
    };
    operator.discard(&[receipts[0].id], &act).await.unwrap();
    is_woken(&relay).await;
}

/// Has the lock that another process would have.
fn other_process(file: &FreshFile) -> std::fs::File {
    process_with_number(4242, file)
}

fn process_with_number(pid: impl ToString, file: &FreshFile) -> std::fs::File {
    let path = file.dir.join("shop.db-relay");
    std::fs::write(&path, pid.to_string()).unwrap();
    let lock = std::fs::File::open(path).unwrap();
    lock.try_lock().unwrap();
    lock
}

#[tokio::test]
async fn while_another_process_relays_the_file_one_can_only_look_and_act() {
    let file = FreshFile::new();
    let receipts = file.enqueue(&[message()]);
    let store = file.store().await;
    let lock = other_process(&file);
    let taken = [
        store.claim(&Claim::new(1)).await.map(drop),
        store.take_over().await.map(drop),
        store.lead().await.map(drop),
    ];
    for refused in taken {
        let error = refused.unwrap_err();
        assert!(matches!(error, StoreError::Taken { .. }), "{error}");
        assert_eq!(error.code(), "store.taken");
        assert!(error.to_string().contains("process 4242"), "{error}");
        assert!(error.to_string().contains("shop.db"), "{error}");
    }
    assert_eq!(store.stats().await.unwrap().pending, 1);
    assert!(store.show(receipts[0].id).await.unwrap().is_some());
    store.leave().await.unwrap();
    drop(lock);
    assert_eq!(store.claim(&Claim::new(1)).await.unwrap().events.len(), 1);
}

// It tries twice a second, on the thread that others wait for.
#[tokio::test]
async fn while_another_process_relays_the_file_no_try_but_the_first_waits_for_it() {
    let file = FreshFile::new();
    let store = file.store().await;
    for pid in [4242, std::process::id()] {
        let lock = process_with_number(pid, &file);
        let began = Instant::now();
        for _ in 0..400 {
            let error = store.take_over().await.unwrap_err();
            assert_eq!(error.code(), "store.taken", "{error}");
        }
        // Each would have waited for at least 50 ms.
        assert!(began.elapsed() < Duration::from_secs(20));
        drop(lock);
        store.take_over().await.unwrap();
        store.leave().await.unwrap();
    }
}

// In a container of its own it may have a number that nobody has here, or ours.
#[tokio::test]
async fn who_relays_the_file_is_known_by_its_lock_and_not_by_its_number() {
    let file = FreshFile::new();
    let store = file.store().await;
    assert!(store.relays().await.unwrap().is_empty());
    for pid in [Some(4_194_304), Some(std::process::id()), None] {
        // On a disk that is full it cannot say its number.
        let lock = process_with_number(pid.map_or_else(String::new, |pid| pid.to_string()), &file);
        let relays = store.relays().await.unwrap();
        let [relay] = &relays[..] else {
            panic!("{relays:?}");
        };
        assert!(relay.alive && relay.leads);
        assert_eq!(relay.pid, pid);
        drop(lock);
        let relays = store.relays().await.unwrap();
        assert!(
            relays.is_empty(),
            "it is gone, its number is not: {relays:?}"
        );
    }
    // Whoever looks is in nobody's way, unless a busy machine makes a glance a long look.
    for round in 1..=5 {
        let lock = std::fs::File::open(file.dir.join("shop.db-relay")).unwrap();
        lock.try_lock_shared().unwrap();
        let glance = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            drop(lock);
        });
        let claimed = store.claim(&Claim::new(1)).await;
        glance.join().unwrap();
        match claimed {
            Ok(_) => break,
            Err(error) => assert!(round < 5, "{error}"),
        }
        // One who tried in vain waits for nobody the next time.
        store.take_over().await.unwrap();
        store.leave().await.unwrap();
    }
    let relays = store.relays().await.unwrap();
    assert_eq!(relays[0].pid, Some(std::process::id()), "{relays:?}");
}

// N4
#[tokio::test]
async fn what_an_earlier_process_had_leased_is_taken_over_at_once() {
    let file = FreshFile::new();
    file.enqueue(&vec![message(); 3]);
    let lease = "update {outbox} set status = 'processing', attempts = 1, lease_epoch = 1, \
                 lease_owner = '0197f3a0-5f6e-7c5c-b0a5-3d4c2f1e0d9b', lease_until = 9000000000000000";
    file.open().execute_batch(&file.sql(lease)).unwrap();
    let store = file.store().await;
    assert!(store.claim(&Claim::new(9)).await.unwrap().events.is_empty());
    assert_eq!(store.take_over().await.unwrap(), 1);
    let events = store.claim(&Claim::new(9)).await.unwrap().events;
    assert!(events.len() == 3 && events.iter().all(|event| event.lease.epoch == 2));
}

#[tokio::test]
async fn the_right_to_relay_ends_with_the_last_relay_of_the_process() {
    let file = FreshFile::new();
    let (one, other) = (file.store().await, file.store().await);
    let is_free = || {
        let lock = std::fs::File::open(file.dir.join("shop.db-relay")).unwrap();
        lock.try_lock().is_ok()
    };
    one.take_over().await.unwrap();
    other.take_over().await.unwrap();
    assert!(!is_free());
    one.leave().await.unwrap();
    assert!(!is_free());
    drop(other);
    let deadline = Instant::now() + PATIENCE;
    while !is_free() {
        assert!(Instant::now() < deadline, "nobody relays any more");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    one.take_over().await.unwrap();
    assert!(!is_free());
}

// A cleaner of old files, or somebody who types too much: two processes would relay it from then on.
#[tokio::test]
async fn a_relay_whose_lock_was_removed_notices_and_gives_way_to_who_took_it() {
    let file = FreshFile::new();
    file.enqueue(&vec![message(); 3]);
    let (one, other) = (file.store().await, file.store().await);
    let claim = Claim::new(1);
    let event = one.claim(&claim).await.unwrap().events.remove(0);
    assert!(other.lead().await.unwrap());
    let before = one.owner();
    let path = file.dir.join("shop.db-relay");
    std::fs::remove_file(&path).unwrap();
    let lock = other_process(&file);
    for store in [&one, &other] {
        let error = store.claim(&claim).await.unwrap_err();
        assert_eq!(error.code(), "store.taken", "{error}");
    }
    drop(lock);
    // Nobody knows what became of its event meanwhile, and both are others now.
    assert_eq!(one.take_over().await.unwrap(), 2);
    assert_ne!(one.owner(), before);
    let events = one.claim(&Claim::new(9)).await.unwrap().events;
    assert!(events.iter().any(|again| again.id == event.id));
    other.take_over().await.unwrap();
    let relays = other.relays().await.unwrap();
    assert!(
        relays
            .iter()
            .all(|relay| relay.pid.is_none_or(|pid| pid == std::process::id())),
        "{relays:?}"
    );
    let lock = std::fs::File::open(path).unwrap();
    assert!(lock.try_lock().is_err(), "they hold what others try");
}

// Restored from a copy: what is written to the file that was there before would reach nobody.
#[tokio::test]
async fn a_relay_goes_on_in_the_file_that_was_put_in_the_place_of_its_own() {
    let (file, copy) = (FreshFile::new(), FreshFile::new());
    let (one, other) = (file.store().await, file.store().await);
    file.enqueue(&vec![message(); 3]);
    let claim = Claim::new(9);
    assert_eq!(one.claim(&claim).await.unwrap().events.len(), 3);
    other.take_over().await.unwrap();
    let receipts = copy.enqueue(&vec![message(); 2]);
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(file.dir.join(format!("shop.db{suffix}")));
    }
    std::fs::rename(copy.path(), file.path()).unwrap();
    assert_eq!(other.stats().await.unwrap().pending, 2);
    let events = one.claim(&claim).await.unwrap().events;
    let found: Vec<_> = events.iter().map(|event| event.id).collect();
    assert_eq!(
        found,
        receipts
            .iter()
            .map(|receipt| receipt.id)
            .collect::<Vec<_>>()
    );
    assert!(other.claim(&claim).await.unwrap().events.is_empty());
    // And it is woken by what is written there.
    settle_down(&one).await;
    file.enqueue(&[message()]);
    is_woken(&one).await;
    // A file that is gone is told.
    std::fs::remove_file(file.path()).unwrap();
    let error = other.stats().await.unwrap_err();
    assert_eq!(error.code(), "store.denied", "{error}");
}

// Whoever copies a database into place begins with an empty file: to make that one a database is to write over what comes.
#[tokio::test]
async fn a_file_that_is_empty_is_left_alone_until_it_is_filled() {
    let (file, copy) = (FreshFile::new(), FreshFile::new());
    let store = file.store().await;
    file.enqueue(&[message()]);
    let event = store.claim(&Claim::new(1)).await.unwrap().events.remove(0);
    copy.enqueue(&[message()]);
    copy.open()
        .execute_batch("pragma journal_mode = delete")
        .unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(file.dir.join(format!("shop.db{suffix}")));
    }
    std::fs::write(file.path(), "").unwrap();
    let by_key = Claim {
        ordering: Ordering::Key(OnFailure::Block),
        ..Claim::new(1)
    };
    let delivered = Settlement::new(event.lease, Verdict::Delivered { keep: true });
    for told in [
        store.claim(&Claim::new(1)).await.map(drop),
        store.claim(&by_key).await.map(drop),
        store.take_over().await.map(drop),
        store.stats().await.map(drop),
        // Whoever relays goes on trying: it is no word about what is settled.
        store.settle(&[delivered]).await.map(drop),
    ] {
        let error = told.unwrap_err();
        assert_eq!(error.code(), "schema.missing", "{error}");
        assert!(
            error
                .to_string()
                .contains("shop.db, which is empty, is not set up"),
            "{error}"
        );
    }
    assert_eq!(std::fs::metadata(file.path()).unwrap().len(), 0);
    // As `cp` does: into the file that is there.
    std::fs::write(file.path(), std::fs::read(copy.path()).unwrap()).unwrap();
    store.take_over().await.unwrap();
    assert_eq!(store.claim(&Claim::new(9)).await.unwrap().events.len(), 1);
}

// N4: while somebody rebuilds the table it may not be there.
#[tokio::test]
async fn what_was_delivered_while_the_table_was_away_is_settled_once_it_is_back() {
    let file = FreshFile::new();
    let store = file.store().await;
    file.enqueue(&[message()]);
    let event = store.claim(&Claim::new(1)).await.unwrap().events.remove(0);
    let delivered = [Settlement::new(
        event.lease,
        Verdict::Delivered { keep: true },
    )];
    let rename = |from: &str, to: &str| {
        let sql = format!("alter table \"{from}\" rename to \"{to}\"");
        file.open().execute_batch(&sql).unwrap();
    };
    rename("shop.outbox", "away");
    let error = store.settle(&delivered).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    rename("away", "shop.outbox");
    assert_eq!(store.settle(&delivered).await.unwrap().applied, 1);
}

#[tokio::test]
async fn an_address_with_a_parameter_is_the_same_file_or_refused() {
    let file = FreshFile::new();
    file.enqueue(&[message()]);
    let at = async |parameters: &str| {
        let address = format!("{}{parameters}", file.address());
        Sqlite::connect(&address, file.table.clone()).await
    };
    let store = at("?mode=rwc").await.unwrap();
    assert_eq!(store.stats().await.unwrap().pending, 1);
    for parameters in ["?mode=ro", "?cache=shared", "?mode=rwc&cache=shared"] {
        let error = at(parameters).await.err().unwrap();
        assert_eq!(error.code(), "store.settings", "{error}");
        assert!(error.to_string().contains("sqlite:shop.db"), "{error}");
    }
}

// A writer that takes its time is waited for.
#[tokio::test]
async fn a_file_that_is_locked_is_waited_for() {
    let file = FreshFile::new();
    let store = file.store().await;
    file.enqueue(&[message()]);
    let connection = file.open();
    connection.execute_batch("begin immediate").unwrap();
    let claim = tokio::spawn(async move { store.claim(&Claim::new(1)).await });
    // Longer than SQLite's own patience.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!claim.is_finished());
    connection.execute_batch("commit").unwrap();
    assert_eq!(claim.await.unwrap().unwrap().events.len(), 1);
}

#[tokio::test]
async fn a_look_that_finds_nothing_waits_for_no_writer() {
    let file = FreshFile::new();
    let store = file.store().await;
    store.take_over().await.unwrap();
    let connection = file.open();
    connection.execute_batch("begin immediate").unwrap();
    let claim = Claim::new(1);
    let claimed = tokio::time::timeout(PATIENCE, store.claim(&claim)).await;
    assert!(claimed.unwrap().unwrap().events.is_empty());
}

/// What the planner says about a statement.
fn plan(file: &FreshFile, sql: &str) -> String {
    let connection = file.open();
    let sql = file.sql(sql).replace("{now}", "1");
    let sql = sql.replace("{literal}", "'shop.outbox'");
    let sql = sql.replace("{name:", "\"shop.outbox_");
    let sql = sql.replace("}", "\"");
    let mut statement = connection
        .prepare(&format!("explain query plan {sql}"))
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = statement
        .raw_query()
        .mapped(|row| row.get::<_, String>(3))
        .map(Result::unwrap);
    rows.collect::<Vec<_>>().join("\n")
}

// As an application may have them made while there was little, for a file that is large by now.
#[test]
fn statistics_of_a_small_outbox_make_no_claim_read_all_of_a_large_one() {
    let file = FreshFile::new();
    let messages: Vec<Message> = (0..10)
        .map(|n| message().ordering_key(format!("key-{n}")))
        .collect();
    file.enqueue(&messages);
    file.open().execute_batch("analyze").unwrap();
    for sql in [
        include_str!("../../sql/sqlite/due.sql"),
        include_str!("../../sql/sqlite/ready.sql"),
    ] {
        let plan = plan(&file, sql);
        let reads_all = |line: &&str| line.contains("SCAN e") || line.ends_with("SCAN shop.outbox");
        assert_eq!(plan.lines().find(reads_all), None, "{plan}");
    }
}

#[test]
fn hot_statements_go_along_the_indexes_of_live_events() {
    let file = FreshFile::new();
    for (sql, index) in [
        (include_str!("../../sql/sqlite/due.sql"), "outbox_due"),
        (include_str!("../../sql/sqlite/ready.sql"), "outbox_due"),
        (include_str!("../../sql/sqlite/ready.sql"), "outbox_keyed"),
        (include_str!("../../sql/sqlite/stats.sql"), "outbox_due"),
        (include_str!("../../sql/sqlite/leased.sql"), "outbox_due"),
        (include_str!("../../sql/sqlite/deliver.sql"), "outbox_event"),
        (
            include_str!("../../sql/sqlite/deliver_delete.sql"),
            "outbox_event",
        ),
        (include_str!("../../sql/sqlite/settle.sql"), "outbox_event"),
        (include_str!("../../sql/sqlite/extend.sql"), "outbox_event"),
        (include_str!("../../sql/sqlite/old.sql"), "outbox_delivered"),
        (include_str!("../../sql/sqlite/old.sql"), "outbox_dead"),
        (
            include_str!("../../sql/sqlite/finished.sql"),
            "outbox_delivered",
        ),
        (
            include_str!("../../sql/sqlite/list_some.sql"),
            "outbox_dead",
        ),
        (
            include_str!("../../sql/sqlite/existing.sql"),
            "outbox_event",
        ),
        (
            include_str!("../../sql/sqlite/existing.sql"),
            "outbox_dedupe",
        ),
        (
            include_str!("../../sql/sqlite/existing_all.sql"),
            "outbox_dedupe",
        ),
    ] {
        let plan = plan(&file, sql);
        assert!(plan.contains(index), "{plan}");
        assert!(
            !plan.lines().any(|line| line.ends_with("SCAN shop.outbox")),
            "{plan}"
        );
    }
    let due = plan(&file, include_str!("../../sql/sqlite/due.sql"));
    assert!(!due.contains("TEMP B-TREE"), "already in order: {due}");
    let take = plan(&file, include_str!("../../sql/sqlite/take.sql"));
    assert!(take.contains("INTEGER PRIMARY KEY"), "{take}");
}
