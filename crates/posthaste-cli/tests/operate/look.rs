//! What can be looked at: status, list, dead, show.

use posthaste::store::{Act, Claim, Settlement, Store, Verdict};
use posthaste::{Compression, DeadReason, Message, Outbox};
use posthaste_testkit::bed::OnPostgres;
use posthaste_testkit::outbox::connect;
use uuid::Uuid;

use crate::support::{HOUR, PLACED, Place, Shop, every_place, message, run, snapshot};

every_place! {
    status_tells_how_an_outbox_stands
    a_check_that_fails_has_an_exit_code_of_its_own
    what_was_discarded_is_nobodys_worry
    a_list_leaves_out_what_was_delivered
    what_is_under_way_is_told_with_the_relay_that_has_it
    filters_narrow_a_list_down
    hostile_filters_are_only_texts
    a_long_list_is_cut_and_says_so
    the_history_of_an_aggregate_can_be_read
    the_dead_are_listed_with_reason_and_error
    an_event_is_shown_with_everything_but_its_payload
    a_payload_is_shown_if_asked_for
    what_was_done_to_an_event_is_shown
    control_characters_do_not_reach_the_terminal
}

// K6, B18
async fn status_tells_how_an_outbox_stands(place: impl Place) {
    Shop::open(&place).await;
    let text = run(&place, &["status"]);
    let lag = |text: &str| {
        let cut = |line: &str| -> String {
            let cells = line.split('\t').enumerate();
            let shown = cells.map(|(n, cell)| {
                if n == 6 && cell != "LAG" {
                    "[lag]"
                } else {
                    cell
                }
            });
            shown.collect::<Vec<_>>().join("\t")
        };
        text.lines().map(cut).collect::<Vec<_>>().join("\n")
    };
    snapshot("status", &lag(&text.ok()));
    let json = run(&place, &["status", "--json"]).json();
    assert_eq!(json.len(), 1);
    assert_eq!(json[0]["table"], place.address().1);
    for (field, value) in [
        ("pending", 2),
        ("processing", 1),
        ("stuck", 0),
        ("dead", 2),
        ("discarded", 0),
    ] {
        assert_eq!(json[0][field], value, "{field}");
    }
    assert_eq!(json[0]["healthy"], true);
}

// K6, F8
async fn a_check_that_fails_has_an_exit_code_of_its_own(place: impl Place) {
    Shop::open(&place).await;
    assert_eq!(run(&place, &["status", "--check"]).code, 0);
    assert_eq!(
        run(&place, &["status", "--check", "--max-dead", "2"]).code,
        0
    );
    let dead = run(&place, &["status", "--check", "--max-dead", "1"]);
    assert_eq!(dead.code, 5);
    assert!(dead.err.contains("2 dead, more than 1"), "{dead:?}");
    place.pass(2 * HOUR).await;
    let late = run(&place, &["status", "--check", "--json"]);
    assert_eq!(late.code, 5);
    let json: serde_json::Value = serde_json::from_str(&late.out).unwrap();
    assert_eq!(json["healthy"], false);
    assert!(late.err.contains("lag is 2h"), "{late:?}");
    assert!(late.err.contains("1 stuck"), "{late:?}");
    // Without the question it is only told.
    assert_eq!(run(&place, &["status"]).code, 0);
}

// M15
async fn what_was_discarded_is_nobodys_worry(place: impl Place) {
    let shop = Shop::open(&place).await;
    let act = Act {
        actor: "ann".to_owned(),
        why: "sent by hand".to_owned(),
    };
    shop.store.discard(&shop.ids[1..3], &act).await.unwrap();
    let json = run(&place, &["status", "--json", "--check", "--max-dead", "0"]).json();
    assert_eq!(
        (&json[0]["dead"], &json[0]["discarded"]),
        (&0.into(), &2.into())
    );
}

// K6, B18
async fn a_list_leaves_out_what_was_delivered(place: impl Place) {
    Shop::open(&place).await;
    snapshot("list", &run(&place, &["list"]).ok());
    snapshot(
        "list_json",
        &run(&place, &["list", "--json", "--limit", "2"]).ok(),
    );
}

async fn what_is_under_way_is_told_with_the_relay_that_has_it(place: impl Place) {
    let shop = Shop::open(&place).await;
    // Its process: this one.
    let relay = std::process::id().to_string();
    let listed = run(&place, &["list", "--status", "processing"]).ok();
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(lines[1].contains(&shop.id(3)), "{listed}");
    assert!(lines[1].contains(&relay), "{listed}");
    let shown = run(&place, &["show", &shop.id(3)]).ok();
    let line = shown.lines().find(|line| line.starts_with("relay "));
    assert!(line.is_some_and(|line| line.contains(&relay)), "{shown}");
    let json = run(&place, &["show", &shop.id(3), "--json"]).json();
    let told = json[0]["lease_relay"].as_str();
    assert!(told.is_some_and(|name| name.contains(&relay)), "{json:?}");
}

/// Which of the shop's events a list is about.
fn listed(
    place: &impl Place,
    shop: &Shop<impl posthaste_testkit::bed::Bed>,
    flags: &[&str],
) -> Vec<usize> {
    let arguments = [&["list", "--json"], flags].concat();
    let id = |event: &serde_json::Value| -> Uuid { event["id"].as_str().unwrap().parse().unwrap() };
    let number = |event| {
        shop.ids
            .iter()
            .position(|known| *known == id(event))
            .unwrap()
    };
    let mut listed: Vec<usize> = run(place, &arguments).json().iter().map(number).collect();
    // In which order they are is told by the snapshots.
    listed.sort();
    listed
}

// K6
async fn filters_narrow_a_list_down(place: impl Place) {
    let shop = Shop::open(&place).await;
    let (one, two) = (shop.id(1), shop.id(5));
    for (flags, expected) in [
        (vec![], vec![1, 2, 3, 4, 5]),
        (vec!["--status", "any"], vec![0, 1, 2, 3, 4, 5]),
        (vec!["--status", "pending,delivered"], vec![0, 4, 5]),
        (vec!["--status", "processing"], vec![3]),
        (vec!["--id", &one, "--id", &two], vec![1, 5]),
        (vec!["--topic", "shop.*"], vec![1, 2, 3, 4]),
        (vec!["--topic", "shop.order.pa?d.v1"], vec![2]),
        (vec!["--topic", "*.v2"], vec![5]),
        (vec!["--namespace", "shop"], vec![2]),
        (vec!["--namespace", ""], vec![1, 3, 4, 5]),
        (vec!["--error", "refused"], vec![4]),
        (vec!["--reason", "exhausted"], vec![2]),
        (
            vec!["--event-type", "OrderPlaced", "--status", "any"],
            vec![0],
        ),
        (vec!["--aggregate", "order/7"], vec![1]),
        (vec!["--aggregate", "order"], vec![1, 2]),
        (vec!["--older-than", "1h"], vec![]),
        (vec!["--newer-than", "1h"], vec![1, 2, 3, 4, 5]),
        (
            vec![
                "--topic", "shop.*", "--status", "dead", "--error", "timeout",
            ],
            vec![2],
        ),
        (
            vec!["--tenant", "00000000-0000-0000-0000-000000000001"],
            vec![],
        ),
    ] {
        assert_eq!(listed(&place, &shop, &flags), expected, "{flags:?}");
    }
    place.pass(2 * HOUR).await;
    assert_eq!(
        listed(&place, &shop, &["--older-than", "1h"]),
        [1, 2, 3, 4, 5]
    );
}

// K6
async fn hostile_filters_are_only_texts(place: impl Place) {
    let shop = Shop::open(&place).await;
    let hostile = [
        "'",
        "\"",
        "\\",
        "_",
        "$1",
        "' or '1'='1",
        "'; drop table x; --",
        "{outbox}",
        "[a-z]",
        "\u{1f600}",
        "\n",
    ];
    for text in hostile {
        for flag in [
            "--topic",
            "--namespace",
            "--error",
            "--event-type",
            "--aggregate",
        ] {
            assert_eq!(
                listed(&place, &shop, &[flag, text]),
                [0_usize; 0],
                "{flag} {text}"
            );
        }
        let within = format!("*{text}*");
        assert_eq!(
            listed(&place, &shop, &["--topic", &within]),
            [0_usize; 0],
            "{text}"
        );
    }
    // As it is in an error, and not as what stands for any text.
    assert_eq!(listed(&place, &shop, &["--error", "%"]), [1]);
    assert_eq!(listed(&place, &shop, &["--topic", "%"]), [0_usize; 0]);
    assert_eq!(listed(&place, &shop, &["--error", "*"]), [0_usize; 0]);
    assert_eq!(shop.all().await.len(), 6);
}

// K6
async fn a_long_list_is_cut_and_says_so(place: impl Place) {
    Shop::open(&place).await;
    let cut = run(&place, &["list", "--limit", "2"]);
    assert_eq!(cut.out.lines().count(), 3);
    assert_eq!(cut.err, "… and more: --limit 0 shows all\n");
    let whole = run(&place, &["list", "--limit", "0"]);
    assert_eq!((whole.out.lines().count(), whole.err.as_str()), (6, ""));
    let exact = run(&place, &["list", "--limit", "5"]);
    assert_eq!((exact.out.lines().count(), exact.err.as_str()), (6, ""));
}

// F10
async fn the_history_of_an_aggregate_can_be_read(place: impl Place) {
    let shop = Shop::open(&place).await;
    let flags = ["--aggregate", "order/42", "--status", "any"];
    assert_eq!(listed(&place, &shop, &flags), [0, 2]);
}

// K6, B18
async fn the_dead_are_listed_with_reason_and_error(place: impl Place) {
    Shop::open(&place).await;
    snapshot("dead", &run(&place, &["dead"]).ok());
    let json = run(&place, &["dead", "--json", "--reason", "rejected"]).json();
    assert_eq!(json.len(), 1);
    assert_eq!(
        (&json[0]["status"], &json[0]["dead_reason"]),
        (&"dead".into(), &"rejected".into())
    );
    assert!(json[0]["dead_at"].is_string());
}

// K6
async fn an_event_is_shown_with_everything_but_its_payload(place: impl Place) {
    let shop = Shop::open(&place).await;
    let text = run(&place, &["show", &shop.id(1)]).ok();
    snapshot("show", &text);
    assert!(!text.contains("\"order\""));
    let json = run(&place, &["show", &shop.id(1), "--json"]).json();
    assert_eq!(json[0]["headers"]["source"], "checkout");
    assert_eq!(json[0]["last_error"], "100% too odd");
    assert!(json[0].get("payload").is_none());

    let unknown = run(&place, &["show", "00000000-0000-0000-0000-000000000001"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (1, ""));
    assert!(unknown.err.contains("there is no event"), "{unknown:?}");
    assert_eq!(run(&place, &["show", "42"]).code, 2);
}

// K6
async fn a_payload_is_shown_if_asked_for(place: impl Place) {
    let large = r#"{"list": [1, {}], "number": 12345678901234567890}"#;
    let messages = [
        Message::json_text(PLACED, large).unwrap(),
        Message::bytes(PLACED, "text/plain", "two\nlines"),
        Message::bytes(PLACED, "image/png", b"\x89PNG\r\n\x1a\n\0".to_vec()),
    ];
    let receipts = place.enqueue(&messages).await.unwrap();
    for (receipt, name) in receipts
        .iter()
        .zip(["show_json", "show_text", "show_binary"])
    {
        let text = run(&place, &["show", &receipt.id.to_string(), "--payload"]).ok();
        let (_, payload) = text.split_once("\npayload").unwrap();
        snapshot(name, payload);
    }
    let json = |n: usize| {
        run(
            &place,
            &["show", &receipts[n].id.to_string(), "--payload", "--json"],
        )
    };
    // To the letter: read as a number it would be another one.
    assert!(json(0).ok().contains("12345678901234567890"));
    assert_eq!(json(2).json()[0]["payload_base64"], "iVBORw0KGgoA");
}

// F10
#[tokio::test]
async fn a_compressed_payload_is_shown_as_it_was_written() {
    let place = OnPostgres::new().await;
    let outbox = Outbox::of(place.fresh().table.clone()).compress(Compression::default());
    let text = format!("\"{}\"", "x".repeat(5000));
    let message = Message::json_text(PLACED, text.as_str()).unwrap();
    let mut client = connect(&place.fresh().url).await;
    let transaction = client.transaction().await.unwrap();
    let receipt = outbox.enqueue(&transaction, &message).await.unwrap();
    transaction.commit().await.unwrap();
    let show = ["show", &receipt.id.to_string(), "--payload"];
    let shown = run(&place, &show).ok();
    assert!(shown.contains("content-encoding: zstd"), "{shown}");
    assert!(
        shown.contains("payload (5002 bytes, compressed to "),
        "{shown}"
    );
    assert!(shown.contains(&text), "{shown}");
    let json = run(&place, &[&show[..], &["--json"]].concat()).json();
    assert_eq!(json[0]["payload"], "x".repeat(5000));
}

// M15
async fn what_was_done_to_an_event_is_shown(place: impl Place) {
    let shop = Shop::open(&place).await;
    for (act, why) in [("discard", "sent by hand"), ("redeliver", "it was not")] {
        run(&place, &[act, &shop.id(1), "--yes", "--why", why]).ok();
    }
    let text = run(&place, &["show", &shop.id(1)]).ok();
    let (_, audit) = text.split_once("\naudit\n").unwrap();
    snapshot("show_audit", audit);
    let json = run(&place, &["show", &shop.id(1), "--json"]).json();
    assert_eq!(json[0]["audit"][1]["why"], "sent by hand");
}

// B13, B22
async fn control_characters_do_not_reach_the_terminal(place: impl Place) {
    let store = place.relay().await;
    let receipt = place.enqueue(&[message(PLACED)]).await.unwrap()[0];
    let lease = store.claim(&Claim::new(1)).await.unwrap().events[0].lease;
    let verdict = Verdict::Dead {
        reason: DeadReason::Rejected,
        error: "\x1b[2J\x1b]0;gone\x07 first\nsecond\tthird \u{9b}31m \u{202e}".to_owned(),
        letter: None,
    };
    store
        .settle(&[Settlement::new(lease, verdict)])
        .await
        .unwrap();
    let id = receipt.id.to_string();
    for arguments in [
        vec!["dead"],
        vec!["list"],
        vec!["show", &id],
        vec!["tail", "--for", "10ms"],
    ] {
        let out = run(&place, &arguments).ok();
        let odd = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
        assert!(!out.contains(odd), "{arguments:?}: {out:?}");
        assert!(
            out.contains(r"\u{1b}[2J\u{1b}]0;gone\u{7} first\nsecond\tthird"),
            "{out}"
        );
    }
}
