//! What tests of whole systems share: a database of their own, the program `posthaste`, clients in Python,
//! and patience.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::outbox::connect;
use crate::server;

/// Far more than anything takes that goes well.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The address of a new database, in the server that the tests were given.
pub async fn database() -> String {
    let server = server::postgres_url();
    let name = format!("t{}", uuid::Uuid::new_v4().simple());
    let create = format!("create database {name}");
    let made = connect(&server).await.batch_execute(&create).await;
    made.expect("a new database");
    let (server, _) = server
        .rsplit_once('/')
        .expect("the address names a database");
    format!("{server}/{name}")
}

/// Asks until the answer is yes.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Does what would block the other parts of a test.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work)
        .await
        .expect("what blocks does not panic")
}

/// What a script in Python prints, see [`server::python`].
pub async fn python(script: &'static str, arguments: &[&str]) -> String {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let printed = server::python(script, &arguments).unwrap_or_else(|error| panic!("{error}"));
        String::from_utf8(printed).expect("Python prints UTF-8")
    })
    .await
}

/// The program `posthaste`, which knows nothing of the environment of the tests. Cargo builds it with the
/// tests of its package, and puts it beside the tests' own directory.
pub fn posthaste() -> Command {
    let test = std::env::current_exe().expect("this test is a program");
    let target = test.parent().and_then(|deps| deps.parent());
    let program: PathBuf = target.expect("cargo's directories").join("posthaste");
    assert!(
        program.is_file(),
        "{} is missing: build it with `cargo test --workspace --all-features --no-run`",
        program.display()
    );
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("POSTHASTE_")) {
        command.env_remove(name);
    }
    command
}

/// A program at work, with nothing to say. Killed when it is dropped.
pub struct Running(Child);

impl Running {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(quiet.spawn().expect("it starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
