//! Redeliver: work on the jobs that operators began, at their rates.
//!
//! The store sees to the rate, and that one process at a time is at a job: any number of relays may try.

use std::sync::Arc;
use std::time::Duration;

use posthaste::store::{Job, JobState};
use posthaste::{Store, StoreError};
use uuid::Uuid;

use crate::relay::Engine;

/// How often to look for jobs.
const LOOK: Duration = Duration::from_secs(1);
/// How many events to redeliver at once.
const STEP: u32 = 500;
/// How many jobs to look at for those that are running.
const JOBS: u32 = 1_000;
/// Between two steps of a job with a rate, or one that another process is at.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Works on one job until it is over, or somebody pauses it, and tells of each step: for tools that
/// wait for it. Beside relays that work on it, too, nothing is redelivered twice. `None`: there is
/// no such job.
pub async fn finish_job(
    store: &dyn Store,
    id: Uuid,
    mut step: impl FnMut(&Job),
) -> Result<Option<Job>, StoreError> {
    loop {
        let advanced = store.advance(id, STEP).await?;
        let rest = match &advanced {
            Some(job) => pause(job),
            None => LONGEST_PAUSE,
        };
        let job = match advanced {
            Some(job) => job,
            None => match store.job(id).await? {
                Some(job) => job,
                None => return Ok(None),
            },
        };
        step(&job);
        if job.state != JobState::Running {
            return Ok(Some(job));
        }
        tokio::time::sleep(rest).await;
    }
}

/// How long to wait before the next step.
fn pause(job: &Job) -> Duration {
    match job.rate {
        None => Duration::ZERO,
        Some(rate) => Duration::from_secs_f64(1.0 / f64::from(rate.max(1)))
            .clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
    }
}

impl Engine {
    /// Works on jobs until the relay stops.
    pub(crate) async fn redeliver(self: Arc<Self>) {
        loop {
            let rest = match self.redeliver_once().await {
                Ok(rest) => rest,
                Err(error) => {
                    self.log_store("redeliver", &error);
                    LOOK
                }
            };
            if self.rest(rest).await {
                return;
            }
        }
    }

    /// One step of every job that is running. Gives back how long to wait.
    async fn redeliver_once(&self) -> Result<Duration, StoreError> {
        let mut rest = LOOK;
        let mut jobs = self.store.jobs(JOBS).await?;
        jobs.retain(|job| job.state == JobState::Running);
        // Those that began first come first.
        for job in jobs.into_iter().rev() {
            let before = job.redelivered;
            let step = match self.store.advance(job.id, STEP).await {
                Ok(step) => step,
                // Others need not wait for it.
                Err(error) => {
                    self.log_store("redeliver", &error);
                    continue;
                }
            };
            rest = match step {
                // Another relay is at it.
                None => rest.min(LONGEST_PAUSE),
                Some(job) => {
                    let redelivered = job.redelivered.saturating_sub(before);
                    if redelivered > 0 {
                        self.observer.count("outbox_redelivered_total", redelivered);
                        self.wake.notify_one();
                    }
                    if job.state == JobState::Done {
                        tracing::info!(
                            table = self.observer.table, job = %job.id,
                            redelivered = job.redelivered, "a redelivery is done"
                        );
                    }
                    rest.min(pause(&job))
                }
            };
        }
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use posthaste::store::memory::Memory;
    use posthaste::store::{Act, Claim, Filter, Redelivery, Settlement, Verdict};
    use posthaste::{DeadReason, Message, Table};

    use super::*;

    #[tokio::test]
    async fn a_job_is_worked_on_until_it_is_over() {
        let store = Memory::new(Table::parse("outbox").unwrap());
        let message = Message::bytes("shop.order.placed.v1", "text/plain", "x");
        store.enqueue(&vec![message; 1200]).unwrap();
        let events = store.claim(&Claim::new(2000)).await.unwrap().events;
        let dead = Verdict::Dead {
            reason: DeadReason::Rejected,
            error: "odd".to_owned(),
            letter: None,
        };
        let settlements: Vec<Settlement> = events
            .iter()
            .map(|event| Settlement::new(event.lease, dead.clone()))
            .collect();
        store.settle(&settlements).await.unwrap();
        let act = Act {
            actor: "ann".to_owned(),
            why: "mended".to_owned(),
        };
        let redelivery = Redelivery {
            filter: Filter::default(),
            rate: None,
        };
        let job = store.start_job(&redelivery, &act).await.unwrap();
        let mut steps = Vec::new();
        let done = finish_job(&store, job.id, |job| steps.push(job.redelivered)).await;
        let done = done.unwrap().unwrap();
        assert_eq!((done.state, done.redelivered), (JobState::Done, 1200));
        assert_eq!(steps, [500, 1000, 1200]);
        let unknown = finish_job(&store, Uuid::new_v4(), |_| {}).await;
        assert_eq!(unknown.unwrap(), None);
    }
}
