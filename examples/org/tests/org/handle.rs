//! The bus and its typed handlers: each event has its effect once, and no failure goes unnoticed.

use std::sync::Arc;

use org::{
    Announced, Command, Directory, EmployeeHired, HRM_OUTBOX, ORG_OUTBOX, OrganizationCreated,
    Totals, connect,
};
use posthaste::store::{Act, Filter, Scope};
use posthaste::{DeadReason, Event, Message, Outbox, Status};
use posthaste_relay::sink::{Bus, Outcome, Sink};
use uuid::Uuid;

use crate::support::*;

/// Enqueues what no module would.
async fn enqueue(scene: &Scene, table: &str, message: Message) -> Uuid {
    let outbox = Outbox::new(table).unwrap();
    let mut client = connect(&scene.address).unwrap().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let receipt = outbox.enqueue(&transaction, &message).await.unwrap();
    transaction.commit().await.unwrap();
    receipt.id
}

// org-2.1, org-2.3, org-3.5, org-5.2.6, org-6.2.6, B11
#[tokio::test]
async fn the_directory_comes_to_know_all_that_both_modules_do_whatever_arrives_first() {
    let scene = Scene::new().await;
    let directory = Directory::open(&scene.address).unwrap();
    // Hired before there is an organization: the handler says so, and the event comes again.
    let organization = Uuid::now_v7();
    let early = scene
        .staff
        .hire(&scene.command(), organization, "Ada")
        .await
        .unwrap();
    let relays = scene.relays(&[], directory.bus()).await;
    let hrm = open(&scene.address, HRM_OUTBOX).await;
    eventually("the first attempt has failed", async || {
        let event = hrm.show(early.id).await.unwrap().unwrap();
        event
            .last_error
            .is_some_and(|error| error.contains("is not in the directory yet"))
    })
    .await;
    let organizations = &scene.organizations;
    organizations
        .create(&scene.command(), organization, "Nuts")
        .await
        .unwrap();
    organizations
        .rename(&scene.command(), organization, "Bolts")
        .await
        .unwrap();
    let other = Uuid::now_v7();
    organizations
        .create(&scene.command(), other, "Nuts")
        .await
        .unwrap();
    organizations
        .dissolve(&scene.command(), other)
        .await
        .unwrap();
    scene.until_settled().await;
    relays.stop().await;
    let totals = Totals::of(&scene.address).await.unwrap();
    assert!(totals.agree(), "{totals}");
    assert_eq!((totals.organizations, totals.employees), ([2, 2], [1, 1]));
}

// org-2.3, org-2.9, org-4.1.18, org-5.2.7, org-10.4.4, B4
#[tokio::test]
async fn an_event_that_is_delivered_twice_has_its_effect_once_by_its_id() {
    let scene = Scene::new().await;
    let organization = Uuid::now_v7();
    scene
        .organizations
        .create(&scene.command(), organization, "Nuts")
        .await
        .unwrap();
    scene
        .staff
        .hire(&scene.command(), organization, "Ada")
        .await
        .unwrap();
    let bus = Arc::new(Directory::open(&scene.address).unwrap().bus());
    // Handled, but the relay does not hear of it.
    let forgetful = posthaste_relay::sink::from_fn(move |event: Arc<Event>| {
        let bus = bus.clone();
        async move {
            match bus.deliver(event.clone()).await {
                Outcome::Delivered if event.attempts == 1 => Outcome::Retry("lost".to_owned()),
                outcome => outcome,
            }
        }
    });
    let relays = scene.relays(&[], forgetful).await;
    scene.until_settled().await;
    relays.stop().await;
    let totals = Totals::of(&scene.address).await.unwrap();
    assert!(totals.agree(), "{totals}");
    let twice = "select min(attempts)::bigint from hrm_outbox";
    assert!(scene.number(twice).await >= 2);
}

// org-1.2, org-5.2.4, org-5.2.5, org-9.2, B11, B22
#[tokio::test]
async fn an_event_that_nobody_subscribes_to_fails_with_a_code_and_is_not_swallowed() {
    let scene = Scene::new().await;
    let bus = Directory::open(&scene.address).unwrap().bus();
    let message = Message::json("org.organization.merged.v1", &1).unwrap();
    let event = enqueue(&scene, ORG_OUTBOX, message).await;
    let relays = scene
        .relays(&[("OUTBOX_RELAY_MAX_ATTEMPTS", "1")], bus)
        .await;
    let event = scene.until(event, Status::Dead).await;
    relays.stop().await;
    let error = event.last_error.unwrap();
    assert!(error.starts_with("bus.no_subscribers: "), "{error}");
    assert!(error.contains("org.organization.merged.v1"), "{error}");
}

// org-5.2.1, org-5.2.2, org-5.2.3, org-9.2, B11
#[tokio::test]
async fn every_handler_runs_and_their_errors_and_panics_are_told_together() {
    let scene = Scene::new().await;
    let event = scene.create("Nuts").await;
    let bus = Bus::new()
        .on(OrganizationCreated::TOPIC, |_| async {
            Err::<(), _>(std::io::Error::other("first"))
        })
        .on(OrganizationCreated::TOPIC, |event: Arc<Event>| async move {
            match event.attempts {
                0 => Outcome::Delivered,
                _ => panic!("second"),
            }
        })
        .on_json("org.*", |_, it: OrganizationCreated| async move {
            Err::<(), _>(std::io::Error::other(format!("third, of {}", it.name)))
        });
    let relays = scene
        .relays(&[("OUTBOX_RELAY_MAX_ATTEMPTS", "1")], bus)
        .await;
    let event = scene.until(event, Status::Dead).await;
    relays.stop().await;
    let error = event.last_error.unwrap();
    assert_eq!(error, "first; panicked: second; third, of Nuts");
}

// org-3.4, org-3.5, org-5.1.2, org-5.1.3, org-5.2.6, M12, B5
#[tokio::test]
async fn a_handler_gets_the_event_with_all_that_identifies_it() {
    let scene = Scene::new().await;
    let receipt = scene
        .organizations
        .create(&scene.command(), Uuid::now_v7(), "Nuts")
        .await;
    let receipt = receipt.unwrap();
    let witness = Witness::new();
    let relays = scene.relays(&[], witness.bus(|_| Outcome::Delivered)).await;
    scene.until(receipt.id, Status::Delivered).await;
    relays.stop().await;
    let event = &witness.seen()[0];
    assert_eq!(event.table.to_string(), ORG_OUTBOX);
    assert_eq!((event.id, event.sequence), (receipt.id, receipt.sequence));
    assert_eq!(event.tenant_id, Some(scene.tenant));
    assert_eq!(
        (&*event.topic, event.attempts),
        (OrganizationCreated::TOPIC, 1)
    );
    assert!(serde_json::from_slice::<OrganizationCreated>(&event.payload).is_ok());
}

// org-5.3.6, M12
#[tokio::test]
async fn two_versions_of_an_event_are_delivered_side_by_side_each_as_it_is() {
    let scene = Scene::new().await;
    let older = serde_json::json!({"name": "Ada Lovelace"});
    let newer = serde_json::json!({"first": "Ada", "last": "Lovelace"});
    let mut ids = Vec::new();
    for (version, payload) in [(1, &older), (2, &newer)] {
        let topic = format!("hrm.employee.renamed.v{version}");
        let message = Message::json(topic, payload).unwrap();
        ids.push(enqueue(&scene, ORG_OUTBOX, message).await);
    }
    let witness = Witness::new();
    let relays = scene.relays(&[], witness.bus(|_| Outcome::Delivered)).await;
    for id in &ids {
        scene.until(*id, Status::Delivered).await;
    }
    relays.stop().await;
    let mut seen = witness.seen();
    seen.sort_by_key(|event| event.sequence);
    assert_eq!(seen.len(), 2);
    for (event, (version, payload)) in seen.iter().zip([(1, older), (2, newer)]) {
        assert_eq!(event.topic, format!("hrm.employee.renamed.v{version}"));
        let arrived: serde_json::Value = serde_json::from_slice(&event.payload).unwrap();
        assert_eq!(arrived, payload);
    }
}

// org-7.6, B18
#[tokio::test]
async fn one_relay_serves_all_tenants_and_the_tenant_finds_events_but_hides_none() {
    let scene = Scene::new().await;
    let ours = scene.create("Nuts").await;
    let tenant = Uuid::new_v4();
    let theirs = scene
        .organizations
        .create(&Command::of(tenant), Uuid::now_v7(), "Nuts")
        .await;
    let theirs = theirs.unwrap().id;
    let relays = scene.relays(&[], willing()).await;
    for event in [ours, theirs] {
        scene.until(event, Status::Delivered).await;
    }
    relays.stop().await;
    let list = async |filter: Filter| {
        let records = scene.store.list(&filter, 10).await.unwrap();
        let mut ids: Vec<Uuid> = records.iter().map(|record| record.id).collect();
        ids.sort();
        ids
    };
    let of_one = Filter {
        scope: Scope {
            tenant_id: Some(tenant),
            ..Scope::default()
        },
        ..Filter::default()
    };
    assert_eq!(list(of_one).await, [theirs]);
    let mut all = vec![ours, theirs];
    all.sort();
    assert_eq!(list(Filter::default()).await, all);
}

// org-5.3.3, B11, F6
#[tokio::test]
async fn a_payload_that_the_handler_cannot_read_is_dead_at_once_and_not_told() {
    let scene = Scene::new().await;
    let bus = Directory::open(&scene.address).unwrap().bus();
    let secret = Uuid::new_v4().to_string();
    let message = Message::json(EmployeeHired::TOPIC, &[&secret]).unwrap();
    let event = enqueue(&scene, HRM_OUTBOX, message).await;
    let relays = scene.relays(&[], bus).await;
    let hrm = open(&scene.address, HRM_OUTBOX).await;
    eventually("it is dead", async || {
        hrm.show(event).await.unwrap().unwrap().status == Status::Dead
    })
    .await;
    relays.stop().await;
    let event = hrm.show(event).await.unwrap().unwrap();
    assert_eq!(event.dead_reason, Some(DeadReason::Rejected));
    let error = event.last_error.unwrap();
    assert!(
        error.starts_with("bus.undecodable: ") && !error.contains(&secret),
        "{error}"
    );
}

// org-10.4.3, M15, K6
#[tokio::test]
async fn a_dead_event_that_is_brought_back_is_handled_with_all_its_attempts() {
    let scene = Scene::new().await;
    let event = scene.create("Nuts").await;
    let one_attempt = [("OUTBOX_RELAY_MAX_ATTEMPTS", "1")];
    let witness = Witness::new();
    let failing = witness.bus(|_| Outcome::Retry("out of paper".to_owned()));
    let relays = scene.relays(&one_attempt, failing).await;
    scene.until(event, Status::Dead).await;
    relays.stop().await;
    let act = Act {
        actor: "ann".to_owned(),
        why: "there is paper".to_owned(),
    };
    let back = scene.store.redeliver(&[event], &act).await.unwrap();
    assert_eq!(back, [event], "under the same id");
    let record = scene.event(event).await;
    assert_eq!((record.status, record.attempts), (Status::Pending, 0));
    assert_eq!((record.lease_owner, record.dead_at), (None, None));
    let relays = scene.relays(&one_attempt, willing()).await;
    scene.until(event, Status::Delivered).await;
    relays.stop().await;
    let audit = scene.store.audit(Some(event), 10).await.unwrap();
    assert_eq!(
        (&*audit[0].actor, &*audit[0].why),
        ("ann", "there is paper")
    );
}
