//! What the modules do, and the events that commit with it.

use std::collections::BTreeSet;

use org::{
    Announced, Command, EmployeeHired, HRM_OUTBOX, ModuleError, ORG_OUTBOX, OrganizationCreated,
    OrganizationDissolved, OrganizationRenamed, connect, trace,
};
use posthaste::{EnqueueError, Message, Outbox, Status, TopicRule, TraceContext};
use uuid::Uuid;

use crate::support::*;

const EVENTS: &str = "select count(*) from org_outbox";
const ORGANIZATIONS: &str = "select count(*) from org.organizations";

// org-11.2, org-1.3, org-1.1, org-2.2, org-2.8, org-3.2, org-6.1, org-9.4, B3, M6
#[tokio::test]
async fn each_module_commits_its_change_and_its_event_together_in_an_outbox_of_its_own() {
    let scene = Scene::new().await;
    let organization = Uuid::now_v7();
    let created = scene
        .organizations
        .create(&scene.command(), organization, "Nuts")
        .await;
    created.unwrap();
    let hired = scene
        .staff
        .hire(&scene.command(), organization, "Ada")
        .await;
    let hired = hired.unwrap();
    assert_eq!(scene.number(EVENTS).await, 1);
    assert_eq!(scene.number("select count(*) from hrm_outbox").await, 1);
    assert_eq!(scene.number("select count(*) from hrm.employees").await, 1);
    let hrm = open(&scene.address, HRM_OUTBOX).await;
    let event = hrm.show(hired.id).await.unwrap().unwrap();
    assert_eq!(event.topic, EmployeeHired::TOPIC);
    assert_eq!(event.tenant_id, Some(scene.tenant));
    assert_eq!((event.status, event.attempts), (Status::Pending, 0));
}

// org-1.1, org-6.1, org-8.1, org-9.4, M6
#[tokio::test]
async fn a_change_that_is_rolled_back_leaves_no_event() {
    let scene = Scene::new().await;
    scene.create("Nuts").await;
    let twin = scene
        .organizations
        .create(&scene.command(), Uuid::now_v7(), "Nuts")
        .await;
    let refused = twin.unwrap_err();
    assert!(matches!(refused, ModuleError::Database(_)), "{refused}");
    let ghost = scene
        .organizations
        .rename(&scene.command(), Uuid::now_v7(), "Boo")
        .await;
    let refused = ghost.unwrap_err();
    assert!(
        matches!(refused, ModuleError::OrganizationUnknown(_)),
        "{refused}"
    );
    assert_eq!(scene.number(ORGANIZATIONS).await, 1);
    assert_eq!(scene.number(EVENTS).await, 1);
}

// org-2.3, org-4.1.5, org-4.1.13, org-5.1.1, org-5.1.5, B4
#[tokio::test]
async fn a_command_that_is_given_twice_is_announced_once_and_answers_with_the_same_sequence() {
    let scene = Scene::new().await;
    let command = scene.command();
    let organization = Uuid::now_v7();
    let create = || scene.organizations.create(&command, organization, "Nuts");
    let (first, again) = (create().await.unwrap(), create().await.unwrap());
    assert!(first.new && !again.new);
    assert_eq!(first.id, command.event_id, "the module chose it");
    assert_eq!((again.id, again.sequence), (first.id, first.sequence));
    assert_eq!(scene.number(EVENTS).await, 1);
    let command = scene.command();
    let rename = || scene.organizations.rename(&command, organization, "Bolts");
    assert!(rename().await.unwrap().new && !rename().await.unwrap().new);
    let version = "select version from org.organizations";
    assert_eq!(scene.number(version).await, 2, "it was renamed once");
}

// org-1.1
#[tokio::test]
async fn what_does_not_happen_is_not_announced() {
    let scene = Scene::new().await;
    let organization = Uuid::now_v7();
    let mine = scene.command();
    let organizations = &scene.organizations;
    organizations
        .create(&mine, organization, "Nuts")
        .await
        .unwrap();
    // Neither by another command, nor for another tenant.
    for (tenant, name) in [(scene.tenant, "Bolts"), (Uuid::new_v4(), "Nuts")] {
        let created = organizations
            .create(&Command::of(tenant), organization, name)
            .await;
        let refused = created.unwrap_err();
        assert!(
            matches!(refused, ModuleError::OrganizationKnown(id) if id == organization),
            "{refused}"
        );
        let dissolved = organizations
            .dissolve(&Command::of(Uuid::new_v4()), organization)
            .await;
        assert!(dissolved.is_err());
    }
    assert_eq!(scene.number(EVENTS).await, 1);

    let end = scene.command();
    let dissolve = |command| async move { organizations.dissolve(&command, organization).await };
    assert!(dissolve(end).await.unwrap().new);
    assert!(!dissolve(end).await.unwrap().new, "the same command");
    let refused = dissolve(scene.command()).await.unwrap_err();
    assert!(
        matches!(refused, ModuleError::OrganizationUnknown(_)),
        "{refused}"
    );
    assert_eq!(scene.number(EVENTS).await, 2);
}

// org-5.3.1, org-5.3.5, B10
#[test]
fn the_topics_of_both_modules_are_as_the_rule_says() {
    let topics = [
        OrganizationCreated::TOPIC,
        OrganizationRenamed::TOPIC,
        OrganizationDissolved::TOPIC,
        EmployeeHired::TOPIC,
    ];
    assert_eq!(topics.iter().collect::<BTreeSet<_>>().len(), 4);
    for topic in topics {
        assert_eq!(TopicRule::Strict.check(topic), Ok(()), "{topic}");
    }
    assert_eq!(
        topics[..3],
        [
            "org.organization.created.v1",
            "org.organization.updated.v1",
            "org.organization.deleted.v1"
        ]
    );
}

// org-5.3.1, org-5.3.2, B10
#[tokio::test]
async fn a_topic_that_breaks_the_rule_is_refused_before_anything_is_sent() {
    let scene = Scene::new().await;
    let outbox = Outbox::new(ORG_OUTBOX).unwrap();
    let mut client = connect(&scene.address).unwrap().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let long = format!("org.{}.created.v1", "x".repeat(128));
    for topic in [
        "Org.Organization.Created.v1",
        "org.organization.created",
        "org organization created v1",
        "organization.created.v1",
        &long,
    ] {
        let message = Message::json(topic, &1).unwrap();
        let refused = outbox.enqueue(&transaction, &message).await.unwrap_err();
        assert!(
            matches!(refused, EnqueueError::TopicInvalid { .. }),
            "{topic}"
        );
        assert_eq!(refused.code(), "outbox.topic_invalid");
    }
    transaction.commit().await.unwrap();
    assert_eq!(scene.number(EVENTS).await, 0);
}

// org-5.1.6, B2
#[test]
fn a_name_of_a_table_cannot_smuggle_a_statement_in() {
    for name in [
        "org_outbox; drop table x",
        "a.b.c",
        "org_outbox--",
        "",
        "Org_Outbox",
    ] {
        let refused = Outbox::new(name).unwrap_err();
        assert_eq!(refused.code(), "outbox.table_invalid", "{name}");
    }
    let quoted = Outbox::new("\"odd \"\" name\"").unwrap();
    assert_eq!(quoted.table().name(), "odd \" name");
}

// org-5.4.1, org-5.4.2, org-5.4.3, org-5.4.5, org-9.9, B12
#[tokio::test]
async fn the_trace_of_a_request_goes_all_the_way_to_the_handler() {
    let scene = Scene::new().await;
    let trace = TraceContext {
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        tracestate: Some("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7".to_owned()),
    };
    let traced = trace::within(trace.clone(), scene.create("Nuts")).await;
    let bare = scene.create("Bolts").await;
    let witness = Witness::new();
    let relays = scene
        .relays(
            &[],
            witness.bus(|_| posthaste_relay::sink::Outcome::Delivered),
        )
        .await;
    scene.until(traced, Status::Delivered).await;
    scene.until(bare, Status::Delivered).await;
    relays.stop().await;
    let seen = witness.seen();
    let of = |id| {
        seen.iter()
            .find(|event| event.id == id)
            .unwrap()
            .trace
            .clone()
    };
    assert_eq!(of(traced), Some(trace), "unchanged");
    assert_eq!(of(bare), None, "there is no trace to go on with");
    let stored = "select count(*) from org_outbox where traceparent is null and tracestate is null";
    assert_eq!(scene.number(stored).await, 1);
}

// org-5.5.1, org-5.5.2
#[tokio::test]
async fn a_payload_is_plain_json_with_times_in_utc() {
    let scene = Scene::new().await;
    let event = scene.create("Nuts").await;
    let content = scene.store.content(event).await.unwrap().unwrap();
    let payload: OrganizationCreated = serde_json::from_slice(&content.payload).unwrap();
    assert_eq!(payload.name, "Nuts");
    let (date, time) = payload.at.split_once('T').unwrap();
    assert_eq!((date.len(), time.len()), (10, 16), "{}", payload.at);
    assert!(
        time.ends_with('Z') && time[8..].starts_with('.'),
        "{}",
        payload.at
    );
}

// org-5.3.3, org-5.3.4
#[test]
fn a_new_field_that_is_optional_does_not_need_a_new_version() {
    let newer = r#"{"organization_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2", "name": "Nuts",
                    "at": "2026-01-01T00:00:00.000000Z", "colour": "green"}"#;
    assert!(serde_json::from_str::<OrganizationCreated>(newer).is_ok());
    let broken = newer.replace("\"name\": \"Nuts\"", "\"name\": 7");
    assert!(serde_json::from_str::<OrganizationCreated>(&broken).is_err());
}

#[test]
fn commands_have_ids_of_their_own() {
    let tenant = Uuid::new_v4();
    assert_ne!(Command::of(tenant).event_id, Command::of(tenant).event_id);
}
