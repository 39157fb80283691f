//! Steer: pauses, and redeliveries as jobs. All stores of a file write on one thread, one after the other.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use uuid::Uuid;

use super::link::Link;
use super::operate::{conditions, rows, statuses};
use super::{Outbox, decode};
use crate::store::redelivery::{savings, told};
use crate::store::{
    Act, Filter, Job, JobState, Pause, Redelivery, StartedJob, StoreError, Target, storable,
};

/// How many events to look at for each that is wanted, and at least, and at most.
const LOOK: u32 = 4;
const LEAST_LOOK: u32 = 1_000;
const MOST_LOOK: u32 = 10_000;
const SECOND: f64 = 1_000_000.0;

/// How far a job got.
struct Progress {
    job: Result<Job, StoreError>,
    spent_at: i64,
    cursor: (i64, i64),
}

impl Outbox {
    /// Pauses something, unless it is paused.
    pub(super) fn leave_in_peace(
        &self,
        link: &mut Link,
        target: &Target,
        act: &Act,
    ) -> Result<bool, StoreError> {
        let now = decode::now();
        let (name, actor, why) = (
            storable(target.name()),
            storable(&act.actor),
            storable(&act.why),
        );
        link.write(|connection| {
            let mut pause = connection.prepare_cached(&self.sql.pause)?;
            let paused = pause.execute(params![name, now, actor, why])? > 0;
            if paused {
                let why = target.told(&act.why);
                self.note(connection, now, act, "pause", Uuid::nil(), "", &why)?;
            }
            Ok(paused)
        })
    }

    /// Resumes something, if it is paused.
    pub(super) fn go_on(
        &self,
        link: &mut Link,
        target: &Target,
        act: &Act,
    ) -> Result<bool, StoreError> {
        let now = decode::now();
        let name = storable(target.name());
        link.write(|connection| {
            let mut resume = connection.prepare_cached(&self.sql.resume)?;
            let resumed = resume.execute([&name])? > 0;
            if resumed {
                let why = target.told(&act.why);
                self.note(connection, now, act, "resume", Uuid::nil(), "", &why)?;
            }
            Ok(resumed)
        })
    }

    /// What is paused.
    pub(super) fn paused(&self, link: &mut Link) -> Result<Vec<Pause>, StoreError> {
        link.read(|connection| {
            rows(connection, &self.sql.pauses, [], |row| {
                Ok(Pause {
                    target: Target::of(decode::shown(row, 0)?),
                    at: decode::system_time(row.get(1)?),
                    actor: decode::shown(row, 2)?,
                    why: decode::shown(row, 3)?,
                })
            })
        })
    }

    /// How much there is to do for a job of this filter. It need not know.
    pub(super) fn total(&self, link: &mut Link, filter: &Filter) -> Result<u64, StoreError> {
        let counted = self.number(link, filter).and_then(|all| {
            let left_out = filter.left_out();
            let left_out = left_out.map_or(Ok(0), |left_out| self.number(link, &left_out))?;
            Ok(all.saturating_sub(left_out))
        });
        match counted {
            Err(StoreError::Slow(_)) => Ok(0),
            counted => counted,
        }
    }

    /// Begins a job, unless there is one of this id.
    pub(super) fn begin(
        &self,
        link: &mut Link,
        id: Uuid,
        redelivery: &Redelivery,
        total: u64,
        act: &Act,
    ) -> Result<StartedJob, StoreError> {
        let filter = redelivery.meant()?;
        if let Some(job) = self.known_job(link, id)? {
            return Ok(StartedJob { job, new: false });
        }
        let total = i64::try_from(total).unwrap_or(i64::MAX);
        let saved = redelivery.rate.map_or(0.0, savings);
        let new = link.write(|connection| {
            let now = decode::now();
            let mut start = connection.prepare_cached(&self.sql.start_job)?;
            let started = start.execute(params![
                id.to_string(),
                now,
                total,
                redelivery.rate,
                storable(&act.actor),
                storable(&act.why),
                filter.to_json(),
                now - (saved * SECOND) as i64,
            ])?;
            if started == 0 {
                return Ok(false);
            }
            let why = told(&act.why, id);
            self.note(connection, now, act, "start job", Uuid::nil(), "", &why)?;
            Ok(true)
        })?;
        let job = self.known_job(link, id)?.expect("jobs are never removed");
        Ok(StartedJob { job, new })
    }

    /// Jobs, those that are not over first.
    pub(super) fn known_jobs(&self, link: &mut Link, limit: u32) -> Result<Vec<Job>, StoreError> {
        let jobs = link.read(|connection| rows(connection, &self.sql.jobs, [limit], job))?;
        // What a newer version began is left to it, and keeps nobody from the others.
        Ok(jobs.into_iter().filter_map(Result::ok).collect())
    }

    /// One job.
    pub(super) fn known_job(&self, link: &mut Link, id: Uuid) -> Result<Option<Job>, StoreError> {
        let known = link.read(|connection| self.progress(connection, id))?;
        known.map(|known| known.job).transpose()
    }

    /// Pauses, resumes or cancels a job.
    pub(super) fn bring_to(
        &self,
        link: &mut Link,
        id: Uuid,
        state: JobState,
        act: &Act,
    ) -> Result<Option<Job>, StoreError> {
        let now = decode::now();
        link.write(|connection| {
            let mut set = connection.prepare_cached(&self.sql.set_job)?;
            let changed = set.execute(params![id.to_string(), state.as_str(), now])?;
            if changed > 0 {
                let why = told(&act.why, id);
                self.note(connection, now, act, state.act(), Uuid::nil(), "", &why)?;
            }
            Ok(())
        })?;
        self.known_job(link, id)
    }

    /// Redelivers the next events of a job.
    pub(super) fn redeliver_next(
        &self,
        link: &mut Link,
        id: Uuid,
        limit: u32,
    ) -> Result<Option<Job>, StoreError> {
        // A job that cannot be read is told as such, and not worked on.
        let running = self.known_job(link, id)?;
        if running.is_none_or(|job| job.state != JobState::Running) {
            return Ok(None);
        }
        let advanced = link.write(|connection| self.advance(connection, id, limit))?;
        self.home.listeners.wake();
        match advanced {
            true => self.known_job(link, id),
            false => Ok(None),
        }
    }

    fn advance(&self, connection: &Connection, id: Uuid, limit: u32) -> rusqlite::Result<bool> {
        let now = decode::now();
        let Some(Progress {
            job: Ok(job),
            spent_at,
            cursor,
        }) = self.progress(connection, id)?
        else {
            return Ok(false);
        };
        if job.state != JobState::Running {
            return Ok(false);
        }
        let (mut allowed, mut saved) = (limit, 0.0);
        if let Some(rate) = job.rate {
            saved = ((now - spent_at).max(0) as f64 / SECOND).min(savings(rate));
            allowed = allowed.min((saved * f64::from(rate) + 1e-6).floor() as u32);
        }
        if allowed == 0 {
            // A clock that was set back: it need not catch up first.
            if spent_at > now {
                let values = params![id.to_string(), now, cursor.0, cursor.1, 0, now, false];
                connection
                    .prepare_cached(&self.sql.advance)?
                    .execute(values)?;
            }
            return Ok(true);
        }
        let look = limit.saturating_mul(LOOK).clamp(LEAST_LOOK, MOST_LOOK);
        let look = look.max(limit);
        let began = decode::micros(job.created_at);
        let statuses = statuses(&job.filter);
        let mut values = conditions(&job.filter, began);
        let place: [Value; 6] = [
            cursor.0.into(),
            cursor.1.into(),
            began.into(),
            i64::from(look).into(),
            i64::from(allowed).into(),
            job.filter.names_discarded().into(),
        ];
        values.push(statuses.clone());
        values.extend(place);
        let ids = &job.filter.ids;
        let picked: Vec<(Uuid, (i64, i64))> = rows(
            connection,
            &self.sql.next,
            params_from_iter(&values),
            |row| Ok((decode::id(row, 0)?, (row.get(1)?, row.get(2)?))),
        )?;
        let (reached, is_over) = match picked.last() {
            Some((_, last)) if picked.len() >= allowed as usize => (*last, false),
            _ => {
                let values = params![look, statuses, cursor.0, cursor.1, began];
                let seen: Option<((i64, i64), u32)> = connection
                    .prepare_cached(&self.sql.next_reach)?
                    .query_row(values, |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))
                    .optional()?;
                seen.map_or((cursor, true), |(last, count)| (last, count < look))
            }
        };
        let meant = picked.iter().map(|(id, _)| *id);
        let meant: Vec<Uuid> = meant
            .filter(|id| ids.is_empty() || ids.contains(id))
            .collect();
        let act = Act {
            actor: job.actor.clone(),
            why: told(&job.why, id),
        };
        let redelivered = self.redeliver(connection, &meant, &act, now)?.len();
        let spent_at = match job.rate {
            Some(rate) => {
                let left = (saved - picked.len() as f64 / f64::from(rate)).max(0.0);
                now - (left * SECOND) as i64
            }
            None => spent_at,
        };
        connection
            .prepare_cached(&self.sql.advance)?
            .execute(params![
                id.to_string(),
                now,
                reached.0,
                reached.1,
                redelivered as i64,
                spent_at,
                is_over,
            ])?;
        Ok(true)
    }

    fn progress(&self, connection: &Connection, id: Uuid) -> rusqlite::Result<Option<Progress>> {
        let mut statement = connection.prepare_cached(&self.sql.job)?;
        let read = |row: &Row<'_>| {
            Ok(Progress {
                job: job(row)?,
                spent_at: row.get(11)?,
                cursor: (row.get(12)?, row.get(13)?),
            })
        };
        statement.query_row([id.to_string()], read).optional()
    }
}

fn job(row: &Row<'_>) -> rusqlite::Result<Result<Job, StoreError>> {
    let filter = Filter::from_json(&decode::shown(row, 10)?);
    let state = JobState::parse(&decode::shown(row, 7)?);
    let (Some(filter), Some(state)) = (filter, state) else {
        return Ok(Err(StoreError::Settings(Job::UNREADABLE.to_owned())));
    };
    let ended_at: Option<i64> = row.get(3)?;
    Ok(Ok(Job {
        id: decode::id(row, 0)?,
        filter,
        rate: row.get(6)?,
        state,
        total: row.get::<_, i64>(4)?.unsigned_abs(),
        redelivered: row.get::<_, i64>(5)?.unsigned_abs(),
        actor: decode::shown(row, 8)?,
        why: decode::shown(row, 9)?,
        created_at: decode::system_time(row.get(1)?),
        updated_at: decode::system_time(row.get(2)?),
        ended_at: ended_at.map(decode::system_time),
    }))
}
