//! The blocks of the guides that are scripts and configurations: they are run, or read by whoever they are for.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use posthaste_testkit::disk::{has_own_mounts, mount};
use posthaste_testkit::server::{Prometheus, program, systemd_analyze};

use crate::blocks::{Block, blocks_of, guides};
use crate::repository;

/// The blocks of a guide in this language.
pub(crate) fn blocks(guide: &str, language: &str) -> Vec<String> {
    let found = blocks_of(guide);
    let found = found.into_iter().filter(|block| block.language == language);
    found.map(|Block { text, .. }| text).collect()
}

fn posthaste(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("POSTHASTE_")) {
        command.env_remove(name);
    }
    command.args(arguments).current_dir(folder);
    command
}

fn done(mut command: Command) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{told}{errors}");
    told
}

/// Ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const OUTBOX: &str =
    "[database]\nurl = \"sqlite:shop.db\"\n[[outbox]]\ntable = \"orders_outbox\"\n";

#[test]
fn the_requests_of_the_admin_guide_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let create = ["token", "create", "ada", "--role", "operator"];
    let told = done(posthaste(folder, &create));
    let token = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("phst_"));
    let token = format!("phst_{}", token.unwrap());
    std::fs::write(folder.join("tokens"), told.lines().last().unwrap().trim()).unwrap();
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let more = format!(
        "[sink.log]\ntype = \"stdout\"\n[admin]\nlisten = \"127.0.0.1:{port}\"\ntokens_file = \"tokens\"\n"
    );
    std::fs::write(folder.join("posthaste.toml"), format!("{OUTBOX}{more}")).unwrap();
    // Of whatever is not answered with a success.
    std::fs::write(folder.join(".curlrc"), "fail\nsilent\nshow-error\n").unwrap();
    done(posthaste(folder, &["migrate"]));
    let mut run = posthaste(folder, &["run"]);
    let run = run.stdout(Stdio::null()).stderr(Stdio::null());
    let _daemon = Daemon(run.spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "the daemon does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    program("curl", "curl").unwrap();
    let scripts = blocks("docs/admin.md", "sh");
    assert!(!scripts.is_empty());
    for script in scripts {
        let mut bash = Command::new("bash");
        let script = script.replace("localhost:7411", &format!("localhost:{port}"));
        bash.args(["-e", "-c", &script]).env("HOME", folder);
        bash.env("TOKEN", &token).env_remove("CURL_HOME");
        let told = done(bash);
        assert!(told.contains("public.orders_outbox"), "{told}");
    }
}

/// Installs for real, in a process with mounts of its own, so that nobody else sees anything of it.
#[test]
fn the_unit_is_installed_by_the_commands_of_the_guide() {
    if !has_own_mounts("scripts::the_unit_is_installed_by_the_commands_of_the_guide") {
        return;
    }
    systemd_analyze(&["--version"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for place in ["/etc", "/usr/local/bin"] {
        let copy = folder.join(place.trim_start_matches('/'));
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        let _ = Command::new("cp").arg("-a").arg(place).arg(&copy).status();
        assert!(mount(&["--bind", copy.to_str().unwrap()], Path::new(place)));
    }
    std::fs::copy(env!("CARGO_BIN_EXE_posthaste"), folder.join("posthaste")).unwrap();
    let unit = repository().join("ops/posthaste.service");
    std::fs::create_dir(folder.join("ops")).unwrap();
    std::fs::copy(unit, folder.join("ops/posthaste.service")).unwrap();
    let table = "[[outbox]]\ntable = \"orders_outbox\"\n[sink.log]\ntype = \"stdout\"\n";
    std::fs::write(folder.join("posthaste.toml"), table).unwrap();
    std::fs::write(folder.join("database-url"), "sqlite:/tmp/shop.db").unwrap();
    let script = &blocks("docs/deploy.md", "sh")[0];
    let (install, start) = script.trim().rsplit_once('\n').unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-e", "-c", install]).current_dir(folder);
    done(bash);
    // Only a system that systemd has started can do the last part, which is `--now`.
    assert_eq!(start, "systemctl enable --now posthaste");
    let enabled = Command::new("bash").args(["-c", start]).output().unwrap();
    let link = Path::new("/etc/systemd/system/multi-user.target.wants/posthaste.service");
    assert!(link.is_symlink(), "{enabled:?}");
    let installed = "/etc/systemd/system/posthaste.service";
    let told = systemd_analyze(&["verify", "--man=no", installed]).unwrap();
    assert_eq!(told, "");
    for (file, mode) in [
        ("/usr/local/bin/posthaste", 0o755),
        ("/etc/posthaste/posthaste.toml", 0o644),
        ("/etc/posthaste/database-url", 0o600),
    ] {
        use std::os::unix::fs::PermissionsExt;
        let found = std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{file}");
    }
    // As the unit runs it.
    let mut check = Command::new("/usr/local/bin/posthaste");
    check
        .args(["config", "check"])
        .current_dir("/etc/posthaste");
    check.env(
        "POSTHASTE_DATABASE__URL_FILE",
        "/etc/posthaste/database-url",
    );
    done(check);
}

/// Files that configurations name, in a folder instead of theirs.
fn with_files(configuration: &str, folder: &Path) -> String {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let hash = "0".repeat(64);
    let files = [
        ("tokens", format!("ada operator sha256:{hash}\n")),
        ("cert.pem", certified.cert.pem()),
        ("key.pem", certified.signing_key.serialize_pem()),
        ("otlp_headers", "authorization=Bearer secret\n".to_owned()),
        ("rabbitmq", "secret\n".to_owned()),
    ];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let here = format!("{}/", folder.display());
    configuration
        .replace("/etc/posthaste/", &here)
        .replace("/run/secrets/", &here)
}

#[test]
fn the_program_accepts_every_configuration_of_the_guides() {
    let mut checked = 0;
    for guide in guides().iter().filter(|it| it.starts_with("docs/")) {
        for block in blocks(guide, "toml") {
            let folder = tempfile::tempdir().unwrap();
            let mut text = block.clone();
            if !text.contains("[[outbox]]") {
                text.insert_str(0, OUTBOX);
            }
            // Where to, if the block leaves that to its reader.
            let named = block
                .lines()
                .filter_map(|line| line.strip_prefix("sink = "));
            let mut sinks: Vec<&str> = named.map(|name| name.trim_matches('"')).collect();
            if !block.contains("[sink.") && sinks.is_empty() {
                sinks.push("log");
            }
            for sink in sinks {
                if !block.contains(&format!("[sink.{sink}]")) {
                    text.push_str(&format!("\n[sink.{sink}]\ntype = \"stdout\"\n"));
                }
            }
            let text = with_files(&text, folder.path());
            std::fs::write(folder.path().join("posthaste.toml"), &text).unwrap();
            let output = posthaste(folder.path(), &["config", "check"]).output();
            let output = output.unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{guide}:\n{block}\n{told}");
            checked += 1;
        }
    }
    assert!(checked > 7, "{checked}");
}

#[test]
fn prometheus_accepts_the_configuration_of_the_guide() {
    let folder = tempfile::tempdir().unwrap();
    let [yaml] = &blocks("docs/metrics.md", "yaml")[..] else {
        panic!("docs/metrics.md has one configuration");
    };
    let token = folder.path().join("posthaste-token");
    std::fs::write(&token, "phst_secret").unwrap();
    let yaml = yaml.replace("/etc/prometheus/posthaste-token", token.to_str().unwrap());
    std::fs::write(folder.path().join("prometheus.yml"), yaml).unwrap();
    let told = Prometheus::promtool(folder.path(), &["check", "config", "prometheus.yml"]);
    assert!(told.unwrap().contains("SUCCESS"));
}

/// What the guides do with cargo. The programs are built already, and the tests run.
#[test]
fn what_the_guides_do_with_cargo_can_be_done() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let members = "default-members = [\"crates/posthaste-cli\"]";
    assert!(
        read("Cargo.toml").contains(members),
        "what `cargo run` runs"
    );
    assert!(read(".cargo/config.toml").contains("xtask = \"run "));
    let mut seen = 0;
    for guide in guides() {
        let scripts = blocks(&guide, "sh");
        let lines = scripts.iter().flat_map(|script| script.lines());
        for line in lines.filter(|line| line.contains("cargo ")) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let words = match words.iter().position(|word| *word == "cargo") {
                Some(at) => &words[at..],
                None => continue,
            };
            seen += 1;
            match words {
                ["cargo", "run", "--release", "--", "demo"] => {
                    let folder = tempfile::tempdir().unwrap();
                    let told = done(posthaste(folder.path(), &["demo", "--for", "2s"]));
                    assert!(told.contains("othing was lost"), "{told}");
                }
                ["cargo", "xtask", "test"] => {}
                ["cargo", "xtask", "example", name, ..] | ["cargo", "run", "-p", name] => {
                    let manifest: PathBuf = ["examples", name, "Cargo.toml"].iter().collect();
                    let manifest = read(manifest.to_str().unwrap());
                    assert!(manifest.contains(&format!("name = \"{name}\"")), "{line}");
                    assert!(read("xtask/src/example.rs").contains(&format!("\"{name}\"")));
                }
                _ => panic!("{guide}: nobody proves `{line}`"),
            }
        }
    }
    assert!(seen > 8, "{seen}");
}

/// On an outbox with an event that somebody gave up.
#[test]
fn operators_of_the_examples_can_do_what_they_are_told() {
    for guide in [
        "examples/mini-chat/README.md",
        "examples/order-service/README.md",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let configuration = format!("{OUTBOX}[sink.log]\ntype = \"stdout\"\n");
        std::fs::write(folder.path().join("posthaste.toml"), configuration).unwrap();
        done(posthaste(folder.path(), &["migrate"]));
        let enqueue = ["enqueue", "shop.order.placed.v1", "{}", "--json"];
        let told: serde_json::Value =
            serde_json::from_str(&done(posthaste(folder.path(), &enqueue))).unwrap();
        let id = told["id"].as_str().unwrap();
        done(posthaste(folder.path(), &["discard", id, "--yes"]));
        let script = blocks(guide, "sh")
            .into_iter()
            .find(|it| it.starts_with("posthaste "));
        let script = script.unwrap().replace(" ID ", &format!(" {id} --yes "));
        assert!(script.contains(id), "{script}");
        let mut bash = Command::new("bash");
        let program = Path::new(env!("CARGO_BIN_EXE_posthaste")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        bash.env("PATH", format!("{}:{path}", program.display()));
        bash.args(["-e", "-c", &script]).current_dir(folder.path());
        let told = done(bash);
        assert!(told.contains("redelivered 1 event"), "{told}");
    }
}
