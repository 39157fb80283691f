//! A SQLite file whose disk is full, that cannot be written to, or that is damaged: a clear error, nothing
//! lost, and work goes on by itself once that is mended.
//!
//! Disks are made for the purpose, in a process with mounts of its own: that needs root, or a system
//! that lets users have namespaces.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::collections::HashSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use posthaste::store::sqlite::Sqlite;
use posthaste::store::{Claim, Settlement, Verdict};
use posthaste::{Event, Message, Store, StoreError, Table};
use posthaste_relay::Relay;
use posthaste_relay::sink::{Outcome, from_fn};
use posthaste_testkit::disk::{SmallDisk, has_own_mounts, is_root, mount};
use posthaste_testkit::file::FreshFile;
use tokio::sync::Semaphore;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(30);

fn message() -> Message {
    Message::bytes("shop.order.placed.v1", "text/plain", vec![b'x'; 500])
}

/// A small disk, and an outbox on it.
struct OnSmallDisk {
    file: FreshFile,
    disk: SmallDisk,
}

impl OnSmallDisk {
    fn new() -> Self {
        let name = format!("posthaste-disk-{}", Uuid::new_v4().simple());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        let disk = SmallDisk::on(&folder, 3);
        Self {
            file: FreshFile::within(&folder),
            disk,
        }
    }

    /// Leaves no space, not even in what SQLite has written before.
    fn fill(&self) {
        let checkpoint = "pragma wal_checkpoint(truncate)";
        self.file
            .open()
            .query_row(checkpoint, [], |_| Ok(()))
            .unwrap();
        self.disk.fill();
    }

    fn free(&self) {
        self.disk.free();
    }
}

fn is_sound(file: &FreshFile) {
    let sound: String = file
        .open()
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
}

fn delivered(events: &[Event]) -> Vec<Settlement> {
    let verdict = Verdict::Delivered { keep: true };
    let settle = |event: &Event| Settlement {
        lease: event.lease,
        tried: None,
        verdict: verdict.clone(),
    };
    events.iter().map(settle).collect()
}

#[tokio::test]
async fn a_full_disk_is_told_and_changes_nothing() {
    if !has_own_mounts("a_full_disk_is_told_and_changes_nothing") {
        return;
    }
    let disk = OnSmallDisk::new();
    let store = disk.file.store().await;
    disk.file.enqueue(&vec![message(); 50]);
    let held = store.claim(&Claim::new(10)).await.unwrap().events;
    disk.fill();

    for refused in [
        store.claim(&Claim::new(10)).await.map(drop),
        store.settle(&delivered(&held)).await.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, StoreError::Full(_)), "{error:?}");
        assert_eq!(error.code(), "store.full");
    }
    // Looking needs no space.
    assert_eq!(store.stats().await.unwrap().pending, 40);
    // A producer is told, too, and its transaction is over.
    let mut connection = disk.file.open();
    let transaction = connection.transaction().unwrap();
    let refused = disk
        .file
        .outbox
        .enqueue_all_sync(&transaction, &vec![message(); 2000])
        .map(drop)
        .and_then(|()| {
            transaction
                .commit()
                .map_err(|error| posthaste::EnqueueError::Database(error.into()))
        });
    assert_eq!(refused.unwrap_err().code(), "outbox.database");

    disk.free();
    is_sound(&disk.file);
    let settled = store.settle(&delivered(&held)).await.unwrap();
    assert_eq!((settled.applied, settled.lost.len()), (10, 0));
    let rest = store.claim(&Claim::new(100)).await.unwrap().events;
    assert_eq!(rest.len(), 40);
    assert!(rest.iter().all(|event| event.attempts == 1));
    is_sound(&disk.file);
}

/// A relay that writes down what it delivers.
struct Running {
    seen: Arc<Mutex<Vec<Uuid>>>,
    /// How many deliveries may still be made.
    allowed: Arc<Semaphore>,
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(store: Sqlite) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let allowed = Arc::new(Semaphore::new(0));
        let (ledger, gate) = (seen.clone(), allowed.clone());
        let sink = from_fn(move |event: Arc<Event>| {
            let (ledger, gate) = (ledger.clone(), gate.clone());
            async move {
                gate.acquire().await.unwrap().forget();
                ledger.lock().unwrap().push(event.id);
                Outcome::Delivered
            }
        });
        let relay = Relay::builder(store)
            .in_flight(20)
            .batch_size(20)
            .destination("ledger", sink)
            .build()
            .unwrap();
        let task = tokio::spawn(relay.run(async {
            let _ = stopped.await;
        }));
        Self {
            seen,
            allowed,
            stop,
            task,
        }
    }

    async fn until(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen: HashSet<Uuid> = self.seen.lock().unwrap().iter().copied().collect();
            if seen.len() >= count {
                return;
            }
            assert!(Instant::now() < deadline, "{} of {count}", seen.len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn stop(self) -> Vec<Uuid> {
        let _ = self.stop.send(());
        self.task.await.unwrap();
        Arc::into_inner(self.seen).unwrap().into_inner().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_goes_on_by_itself_once_there_is_space_again() {
    if !has_own_mounts("a_relay_goes_on_by_itself_once_there_is_space_again") {
        return;
    }
    let disk = OnSmallDisk::new();
    let mut expected: HashSet<Uuid> = HashSet::new();
    let relay = Running::start(disk.file.store().await);
    let store = disk.file.store().await;
    for round in 1..=3 {
        let receipts = disk.file.enqueue(&vec![message(); 200]);
        expected.extend(receipts.iter().map(|receipt| receipt.id));
        // Half of them: the disk is full before it is through, however long that takes.
        relay.allowed.add_permits(100);
        relay.until((round - 1) * 200 + 20).await;
        disk.fill();
        relay.allowed.add_permits(100);
        tokio::time::sleep(Duration::from_millis(700)).await;
        let stats = store.stats().await.unwrap();
        assert!(stats.pending + stats.processing > 0, "it could not go on");
        disk.free();
        relay.until(round * 200).await;
    }
    let seen = relay.stop().await;
    assert_eq!(seen.iter().copied().collect::<HashSet<_>>(), expected);
    assert_eq!(seen.len(), expected.len(), "nothing is delivered twice");
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.pending, stats.processing, stats.dead), (0, 0, 0));
    is_sound(&disk.file);
}

#[tokio::test]
async fn a_disk_that_is_read_only_is_told_and_mended() {
    if !has_own_mounts("a_disk_that_is_read_only_is_told_and_mended") {
        return;
    }
    let disk = OnSmallDisk::new();
    disk.file.enqueue(&vec![message(); 3]);
    // Connections are closed by their threads, in a moment.
    let deadline = Instant::now() + PATIENCE;
    while !mount(&["-o", "remount,ro"], &disk.disk.folder) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(50));
    }
    let store = Sqlite::connect(&disk.file.address(), disk.file.table.clone()).await;
    let error = match store {
        Ok(store) => store.claim(&Claim::new(1)).await.map(drop).unwrap_err(),
        Err(error) => error,
    };
    assert!(
        matches!(error, StoreError::ReadOnly(_) | StoreError::Denied(_)),
        "{error:?}"
    );
    assert!(mount(&["-o", "remount,rw"], &disk.disk.folder));
    let store = disk.file.store().await;
    assert_eq!(store.claim(&Claim::new(9)).await.unwrap().events.len(), 3);
    is_sound(&disk.file);
}

// Root may do anything: what permissions do is seen by somebody else.
#[tokio::test]
async fn a_file_without_permission_is_told() {
    if let Some(path) = std::env::var_os("POSTHASTE_DENIED") {
        let (path, table) = (PathBuf::from(path), Table::parse("shop.outbox").unwrap());
        let connect = async |name: &str| {
            let address = format!("sqlite:{}", path.join(name).display());
            Sqlite::connect(&address, table.clone()).await
        };
        let unreadable = connect("unreadable.db").await.map(drop).unwrap_err();
        assert!(
            matches!(unreadable, StoreError::Denied(_)),
            "{unreadable:?}"
        );
        assert_eq!(unreadable.code(), "store.denied");
        let error = match connect("shop.db").await {
            Ok(store) => store.claim(&Claim::new(1)).await.map(drop).unwrap_err(),
            Err(error) => error,
        };
        assert!(
            matches!(error, StoreError::ReadOnly(_) | StoreError::Denied(_)),
            "{error:?}"
        );
        return;
    }
    let file = FreshFile::new();
    std::fs::copy(file.path(), file.dir.join("unreadable.db")).unwrap();
    let may = |name: &str, mode| {
        std::fs::set_permissions(file.dir.join(name), Permissions::from_mode(mode)).unwrap();
    };
    may("unreadable.db", 0o000);
    may("shop.db", 0o444);
    // Where others can get at it.
    let program = file.dir.join("this-test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    may("this-test", 0o755);
    may("", 0o555);
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.arg(&program);
            command
        }
        false => Command::new(&program),
    };
    let status = command
        .args([
            "--exact",
            "a_file_without_permission_is_told",
            "--nocapture",
        ])
        .env("POSTHASTE_DENIED", &file.dir)
        .status()
        .expect("setpriv, of util-linux");
    may("", 0o755);
    assert!(status.success());
}

#[tokio::test]
async fn a_damaged_file_is_told_and_left_as_it_is() {
    let file = FreshFile::new();
    file.enqueue(&vec![message(); 100]);
    let good = std::fs::read(file.path()).unwrap();
    assert!(good.len() > 4096 * 10);
    // No database at all; one with a sound first page; half a one.
    let garbage = vec![0x5a; good.len()];
    let mut rotten = good.clone();
    rotten[4096..].fill(0x5a);
    let half = good[..good.len() / 2].to_vec();
    let not_one = b"this is a text".to_vec();
    for (n, bad) in [garbage, rotten, half, not_one].into_iter().enumerate() {
        std::fs::write(file.path(), &bad).unwrap();
        let error = match Sqlite::connect(&file.address(), file.table.clone()).await {
            Ok(store) => {
                let error = store.claim(&Claim::new(100)).await.map(drop).unwrap_err();
                assert_eq!(
                    store.stats().await.unwrap_err().code(),
                    "store.corrupt",
                    "{n}"
                );
                error
            }
            Err(error) => error,
        };
        assert!(matches!(error, StoreError::Corrupt(_)), "{n}: {error:?}");
        assert_eq!(error.code(), "store.corrupt");
        let applied = posthaste::schema::apply_at(&file.address(), &file.table).await;
        assert_eq!(
            applied.map_err(|error| error.code()),
            Err("store.corrupt"),
            "{n}"
        );
        assert!(
            std::fs::read(file.path()).unwrap() == bad,
            "{n}: it is left as it is"
        );
        for beside in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(file.dir.join(format!("shop.db{beside}")));
        }
    }
    std::fs::write(file.path(), &good).unwrap();
    let store = file.store().await;
    assert_eq!(
        store.claim(&Claim::new(100)).await.unwrap().events.len(),
        100
    );
}

#[tokio::test]
async fn a_store_works_again_when_a_damaged_file_was_restored() {
    let file = FreshFile::new();
    file.enqueue(&vec![message(); 100]);
    let good = std::fs::read(file.path()).unwrap();
    let store = file.store().await;
    let mut rotten = good.clone();
    rotten[4096..].fill(0x5a);
    std::fs::write(file.path(), &rotten).unwrap();
    let error = store.claim(&Claim::new(100)).await.map(drop).unwrap_err();
    assert_eq!(error.code(), "store.corrupt");
    std::fs::write(file.path(), &good).unwrap();
    assert_eq!(
        store.claim(&Claim::new(100)).await.unwrap().events.len(),
        100
    );
}

// B2
#[tokio::test]
async fn many_processes_may_apply_at_once() {
    let table = Table::parse("shop.outbox").unwrap();
    if let Ok(address) = std::env::var("POSTHASTE_APPLY") {
        assert_eq!(
            posthaste::schema::apply_at(&address, &table).await.unwrap(),
            3
        );
        return;
    }
    let file = FreshFile::new();
    let address = format!("sqlite:{}", file.dir.join("new.db").display());
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "many_processes_may_apply_at_once"])
            .env("POSTHASTE_APPLY", &address)
            .spawn()
            .unwrap()
    };
    let processes: Vec<_> = (0..6).map(|_| start()).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    posthaste::schema::check_at(&address, &table).await.unwrap();
}

#[tokio::test]
async fn what_is_no_file_is_told() {
    let file = FreshFile::new();
    let folder = format!("sqlite:{}", file.dir.display());
    let error = Sqlite::connect(&folder, file.table.clone()).await.map(drop);
    assert_eq!(error.unwrap_err().code(), "store.denied");
}

// The table's own limit, without a disk of its own.
#[tokio::test]
async fn a_producer_that_reaches_its_limit_is_told_and_nothing_is_kept() {
    let file = FreshFile::new();
    let mut connection = file.open();
    connection
        .query_row("pragma max_page_count = 40", [], |_| Ok(()))
        .unwrap();
    let transaction = connection.transaction().unwrap();
    let refused = file
        .outbox
        .enqueue_all_sync(&transaction, &vec![message(); 500])
        .unwrap_err();
    assert_eq!(refused.code(), "outbox.database");
    assert!(format!("{refused:?}").contains("full"), "{refused:?}");
    drop(transaction);
    assert_eq!(file.store().await.stats().await.unwrap().pending, 0);
    is_sound(&file);
}
