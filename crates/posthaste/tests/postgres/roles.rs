//! What each role may do to an outbox, and what it may not.

use std::time::Duration;

use posthaste::schema::{self, Roles};
use posthaste::store::postgres::Postgres;
use posthaste::store::{
    Act, Claim, Clean, Filter, Grade, JobState, Mark, Order, Redelivery, Settlement, Store, Target,
    Verdict,
};
use posthaste::{DeadReason, Message};
use posthaste_testkit::outbox::{Fresh, connect};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

/// An outbox with roles of its own, and two events in it.
struct Guarded {
    fresh: Fresh,
    roles: Roles,
    ids: Vec<Uuid>,
}

impl Guarded {
    async fn new() -> Self {
        let mut fresh = Fresh::new().await;
        let name = |role: &str| format!("{role}_{}", fresh.table.schema());
        let roles = Roles {
            producer: name("producer"),
            relay: name("relay"),
            reader: name("reader"),
            operator: name("operator"),
        };
        let sql = schema::roles_sql(&fresh.table, &roles);
        fresh.client.batch_execute(&sql).await.unwrap();
        // It can be run again, after a migration or with a further role.
        fresh.client.batch_execute(&sql).await.unwrap();
        let receipts = fresh.enqueue(&[message(), message().dedupe_key("k")]).await;
        let ids = receipts.iter().map(|receipt| receipt.id).collect();
        Self { fresh, roles, ids }
    }

    fn url(&self, role: &str) -> String {
        assert!(!self.fresh.url.contains('?'));
        format!("{}?options=-c%20role%3D{role}", self.fresh.url)
    }

    async fn client(&self, role: &str) -> Client {
        connect(&self.url(role)).await
    }

    async fn store(&self, role: &str) -> Postgres {
        Postgres::connect(&self.url(role), self.fresh.table.clone())
            .await
            .unwrap()
    }

    async fn refuses(&self, role: &str, statements: &[&str]) {
        let client = self.client(role).await;
        for statement in statements {
            let sql = self.sql(statement);
            let error = client.batch_execute(&sql).await.expect_err(statement);
            assert_eq!(
                error.code(),
                Some(&SqlState::INSUFFICIENT_PRIVILEGE),
                "{sql}: {error}"
            );
        }
    }

    async fn allows(&self, role: &str, statements: &[&str]) {
        let client = self.client(role).await;
        for statement in statements {
            let sql = self.sql(statement);
            let result = client.batch_execute(&sql).await;
            result.unwrap_or_else(|error| panic!("{sql}: {:?}", error.as_db_error()));
        }
    }

    /// `{outbox}` and the objects that are named after it, such as `{outbox}_audit`.
    fn sql(&self, sql: &str) -> String {
        sql.replace("{outbox}", &self.fresh.table.to_string())
    }
}

fn act() -> Act {
    Act {
        actor: "ada".to_owned(),
        why: "fixed".to_owned(),
    }
}

fn message() -> Message {
    Message::json("shop.order.placed.v1", &"secret").unwrap()
}

const WRITES_OF_STATE: [&str; 4] = [
    "update {outbox} set status = 'pending'",
    "update {outbox} set attempts = 0",
    "delete from {outbox}",
    "truncate {outbox}",
];

const WRITES_OF_CONTENT: [&str; 8] = [
    "update {outbox} set payload = '1'",
    "update {outbox} set payload_bytes = ''",
    "update {outbox} set topic = 'other'",
    "update {outbox} set headers = '{}'",
    "update {outbox} set id = gen_random_uuid()",
    "update {outbox} set tenant_id = null",
    "alter table {outbox} add column x integer",
    "drop table {outbox}",
];

const LOOKS_AT_CONTENT: [&str; 5] = [
    "select payload from {outbox}",
    "select payload_bytes from {outbox}",
    "select headers from {outbox}",
    "select * from {outbox}",
    "select * from {outbox}_archive",
];

#[tokio::test]
async fn a_producer_may_only_enqueue() {
    let guarded = Guarded::new().await;
    let role = &guarded.roles.producer;
    let mut client = guarded.client(role).await;
    let transaction = client.transaction().await.unwrap();
    let outbox = &guarded.fresh.outbox;
    assert!(outbox.enqueue(&transaction, &message()).await.unwrap().new);
    assert!(
        !outbox
            .enqueue(&transaction, &message().dedupe_key("k"))
            .await
            .unwrap()
            .new
    );
    assert!(
        !outbox
            .enqueue(&transaction, &message().id(guarded.ids[0]))
            .await
            .unwrap()
            .new
    );
    outbox
        .enqueue_all(&transaction, &[message(), message()])
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    guarded
        .allows(
            role,
            &[
                "select * from {outbox}_enqueue('shop.order.placed.v1', '1')",
                "select * from {outbox}_enqueue('shop.order.placed.v1', '1', dedupe_key => 'k')",
                "insert into {outbox} (topic, payload) values ('shop.order.placed.v1', '1')",
                "insert into {outbox} (topic, payload, dedupe_key) values ('shop.order.placed.v1', '1', 'k') \
                 on conflict do nothing returning id, sequence",
            ],
        )
        .await;
    guarded.refuses(role, &WRITES_OF_STATE).await;
    guarded.refuses(role, &WRITES_OF_CONTENT).await;
    guarded.refuses(role, &LOOKS_AT_CONTENT).await;
    guarded
        .refuses(
            role,
            &[
                "insert into {outbox} (topic, payload, attempts) values ('t', '1', 5)",
                "insert into {outbox} (topic, payload, created_at) values ('t', '1', 'yesterday')",
                "insert into {outbox} (topic, payload, status, delivered_at) values ('t', '1', 'delivered', now())",
                "insert into {outbox} (topic, payload) values ('t', '1') returning payload",
                "select last_error from {outbox}",
                "select id from {outbox} for update",
                "select from {outbox}_audit",
                "select from {outbox}_relay",
                "insert into {outbox}_relay (owner, name) values (gen_random_uuid(), 'x')",
            ],
        )
        .await;
}

#[tokio::test]
async fn a_relay_moves_events_and_changes_none() {
    let guarded = Guarded::new().await;
    let role = &guarded.roles.relay;
    let store = guarded.store(role).await;
    assert_eq!(store.take_over().await.unwrap(), 0);
    assert!(store.lead().await.unwrap());
    let claimed = store.claim(&Claim::new(1)).await.unwrap().events;
    let lease = claimed[0].lease;
    assert!(
        store
            .extend(&[lease], Duration::from_secs(60))
            .await
            .unwrap()
            .is_empty()
    );
    let settle = async |lease, verdict| {
        let settled = store
            .settle(&[Settlement::new(lease, verdict)])
            .await
            .unwrap();
        assert_eq!(settled.applied, 1);
    };
    settle(lease, Verdict::Release).await;
    let retry = Verdict::Retry {
        delay: Duration::ZERO,
        error: "x".to_owned(),
    };
    let dead = Verdict::Dead {
        reason: DeadReason::Rejected,
        error: "x".to_owned(),
        letter: None,
    };
    let with_letter = Verdict::Dead {
        reason: DeadReason::Rejected,
        error: "x".to_owned(),
        letter: Some("shop.dead-letters.v1".to_owned()),
    };
    let delivered = Verdict::Delivered { keep: true };
    let ends = [retry, dead, with_letter, delivered];
    for verdict in ends {
        let claim = Claim {
            ordering: posthaste::store::Ordering::Key(Default::default()),
            ..Claim::new(1)
        };
        let claimed = store.claim(&claim).await.unwrap().events;
        settle(claimed[0].lease, verdict).await;
    }
    assert_eq!(store.stats().await.unwrap().dead, 2);
    assert!(store.pauses().await.unwrap().is_empty());
    let operator = guarded.store(&guarded.roles.operator).await;
    let everything = Redelivery {
        filter: Filter::default(),
        rate: None,
    };
    let job = operator.start_job(&everything, &act()).await.unwrap();
    let done = store.advance(job.id, 1).await.unwrap().unwrap();
    assert_eq!((done.total, done.redelivered), (2, 1));
    operator
        .set_job(job.id, JobState::Cancelled, &act())
        .await
        .unwrap();
    let claimed = store.claim(&Claim::new(1)).await.unwrap().events;
    let dead = Verdict::Dead {
        reason: DeadReason::Rejected,
        error: "x".to_owned(),
        letter: None,
    };
    settle(claimed[0].lease, dead).await;
    let clean = |archive| Clean {
        retention: Duration::ZERO,
        dead_retention: Some(Duration::ZERO),
        archive,
        limit: 10,
    };
    assert_eq!(store.clean(&clean(true)).await.unwrap(), 3);
    assert_eq!(store.clean(&clean(false)).await.unwrap(), 0);
    assert_eq!(store.list(&Filter::default(), 10).await.unwrap().len(), 0);
    store.leave().await.unwrap();
    guarded.refuses(role, &WRITES_OF_CONTENT).await;
    guarded
        .refuses(
            role,
            &[
                "insert into {outbox} (topic, payload, dedupe_key) values ('t', '1', 'k')",
                "insert into {outbox} (id, topic, payload) values (gen_random_uuid(), 't', '1')",
                "insert into {outbox} (topic, payload, created_at) values ('t', '1', 'yesterday')",
                "insert into {outbox} (topic, payload, status, delivered_at) values ('t', '1', 'delivered', now())",
                "update {outbox} set created_at = now()",
                "update {outbox} set dedupe_key = null",
                "update {outbox} set ordering_key = null",
                "select * from {outbox}_archive",
                "delete from {outbox}_archive",
                "select * from {outbox}_audit",
                "delete from {outbox}_audit",
                "insert into {outbox}_pauses (destination, actor, why) values ('', '', '')",
                "delete from {outbox}_pauses",
                "delete from {outbox}_jobs",
                "truncate {outbox}",
                "select {outbox}_enqueue('shop.order.placed.v1', '1')",
            ],
        )
        .await;
}

#[tokio::test]
async fn a_reader_sees_how_things_stand_but_no_content() {
    let guarded = Guarded::new().await;
    let role = &guarded.roles.reader;
    let store = guarded.store(role).await;
    assert_eq!(store.list(&Filter::default(), 10).await.unwrap().len(), 2);
    assert!(store.show(guarded.ids[0]).await.unwrap().is_some());
    assert_eq!(store.count(&Filter::default()).await.unwrap(), 2);
    assert_eq!(store.finished(None, 10).await.unwrap(), []);
    assert_eq!(store.finished(Some(Mark::START), 10).await.unwrap(), []);
    assert_eq!(store.audit(None, 10).await.unwrap(), []);
    let refused = store.content(guarded.ids[0]).await.unwrap_err();
    assert_eq!(refused.code(), "store.denied");
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.pending, stats.enqueued), (2, Some(2)));
    let any = Filter::default();
    let page = store.browse(&any, Order::NewestFirst, None, 10).await;
    assert_eq!(page.unwrap().records.len(), 2);
    assert_eq!(store.groups(&Filter::default(), 10).await.unwrap(), []);
    assert_eq!(store.history(guarded.ids[0]).await.unwrap(), []);
    assert_eq!(store.pauses().await.unwrap(), []);
    assert_eq!(store.jobs(10).await.unwrap(), []);
    assert_eq!(store.relays().await.unwrap(), []);
    assert_eq!(store.blocked(10).await.unwrap(), []);
    assert!(store.health().await.unwrap().table_bytes.is_some());
    guarded
        .allows(
            role,
            &[
                "select id, status, attempts, last_error, created_at from {outbox} where status = 'dead'",
                "select topic, count(*) from {outbox} group by topic",
                "select * from {outbox}_audit",
                "select * from {outbox}_relay",
            ],
        )
        .await;
    guarded.refuses(role, &WRITES_OF_STATE).await;
    guarded.refuses(role, &WRITES_OF_CONTENT).await;
    guarded.refuses(role, &LOOKS_AT_CONTENT).await;
    guarded
        .refuses(
            role,
            &[
                "insert into {outbox} (topic, payload) values ('t', '1')",
                "select o from {outbox} o",
                "select row_to_json(o) from {outbox} o",
                "select id from {outbox} where payload = '1'",
                "copy {outbox} to stdout",
                "insert into {outbox}_audit (actor, act, event_id, topic, why) values ('', '', gen_random_uuid(), '', '')",
                "select {outbox}_enqueue('shop.order.placed.v1', '1')",
            ],
        )
        .await;
}

// M15
#[tokio::test]
async fn an_operator_brings_events_back_and_leaves_a_trace() {
    let guarded = Guarded::new().await;
    let role = &guarded.roles.operator;
    let relay = guarded.store(&guarded.roles.relay).await;
    let claimed = relay.claim(&Claim::new(2)).await.unwrap().events;
    let dead = Verdict::Dead {
        reason: DeadReason::Rejected,
        error: "x".to_owned(),
        letter: None,
    };
    let verdicts = [dead, Verdict::Delivered { keep: true }];
    let settlements: Vec<Settlement> = claimed
        .iter()
        .zip(verdicts)
        .map(|(event, verdict)| Settlement {
            lease: event.lease,
            tried: None,
            verdict,
        })
        .collect();
    relay.settle(&settlements).await.unwrap();
    let store = guarded.store(role).await;
    let act = act();
    assert!(store.pause(&Target::Outbox, &act).await.unwrap());
    assert!(store.resume(&Target::Outbox, &act).await.unwrap());
    assert_eq!(store.history(guarded.ids[0]).await.unwrap().len(), 1);
    let back = store.redeliver(&guarded.ids, &act).await.unwrap();
    assert_eq!(back.len(), 2);
    assert_eq!(store.discard(&back[..1], &act).await.unwrap().len(), 1);
    assert_eq!(store.audit(None, 10).await.unwrap().len(), 5);
    assert!(store.content(back[0]).await.unwrap().is_some());
    guarded
        .allows(role, &["select * from {outbox}_audit"])
        .await;
    guarded.refuses(role, &WRITES_OF_CONTENT).await;
    guarded
        .refuses(
            role,
            &[
                "delete from {outbox}_audit",
                "update {outbox}_audit set actor = 'someone else'",
                "truncate {outbox}_audit",
                "delete from {outbox}",
                "truncate {outbox}",
                "update {outbox} set lease_owner = null",
                "insert into {outbox} (id, topic, payload) values (gen_random_uuid(), 't', '1')",
            ],
        )
        .await;
}

// B15
#[tokio::test]
async fn an_examination_tells_which_rights_a_relay_would_lack() {
    let guarded = Guarded::new().await;
    let rights = async |role: &str| {
        let findings = guarded.store(role).await.examine().await.unwrap();
        let found = findings.into_iter().find(|found| found.check == "rights");
        found.unwrap()
    };
    let relay = rights(&guarded.roles.relay).await;
    assert_eq!(relay.grade, Grade::Good, "{relay:?}");
    let reader = rights(&guarded.roles.reader).await;
    assert_eq!(reader.grade, Grade::Bad, "{reader:?}");
    assert!(reader.found.contains("delete events"), "{reader:?}");
    assert!(reader.remedy.contains("--roles"), "{reader:?}");
}
