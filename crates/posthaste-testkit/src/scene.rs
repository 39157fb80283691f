//! What tests of whole systems share: a database of their own, the program `posthaste`, clients in Python,
//! and patience.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

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

/// Keeps what is logged to it: a writer for a subscriber of `tracing`.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// All of it.
    pub fn text(&self) -> String {
        let bytes = self.0.lock().expect("not poisoned");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
///
/// # Panics
/// Panics if it is missing, or older than what it is made of: whoever tests another package alone has to
/// build it.
pub fn posthaste() -> Command {
    let test = std::env::current_exe().expect("this test is a program");
    let target = test.parent().and_then(|deps| deps.parent());
    let program: PathBuf = target.expect("cargo's directories").join("posthaste");
    let built = changed(&program).unwrap_or_else(|| {
        panic!("{} is missing: {BUILD}", program.display());
    });
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for part in ["posthaste", "posthaste-relay", "posthaste-cli"] {
        for folder in ["src", "sql"] {
            if let Some(newer) = newer_in(&crates.join(part).join(folder), built) {
                panic!(
                    "{} is older than {}: {BUILD}",
                    program.display(),
                    newer.display()
                );
            }
        }
    }
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("POSTHASTE_")) {
        command.env_remove(name);
    }
    command
}

const BUILD: &str = "build it with `cargo test --workspace --all-features --no-run`";

fn changed(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|it| it.modified()).ok()
}

/// A file that was changed since, here or further down.
fn newer_in(folder: &Path, since: SystemTime) -> Option<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find_map(|path| match path.is_dir() {
        true => newer_in(&path, since),
        false => changed(&path).filter(|it| *it > since).map(|_| path),
    })
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

#[cfg(test)]
mod tests {
    use super::newer_in;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_file_that_was_changed_since_is_found_wherever_it_is() {
        let folder = std::env::temp_dir().join(format!("posthaste-scene-{}", std::process::id()));
        let file = folder.join("store/claim.rs");
        std::fs::create_dir_all(folder.join("store")).unwrap();
        std::fs::write(&file, "").unwrap();
        let now = SystemTime::now();
        assert_eq!(newer_in(&folder, now + Duration::from_secs(60)), None);
        assert_eq!(newer_in(&folder, now - Duration::from_secs(60)), Some(file));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
