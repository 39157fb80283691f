//! What operators ask of an outbox in memory: pages, history, groups, pauses, relays, blocked keys.

use std::collections::BTreeMap;
use std::time::SystemTime;

use uuid::Uuid;

use super::Contents;
use super::rows::{State, Stored};
use crate::event::{DeadReason, Status};
use crate::store::group::{Dead, Grouping};
use crate::store::{
    Act, Attempt, Audit, BlockedKey, Filter, Group, Mark, Order, Page, Pause, RelayInfo, Target,
    crew, history, storable,
};

/// A relay that was seen.
pub(super) struct Presence {
    pub(super) alive: bool,
    pub(super) since: SystemTime,
}

impl Contents {
    pub(super) fn note(&mut self, what: &str, act: &Act, now: SystemTime) {
        self.audit.push(Audit {
            at: now,
            actor: storable(&act.actor),
            act: what.to_owned(),
            event_id: Uuid::nil(),
            topic: String::new(),
            why: storable(&act.why),
        });
    }

    pub(super) fn remove(&mut self, sequences: &[i64], archive: bool) -> u64 {
        for sequence in sequences {
            let removed = self.rows.remove(*sequence);
            if archive {
                self.archive.extend(removed.map(|row| row.record()));
            }
        }
        sequences.len() as u64
    }

    pub(super) fn redeliver(&mut self, ids: &[Uuid], act: &Act, now: SystemTime) -> Vec<Uuid> {
        let acted = self.rows.redeliver(ids, now);
        for (origin, id, topic) in &acted {
            let why = match origin == id {
                true => storable(&act.why),
                false => storable(&format!("{} (as {id})", act.why)),
            };
            self.audit.push(Audit {
                at: now,
                actor: storable(&act.actor),
                act: "redeliver".to_owned(),
                event_id: *origin,
                topic: topic.clone(),
                why,
            });
        }
        acted.into_iter().map(|(_, id, _)| id).collect()
    }

    pub(super) fn browse(
        &self,
        filter: &Filter,
        order: Order,
        from: Option<Mark>,
        limit: u32,
        now: SystemTime,
    ) -> Page {
        let filter = Filter {
            after: None,
            ..filter.clone()
        };
        let wanted = self.rows.iter().filter(|row| row.is_meant(&filter, now));
        Page::of(wanted.map(Stored::record).collect(), order, from, limit)
    }

    pub(super) fn history(&self, id: Uuid) -> Vec<Attempt> {
        let row = self.rows.by_id(id);
        row.map_or_else(Vec::new, |row| {
            history::complete(&row.record(), row.history.clone())
        })
    }

    pub(super) fn groups(&self, filter: &Filter, limit: u32, now: SystemTime) -> Vec<Group> {
        let mut groups = Grouping::default();
        for row in self.rows.iter().filter(|row| row.is_meant(filter, now)) {
            if let State::Dead { at, reason } = row.state {
                groups.add(Dead {
                    fingerprint: row.fingerprint(),
                    reason,
                    topic: row.values.topic.clone(),
                    at,
                    id: row.values.id,
                    error: row.last_error.clone(),
                });
            }
        }
        groups.largest(limit)
    }

    pub(super) fn pause(&mut self, target: &Target, act: &Act, now: SystemTime) -> bool {
        if self.pauses.contains_key(target) {
            return false;
        }
        let pause = Pause {
            target: target.clone(),
            at: now,
            actor: storable(&act.actor),
            why: storable(&act.why),
        };
        self.pauses.insert(target.clone(), pause);
        self.note("pause", &about(target, act), now);
        true
    }

    pub(super) fn resume(&mut self, target: &Target, act: &Act, now: SystemTime) -> bool {
        let paused = self.pauses.remove(target).is_some();
        if paused {
            self.note("resume", &about(target, act), now);
        }
        paused
    }

    pub(super) fn crew(&self) -> Vec<RelayInfo> {
        let mut crew: Vec<RelayInfo> = self
            .relays
            .iter()
            .map(|(owner, presence)| {
                let leased = self.rows.iter().filter(|row| row.is_leased_by(*owner));
                let claimed: Vec<SystemTime> = leased.map(|row| row.updated_at).collect();
                RelayInfo {
                    since: Some(presence.since),
                    leases: claimed.len() as u64,
                    oldest_lease: claimed.into_iter().min(),
                    leads: self.leader == Some(*owner),
                    alive: presence.alive,
                    ..RelayInfo::new(*owner, Some(crew::name()))
                }
            })
            .collect();
        crew.sort_by_key(|relay| (!relay.alive, relay.since, relay.owner));
        crew
    }

    pub(super) fn blocked(&self, limit: u32, now: SystemTime) -> Vec<BlockedKey> {
        let mut keys: BTreeMap<&str, Vec<&Stored>> = BTreeMap::new();
        for row in self.rows.iter() {
            let over = row.status() == Status::Delivered
                || row.dead_reason() == Some(DeadReason::Discarded);
            if let (Some(key), false) = (&row.values.ordering_key, over) {
                keys.entry(key).or_default().push(row);
            }
        }
        let blocked = keys.into_iter().filter_map(|(key, rows)| {
            let (head, behind) = rows.split_first()?;
            let waits = head.status() == Status::Pending && head.next_attempt_at > now;
            let live = behind
                .iter()
                .filter(|row| row.status() != Status::Dead)
                .count() as u64;
            if !(waits || head.status() == Status::Dead) || live == 0 {
                return None;
            }
            Some(BlockedKey {
                key: key.to_owned(),
                head: head.values.id,
                topic: head.values.topic.clone(),
                status: head.status(),
                reason: head.dead_reason(),
                attempts: head.attempts,
                error: head.last_error.clone(),
                since: head.ended_at().unwrap_or(head.updated_at),
                next_attempt_at: waits.then_some(head.next_attempt_at),
                waiting: live,
            })
        });
        let mut blocked: Vec<BlockedKey> = blocked.collect();
        blocked.sort_by(|a, b| b.waiting.cmp(&a.waiting).then_with(|| a.key.cmp(&b.key)));
        blocked.truncate(limit as usize);
        blocked
    }
}

/// The act, telling of its target.
fn about(target: &Target, act: &Act) -> Act {
    Act {
        actor: act.actor.clone(),
        why: target.told(&act.why),
    }
}
