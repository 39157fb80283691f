//! Workers as processes of their own: started, killed, ended. They end with the process that started them.

use std::io::{self, Read as _};
use std::process::{Child, Command, Stdio};

/// Workers that this process has started.
pub(crate) struct Crew {
    workers: Vec<Child>,
    killed: usize,
}

impl Crew {
    /// Starts so many of them, with the environment of this process.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let mut crew = Self {
            workers: Vec::new(),
            killed: 0,
        };
        for _ in 0..count {
            let worker = Command::new(std::env::current_exe()?)
                .args(["worker", "--with-parent"])
                .stdin(Stdio::piped())
                .spawn()?;
            crew.workers.push(worker);
        }
        Ok(crew)
    }

    /// Kills one of them with SIGKILL: it can put nothing in order.
    pub(crate) fn kill_one(&mut self) -> io::Result<()> {
        if let Some(mut worker) = self.workers.pop() {
            worker.kill()?;
            worker.wait()?;
            self.killed += 1;
        }
        Ok(())
    }

    /// How many were killed.
    pub(crate) fn killed(&self) -> usize {
        self.killed
    }

    /// Lets the others finish what they are at, and waits for them.
    pub(crate) fn end(mut self) -> io::Result<()> {
        for worker in &mut self.workers {
            drop(worker.stdin.take());
        }
        for worker in &mut self.workers {
            worker.wait()?;
        }
        Ok(())
    }
}

/// Waits until the process that started this one is gone, which closes our standard input.
pub(crate) async fn parent_is_gone() {
    // A thread of its own, as it waits for as long as the process lives.
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::stdin().read(&mut [0]);
        let _ = tell.send(());
    });
    let _ = told.await;
}
