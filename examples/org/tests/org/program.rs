//! The program, run as a reader runs it: the show, one instance, its metrics, and what it says when
//! something is wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use org::{HRM_OUTBOX, ORG_OUTBOX, Organizations, Totals};
use posthaste::Status;
use rustix::process::{Pid, Signal, kill_process};
use uuid::Uuid;

use crate::support::*;

fn program(address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_org"));
    let ours = std::env::vars().filter(|(name, _)| name.starts_with("OUTBOX_"));
    for (name, _) in ours {
        command.env_remove(name);
    }
    command.env("DATABASE_URL", address);
    command
}

/// One instance, killed with its test.
struct Instance {
    child: Child,
    /// Where its metrics are.
    metrics: String,
}

impl Instance {
    fn start(address: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = program(address)
            .arg("serve")
            .env("OUTBOX_RELAY_TABLES", format!("{ORG_OUTBOX},{HRM_OUTBOX}"))
            .env("OUTBOX_RELAY_POLL_INTERVAL", "100ms")
            .env("PROMETHEUS_METRICS_ENABLED", "true")
            .env("ORG_LISTEN", "127.0.0.1:0")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut said).unwrap();
        let metrics = said.trim().strip_prefix("metrics at http://");
        let metrics = metrics.unwrap_or_else(|| panic!("{said}")).to_owned();
        Self { child, metrics }
    }

    /// What is at this path, with the status.
    fn get(&self, path: &str) -> String {
        self.ask("GET", path)
    }

    fn ask(&self, method: &str, path: &str) -> String {
        let (host, _) = self.metrics.split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// SIGSTOP: its connections stay open.
    fn hang(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    fn scrape(&self) -> String {
        let (_, path) = self.metrics.split_once('/').unwrap();
        self.get(&format!("/{path}"))
    }

    /// The sum of all samples of this metric with these labels.
    fn value(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let text = self.scrape();
        let sample = |line: &str| {
            let rest = line.strip_prefix(name)?.strip_prefix('{')?;
            let (found, value) = rest.rsplit_once("} ")?;
            let all = labels.iter().all(|label| found.contains(label));
            all.then(|| value.parse::<f64>().ok())?
        };
        let values: Vec<f64> = text.lines().filter_map(sample).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// org-2.1, org-2.3, org-2.7, org-3.1, org-10.5.3, B7, N4: with a PostgreSQL, and nothing else.
#[tokio::test]
async fn the_show_kills_the_active_instance_and_proves_that_nothing_was_lost() {
    let address = database().await;
    let mut command = program(&address);
    let show = move || command.args(["--for", "2s"]).output().unwrap();
    let output = tokio::task::spawn_blocking(show).await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    for line in [
        "the active instance was killed",
        "the other instance took over",
        "Nothing was lost",
    ] {
        assert!(told.contains(line), "{told}");
    }
    let totals = Totals::of(&address).await.unwrap();
    assert!(totals.agree() && totals.employees[0] > 0, "{totals}");
}

// org-2.5, org-7.1, org-7.3, org-10.2.1, org-10.2.2, org-10.2.3, org-10.2.4, org-10.2.5, org-10.2.6, org-10.2.7, org-10.2.8,
// org-10.2.9, org-6.2.12, B16
#[tokio::test]
async fn the_metrics_of_the_document_are_at_the_path_it_names_once_they_are_switched_on() {
    let address = database().await;
    org::set_up(&address).await.unwrap();
    let instance = Instance::start(&address, &[("OUTBOX_RELAY_MAX_ATTEMPTS", "1")]);
    assert!(
        instance.metrics.ends_with("/debug/prometheus"),
        "{}",
        instance.metrics
    );
    let organizations = Organizations::open(&address).unwrap();
    let tenant = Uuid::new_v4();
    let create = organizations
        .create(&org::Command::of(tenant), Uuid::now_v7(), "Nuts")
        .await;
    create.unwrap();
    // Nobody has heard of its organization: it fails, and with one attempt is dead.
    let staff = org::Staff::open(&address).unwrap();
    let hire = staff
        .hire(&org::Command::of(tenant), Uuid::now_v7(), "Ada")
        .await;
    hire.unwrap();
    let created = [
        "table=\"public.org_outbox\"",
        "topic=\"org.organization.created.v1\"",
    ];
    let hired = [
        "table=\"public.hrm_outbox\"",
        "topic=\"hrm.employee.hired.v1\"",
    ];
    eventually("both were dispatched", async || {
        instance.value(
            "outbox_dispatch_total",
            &[created[0], created[1], "result=\"success\""],
        ) == Some(1.0)
            && instance.value("outbox_dead_total", &hired) == Some(1.0)
    })
    .await;
    let failures = instance.value(
        "outbox_dispatch_total",
        &[hired[0], hired[1], "result=\"failure\""],
    );
    assert_eq!(failures, Some(1.0));
    for result in [
        [created[0], created[1], "result=\"success\""],
        [hired[0], hired[1], "result=\"failure\""],
    ] {
        let latency = instance.value("outbox_dispatch_latency_seconds_count", &result);
        assert_eq!(latency, Some(1.0));
    }
    for gauge in ["outbox_pending", "outbox_locked", "outbox_processing"] {
        assert!(instance.value(gauge, &created[..1]).is_some(), "{gauge}");
    }
    for table in [created[0], hired[0]] {
        eventually("it leads", async || {
            instance.value("outbox_relay_leader", &[table]) == Some(1.0)
        })
        .await;
    }
    let text = instance.scrape();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("content-type: text/plain"));
    assert!(text.contains("# TYPE outbox_dispatch_latency_seconds histogram"));
    assert!(
        !text.contains(&tenant.to_string()),
        "no label holds a tenant"
    );
    // Whoever comes from outside can read it, and no more.
    assert!(instance.get("/elsewhere").starts_with("HTTP/1.1 404"));
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let answer = instance.ask(method, "/debug/prometheus");
        assert!(answer.starts_with("HTTP/1.1 405"), "{method}: {answer}");
    }
}

// org-10.2.1, B16
#[tokio::test]
async fn an_instance_that_enqueues_counts_what_it_enqueued() {
    let handle = org::metrics::record().unwrap();
    let scene = Scene::new().await;
    scene.create("Nuts").await;
    let text = handle.render();
    let line =
        "outbox_enqueue_total{table=\"public.org_outbox\",topic=\"org.organization.created.v1\"}";
    assert!(text.contains(line), "{text}");
}

// org-6.2.18, org-10.2.7, org-10.5.3, B7
#[tokio::test]
async fn the_gauge_tells_which_process_leads_and_follows_when_that_is_killed() {
    let address = database().await;
    org::set_up(&address).await.unwrap();
    let table = ["table=\"public.org_outbox\""];
    let mut first = Instance::start(&address, &[]);
    eventually("the first leads", async || {
        first.value("outbox_relay_leader", &table) == Some(1.0)
    })
    .await;
    let second = Instance::start(&address, &[]);
    eventually("the second stands by", async || {
        second.value("outbox_relay_leader", &table) == Some(0.0)
    })
    .await;
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    eventually("the second leads", async || {
        second.value("outbox_relay_leader", &table) == Some(1.0)
    })
    .await;
}

// org-10.5.4, org-10.2.5, B7, F8
#[tokio::test]
async fn a_leader_that_hangs_keeps_the_lock_and_the_gauges_of_the_others_show_it() {
    let scene = Scene::new().await;
    let table = ["table=\"public.org_outbox\""];
    let leads = |instance: &Instance| instance.value("outbox_relay_leader", &table);
    let mut first = Instance::start(&scene.address, &[]);
    eventually("the first leads", async || leads(&first) == Some(1.0)).await;
    first.hang();
    let events = scene.create_many(3).await;
    let second = Instance::start(&scene.address, &[]);
    eventually("the second stands by, and tells what waits", async || {
        leads(&second) == Some(0.0) && second.value("outbox_pending", &table) == Some(3.0)
    })
    .await;
    // It asks for the lock twice a second.
    tokio::time::sleep(MS(1500)).await;
    assert_eq!(
        leads(&second),
        Some(0.0),
        "the session that has the lock is open"
    );
    for event in &events {
        assert_eq!(scene.event(*event).await.attempts, 0);
    }
    // A restart is what helps.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    eventually("the second leads", async || leads(&second) == Some(1.0)).await;
    for event in events {
        scene.until(event, Status::Delivered).await;
    }
}

// org-10.2.9
#[tokio::test]
async fn another_path_can_be_named_and_without_the_switch_there_is_none() {
    let address = database().await;
    let named = Instance::start(&address, &[("PROMETHEUS_METRICS_PATH", "/numbers")]);
    assert!(named.scrape().starts_with("HTTP/1.1 200"));
    assert!(named.get("/debug/prometheus").starts_with("HTTP/1.1 404"));
    let mut silent = program(&address)
        .arg("serve")
        .env("ORG_LISTEN", "127.0.0.1:1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(silent.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    silent.kill().unwrap();
    silent.wait().unwrap();
    assert_eq!(
        said, "0 relays\n",
        "nothing listens, and nothing is relayed"
    );
}

// org-5.1.8, org-7.2, B23
#[tokio::test]
async fn a_line_in_the_log_about_a_failure_says_all_that_finds_the_event() {
    let address = database().await;
    org::set_up(&address).await.unwrap();
    let staff = org::Staff::open(&address).unwrap();
    let command = org::Command::of(Uuid::new_v4());
    let receipt = staff
        .hire(&command, Uuid::now_v7(), "Ada Lovelace of London")
        .await
        .unwrap();
    let failure = |masked: &str| {
        let mut instance = program(&address)
            .arg("serve")
            .env("OUTBOX_RELAY_TABLES", HRM_OUTBOX)
            .env("OUTBOX_LOG_MASK_TENANT", masked)
            .env("NO_COLOR", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(instance.stderr.take().unwrap());
        let line = log
            .lines()
            .map_while(Result::ok)
            .find(|line| line.contains("a delivery failed"));
        instance.kill().unwrap();
        instance.wait().unwrap();
        line.expect("it is logged")
    };
    let line = failure("false");
    for field in [
        format!("table=\"{HRM_OUTBOX}\""),
        "topic=\"hrm.employee.hired.v1\"".to_owned(),
        format!("id={}", receipt.id),
        format!("tenant=\"{}\"", command.tenant_id),
        format!("sequence={}", receipt.sequence),
        "attempts=1".to_owned(),
    ] {
        assert!(line.contains(&field), "{field}: {line}");
    }
    assert!(!line.contains("Lovelace"), "{line}");
    let line = failure("true");
    assert!(line.contains("tenant=\"***\""), "{line}");
    assert!(!line.contains(&command.tenant_id.to_string()), "{line}");
}

#[test]
fn what_is_wrong_is_told_before_anything_starts() {
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = program("postgres://127.0.0.1:1/none");
        let output = command
            .args(arguments)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(run(&["sevre"], &[]).contains("org serve"));
    assert!(run(&["--for", "long"], &[]).contains("30s"));
    let told = run(&["serve"], &[("OUTBOX_RELAY_BATCH_SIZE", "many")]);
    assert!(
        told.contains("OUTBOX_RELAY_BATCH_SIZE must be a whole number"),
        "{told}"
    );
    let mut command = program("");
    let output = command.env_remove("DATABASE_URL").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("cargo xtask example org"));
}
