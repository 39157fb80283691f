//! The program, run as a reader runs it, and killed as a reader would not.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use mini_chat::Totals;
use posthaste_testkit::outbox::connect;

use crate::support::*;

fn program(address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mini-chat"));
    command.env("DATABASE_URL", address);
    command
}

async fn run(address: &str) -> Output {
    let mut command = program(address);
    let run = move || command.args(["--for", "0.5s"]).output().unwrap();
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn succeeded(output: &Output) {
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("Nothing was lost"), "{told}");
}

// mini-chat-1.2.3, mini-chat-1.3.1, mini-chat-1.3.2, mini-chat-1.3.3, mini-chat-5.1, mini-chat-5.2.1, mini-chat-5.3
#[tokio::test]
async fn the_program_proves_that_nothing_was_lost() {
    let address = database().await;
    succeeded(&run(&address).await);
    let mut totals = Totals::of(&address).await.unwrap();
    // A machine that is busy may see less in one run. The sums go on.
    for _ in 1..10 {
        if totals.turns.iter().all(|n| *n > 0) && totals.retried > 0 {
            break;
        }
        succeeded(&run(&address).await);
        totals = Totals::of(&address).await.unwrap();
    }
    assert!(
        totals.agree() && totals.turns.iter().all(|n| *n > 0),
        "{totals}"
    );
    assert!(totals.retried > 0, "acknowledgements were lost: {totals}");
}

// mini-chat-6.1, mini-chat-6.4, mini-chat-6.6, mini-chat-5.2.2, N4
#[tokio::test]
async fn killed_in_the_midst_of_it_the_program_makes_good_for_it_when_it_runs_again() {
    let address = database().await;
    let mut killed = program(&address)
        .args(["--for", "60s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let stdout = killed.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut said).unwrap();
    assert!(said.starts_with("chatting for 60s"), "{said}");
    eventually("it is in the midst of it", async || {
        let totals = Totals::of(&address).await.unwrap();
        totals.charges >= 50 && totals.events[0] > 0
    })
    .await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    let left = Totals::of(&address).await.unwrap();
    assert!(!left.agree(), "{left}");
    succeeded(&run(&address).await);
    let totals = Totals::of(&address).await.unwrap();
    assert!(totals.agree(), "{totals}");
    let turns = |totals: &Totals| totals.turns.iter().sum::<i64>();
    assert!(turns(&totals) > turns(&left), "{totals}");
}

#[tokio::test]
async fn the_sums_still_agree_when_the_events_of_an_earlier_run_are_cleaned_away() {
    let address = database().await;
    succeeded(&run(&address).await);
    let client = connect(&address).await;
    let old = "update modkit_outbox_events set delivered_at = delivered_at - interval '8 days'";
    let delivered = client.execute(old, &[]).await.unwrap();
    assert!(delivered > 0);
    succeeded(&run(&address).await);
    let old =
        "select count(*) from modkit_outbox_events where delivered_at < now() - interval '7 days'";
    assert_eq!(
        client.query_one(old, &[]).await.unwrap().get::<_, i64>(0),
        0
    );
    let totals = Totals::of(&address).await.unwrap();
    assert!(
        totals.turns.iter().sum::<i64>() > totals.events[1],
        "{totals}"
    );
}

#[test]
fn without_a_database_it_says_what_to_do() {
    let output = program("").env_remove("DATABASE_URL").output().unwrap();
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("cargo xtask example mini-chat"), "{told}");
    let output = program("").arg("--fro").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("--for"), "{told}");
}
