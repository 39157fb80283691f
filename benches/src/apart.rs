//! The database, a destination and the relay as if each had a machine of its own.
//!
//! On one machine all of them share the processors: what a destination's server uses up, the database lacks, and a
//! ratio tells of that rather than of the relay. So each gets an equal share by a control group of Linux, for floors and
//! relay alike.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, process, thread};

use crate::Result;
use crate::parties::Parties;

/// Short, so that nobody waits for long once its share is used up.
const PERIOD_US: usize = 5000;
/// What each of the three gets of the machine. The rest is for everybody else.
const SHARE: f64 = 0.3;

/// Where control groups are: those of processors alone, which older systems have, and those of everything.
const OLD: &str = "/sys/fs/cgroup/cpu";
const NEW: &str = "/sys/fs/cgroup";
const MEMBERS: &str = "cgroup.procs";

/// As long as it lives, the processes are apart.
pub(crate) struct Apart {
    _groups: [Group; 3],
    /// How many processors each of them has.
    pub(crate) cores: f64,
}

impl Apart {
    pub(crate) fn new(parties: Parties) -> Result<Self> {
        let processes = parties.processes()?;
        let cores = thread::available_parallelism()?.get() as f64 * SHARE;
        let group = |name, pids: &[u32]| Group::new(name, pids, cores);
        Ok(Self {
            _groups: [
                group("database", &processes.database)?,
                group("destination", &processes.destination)?,
                group("relay", &processes.relay)?,
            ],
            cores,
        })
    }
}

/// Processes that share a number of processors. They go home when it ends.
struct Group {
    path: PathBuf,
    home: PathBuf,
}

impl Group {
    fn new(name: &str, pids: &[u32], cores: f64) -> Result<Self> {
        let first = pids.first();
        let first = first.ok_or_else(|| format!("no process is the {name}"))?;
        let group = Self {
            path: root().join(format!("posthaste-bench-{}-{name}", process::id())),
            home: home(*first)?,
        };
        let limited = group.limit(cores);
        limited.map_err(|error| format!("no control group, which takes root on Linux: {error}"))?;
        for pid in pids {
            carry(*pid, &group.path)?;
        }
        Ok(group)
    }

    fn limit(&self, cores: f64) -> io::Result<()> {
        fs::create_dir(&self.path)?;
        let quota = (PERIOD_US as f64 * cores).round();
        if Path::new(OLD).exists() {
            fs::write(self.path.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            return fs::write(self.path.join("cpu.cfs_quota_us"), quota.to_string());
        }
        fs::write(root().join("cgroup.subtree_control"), "+cpu")?;
        fs::write(self.path.join("cpu.max"), format!("{quota} {PERIOD_US}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Those that were started meanwhile, too, also while the others move out.
        for _ in 0..100 {
            let pids = fs::read_to_string(self.path.join(MEMBERS)).unwrap_or_default();
            for pid in pids.lines().filter_map(|pid| pid.parse().ok()) {
                let _ = carry(pid, &self.home);
            }
            if fs::remove_dir(&self.path).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Moves a process to another group, unless it is gone.
fn carry(pid: u32, to: &Path) -> Result {
    match fs::write(to.join(MEMBERS), pid.to_string()) {
        Err(_) if Path::new(&format!("/proc/{pid}")).exists() => {
            Err(format!("process {pid} cannot be moved to {}", to.display()).into())
        }
        _ => Ok(()),
    }
}

/// Where groups are made.
fn root() -> &'static Path {
    let old = Path::new(OLD);
    if old.exists() { old } else { Path::new(NEW) }
}

/// The group that a process is in.
fn home(pid: u32) -> Result<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    // Each line is a number, the resources, and a path. For all resources none is named.
    let resource = if Path::new(OLD).exists() { "cpu" } else { "" };
    let home = groups.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (resources, path) = line.split_once(':')?;
        let is_it = resources.split(',').any(|name| name == resource);
        is_it.then(|| root().join(path.trim_start_matches('/')))
    });
    home.ok_or_else(|| "this system has no control groups".into())
}
