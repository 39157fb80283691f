//! The program as it is shipped: its size, and how long it takes to say how it is used.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::process::Command;

use crate::Result;
use crate::bed::Bed;

/// What `posthaste --help` may take.
const LIMIT: Duration = Duration::from_millis(20);
const STARTED: usize = 51;

pub(crate) async fn run(bed: &Bed) -> Result {
    let program = posthaste()?;
    let bytes = std::fs::metadata(&program)?.len();
    bed.tell(
        "size of the program",
        bytes as f64 / 1_048_576.0,
        "MiB",
        None,
        json!({ "bytes": bytes }),
    );
    // In turns, so that both meet the same moods of the machine.
    let (mut help, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..STARTED {
        help.push(time_of(&program, &["--help"]).await?);
        floor.push(time_of(Path::new("true"), &[]).await?);
    }
    let (help, floor) = (median(help), median(floor));
    let milliseconds = |time: Duration| time.as_micros() as f64 / 1000.0;
    bed.tell(
        "posthaste --help",
        milliseconds(help),
        "ms",
        Some(milliseconds(floor)),
        json!({ "limit": milliseconds(LIMIT), "within": help <= LIMIT, "started": STARTED, "floor_is": "true" }),
    );
    Ok(())
}

/// The program, which stands beside this one.
pub(crate) fn posthaste() -> Result<std::path::PathBuf> {
    let program = std::env::current_exe()?.with_file_name("posthaste");
    match program.exists() {
        true => Ok(program),
        false => Err(format!(
            "{} is missing: run `cargo xtask bench` with the name of the scenario",
            program.display()
        )
        .into()),
    }
}

/// From before it starts until it has ended.
async fn time_of(program: &Path, arguments: &[&str]) -> Result<Duration> {
    let started = Instant::now();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    match command.status().await?.success() {
        true => Ok(started.elapsed()),
        false => Err(format!("{} failed", program.display()).into()),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
