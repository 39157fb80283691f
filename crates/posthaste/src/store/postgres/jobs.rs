//! Steer: pauses, and redeliveries as jobs.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Postgres;
use super::decode::Timestamp;
use super::operate::Values;
use crate::store::redelivery::{savings, told};
use crate::store::{
    Act, Filter, Job, JobState, Pause, Redelivery, StartedJob, StoreError, Target, storable,
};

/// How many events to look at for each that is wanted, and at least, and at most.
const LOOK: u32 = 4;
const LEAST_LOOK: u32 = 1_000;
const MOST_LOOK: u32 = 10_000;

impl Postgres {
    /// Pauses something, unless it is paused.
    pub(super) async fn leave_in_peace(
        &self,
        target: &Target,
        act: &Act,
    ) -> Result<bool, StoreError> {
        let values: [&(dyn ToSql + Sync); 4] = [
            &storable(target.name()),
            &storable(&act.actor),
            &storable(&act.why),
            &storable(&target.told(&act.why)),
        ];
        let rows = self.ops.query("pause", &self.sql.pause, &values).await?;
        Ok(!rows.is_empty())
    }

    /// Resumes something, if it is paused.
    pub(super) async fn go_on(&self, target: &Target, act: &Act) -> Result<bool, StoreError> {
        let values: [&(dyn ToSql + Sync); 3] = [
            &storable(target.name()),
            &storable(&act.actor),
            &storable(&target.told(&act.why)),
        ];
        let rows = self.ops.query("resume", &self.sql.resume, &values).await?;
        Ok(!rows.is_empty())
    }

    /// What is paused.
    pub(super) async fn paused(&self) -> Result<Vec<Pause>, StoreError> {
        // Not with what may take long, such as cleaning: a pause is to be obeyed within a second.
        let rows = self.claim.query("pauses", &self.sql.pauses, &[]).await?;
        let pause = |row: &Row| Pause {
            target: Target::of(row.get("destination")),
            at: row.get::<_, Timestamp>("at").system_time(),
            actor: row.get("actor"),
            why: row.get("why"),
        };
        Ok(rows.iter().map(pause).collect())
    }

    /// Begins a job, unless there is one of this id.
    pub(super) async fn begin(
        &self,
        id: Uuid,
        redelivery: &Redelivery,
        act: &Act,
    ) -> Result<StartedJob, StoreError> {
        let filter = redelivery.meant()?;
        // Who asks again need not wait until everything is counted once more.
        if let Some((job, _)) = self.known_job(id).await? {
            return Ok(StartedJob { job, new: false });
        }
        let counted = async {
            let all = self.number(&filter).await?;
            match filter.left_out() {
                Some(left_out) => Ok(all.saturating_sub(self.number(&left_out).await?)),
                None => Ok(all),
            }
        };
        // A job need not know how much there is to do.
        let total = match counted.await {
            Err(StoreError::Slow(_)) => 0,
            counted => counted?,
        };
        let total = i64::try_from(total).unwrap_or(i64::MAX);
        let rate = redelivery
            .rate
            .map(|rate| i32::try_from(rate).unwrap_or(i32::MAX));
        let saved = redelivery.rate.map_or(0.0, savings);
        let values: [&(dyn ToSql + Sync); 8] = [
            &id,
            &total,
            &rate,
            &storable(&act.actor),
            &storable(&act.why),
            &filter.to_json(),
            &saved,
            &storable(&told(&act.why, id)),
        ];
        let rows = self
            .ops
            .query("start_job", &self.sql.start_job, &values)
            .await?;
        let new = !rows.is_empty();
        let job = match rows.first() {
            Some(row) => job(row)?,
            // Begun by somebody else, but now.
            None => self.known_job(id).await?.expect("jobs are never removed").0,
        };
        Ok(StartedJob { job, new })
    }

    /// Jobs, those that are not over first.
    pub(super) async fn known_jobs(&self, limit: u32) -> Result<Vec<Job>, StoreError> {
        let limit = i64::from(limit);
        let rows = self.ops.query("jobs", &self.sql.jobs, &[&limit]).await?;
        // What a newer version began is left to it, and keeps nobody from the others.
        Ok(rows.iter().filter_map(|row| job(row).ok()).collect())
    }

    /// One job, and its age by the server's clock.
    pub(super) async fn known_job(&self, id: Uuid) -> Result<Option<(Job, Duration)>, StoreError> {
        let rows = self.ops.query("job", &self.sql.job, &[&id]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let age = Duration::try_from_secs_f64(row.get("age")).unwrap_or_default();
        Ok(Some((job(row)?, age)))
    }

    /// Pauses, resumes or cancels a job.
    pub(super) async fn bring_to(
        &self,
        id: Uuid,
        state: JobState,
        act: &Act,
    ) -> Result<Option<Job>, StoreError> {
        let values: [&(dyn ToSql + Sync); 5] = [
            &id,
            &state.as_str(),
            &storable(&act.actor),
            &state.act(),
            &storable(&told(&act.why, id)),
        ];
        let rows = self
            .ops
            .query("set_job", &self.sql.set_job, &values)
            .await?;
        rows.first().map(job).transpose()
    }

    /// Redelivers the next events of a job.
    pub(super) async fn redeliver_next(
        &self,
        id: Uuid,
        limit: u32,
    ) -> Result<Option<Job>, StoreError> {
        let Some((running, age)) = self.known_job(id).await? else {
            return Ok(None);
        };
        if running.state != JobState::Running {
            return Ok(None);
        }
        let filter = running.filter.as_of(age);
        let values = Values::of(&filter);
        let look = limit.saturating_mul(LOOK).clamp(LEAST_LOOK, MOST_LOOK);
        let (size, look) = (i64::from(limit), i64::from(look.max(limit)));
        let mut params = values.params();
        params.extend([&id as &(dyn ToSql + Sync), &size, &look]);
        let rows = self
            .ops
            .query("advance", &self.sql.advance, &params)
            .await?;
        rows.first().map(job).transpose()
    }
}

fn job(row: &Row) -> Result<Job, StoreError> {
    let time = |column| row.get::<_, Timestamp>(column).system_time();
    let filter: &str = row.get("filter");
    let state: &str = row.get("state");
    let unknown = || StoreError::Settings(Job::UNREADABLE.to_owned());
    Ok(Job {
        id: row.get("id"),
        filter: Filter::from_json(filter).ok_or_else(unknown)?,
        rate: row.get::<_, Option<i32>>("rate").map(i32::unsigned_abs),
        state: JobState::parse(state).ok_or_else(unknown)?,
        total: row.get::<_, i64>("total").unsigned_abs(),
        redelivered: row.get::<_, i64>("redelivered").unsigned_abs(),
        actor: row.get("actor"),
        why: row.get("why"),
        created_at: time("created_at"),
        updated_at: time("updated_at"),
        ended_at: row
            .get::<_, Option<Timestamp>>("ended_at")
            .map(Timestamp::system_time),
    })
}
