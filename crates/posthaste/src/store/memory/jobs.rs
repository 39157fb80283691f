//! Redelivery jobs of an outbox in memory.

use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::Contents;
use super::rows::Stored;
use crate::event::Record;
use crate::store::redelivery::{savings, told};
use crate::store::{Act, Job, JobState, Mark, Redelivery, StartedJob, StoreError, storable};

/// All jobs, in the order in which they began.
#[derive(Default)]
pub(super) struct Jobs(Vec<Progress>);

struct Progress {
    job: Job,
    /// The last event that it came to.
    cursor: Mark,
    /// Until when its rate is used up.
    spent: SystemTime,
}

impl Jobs {
    pub(super) fn latest(&self, limit: u32) -> Vec<Job> {
        let mut jobs: Vec<Job> = self.0.iter().rev().map(|known| known.job.clone()).collect();
        jobs.sort_by_key(|job| job.state.is_final());
        jobs.truncate(limit as usize);
        jobs
    }

    pub(super) fn by_id(&self, id: Uuid) -> Option<Job> {
        let known = self.0.iter().find(|known| known.job.id == id)?;
        Some(known.job.clone())
    }

    fn known(&mut self, id: Uuid) -> Option<&mut Progress> {
        self.0.iter_mut().find(|known| known.job.id == id)
    }
}

impl Contents {
    pub(super) fn start_job(
        &mut self,
        id: Uuid,
        redelivery: &Redelivery,
        act: &Act,
        now: SystemTime,
    ) -> Result<StartedJob, StoreError> {
        let filter = redelivery.meant()?;
        if let Some(job) = self.jobs.by_id(id) {
            return Ok(StartedJob { job, new: false });
        }
        let meant = self.rows.iter().filter(|row| row.is_meant(&filter, now));
        let meant = meant.filter(|row| filter.redelivers(&row.record()));
        let job = Job {
            id,
            total: meant.count() as u64,
            filter,
            rate: redelivery.rate,
            state: JobState::Running,
            redelivered: 0,
            actor: storable(&act.actor),
            why: storable(&act.why),
            created_at: now,
            updated_at: now,
            ended_at: None,
        };
        let saved = redelivery.rate.map_or(0.0, savings);
        self.jobs.0.push(Progress {
            job: job.clone(),
            cursor: Mark::START,
            spent: now - Duration::from_secs_f64(saved),
        });
        self.note("start job", &about(id, act), now);
        Ok(StartedJob { job, new: true })
    }

    pub(super) fn set_job(
        &mut self,
        id: Uuid,
        state: JobState,
        act: &Act,
        now: SystemTime,
    ) -> Option<Job> {
        let job = &mut self.jobs.known(id)?.job;
        if !job.state.is_final() && job.state != state {
            job.state = state;
            job.updated_at = now;
            job.ended_at = state.is_final().then_some(now);
            self.note(state.act(), &about(id, act), now);
        }
        self.jobs.by_id(id)
    }

    pub(super) fn advance(&mut self, id: Uuid, limit: u32, now: SystemTime) -> Option<Job> {
        let known = self.jobs.known(id)?;
        if known.job.state != JobState::Running {
            return None;
        }
        let mut allowed = limit as usize;
        if let Some(rate) = known.job.rate {
            let saved = now.duration_since(known.spent).unwrap_or_default();
            let saved = saved.as_secs_f64().min(savings(rate));
            let by_now = (saved * f64::from(rate)).floor();
            allowed = allowed.min(by_now as usize);
            let left = saved - allowed as f64 / f64::from(rate);
            known.spent = now - Duration::from_secs_f64(left.max(0.0));
        }
        let (job, cursor) = (known.job.clone(), known.cursor);
        if allowed == 0 {
            return Some(job);
        }
        let meant = self
            .rows
            .iter()
            .filter(|row| row.is_meant(&job.filter, job.created_at))
            .map(Stored::record)
            .filter(|record| job.filter.redelivers(record));
        let ended = meant.filter_map(|record| Some((record.mark()?, record)));
        let mut next: Vec<(Mark, Record)> = ended
            .filter(|(mark, _)| *mark > cursor && mark.at <= job.created_at)
            .collect();
        next.sort_by_key(|(mark, _)| *mark);
        let is_all = next.len() < allowed;
        next.truncate(allowed);
        let ids: Vec<Uuid> = next.iter().map(|(_, record)| record.id).collect();
        let act = Act {
            actor: job.actor.clone(),
            why: told(&job.why, id),
        };
        let redelivered = self.redeliver(&ids, &act, now).len() as u64;
        let known = self.jobs.known(id)?;
        known.cursor = next.last().map_or(cursor, |(mark, _)| *mark);
        known.job.redelivered += redelivered;
        known.job.updated_at = now;
        if is_all {
            known.job.state = JobState::Done;
            known.job.ended_at = Some(now);
        }
        Some(known.job.clone())
    }
}

/// The act, telling of its job.
fn about(id: Uuid, act: &Act) -> Act {
    Act {
        actor: act.actor.clone(),
        why: told(&act.why, id),
    }
}
