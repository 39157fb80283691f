//! The rows of an outbox in memory, and what single rows go through.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use uuid::Uuid;

use super::claim::Relay;
use crate::enqueue::{Receipt, Row};
use crate::event::{DeadReason, Event, Lease, Record, Status};
use crate::header;
use crate::message::TraceContext;
use crate::store::letter::Death;
use crate::store::{
    ATTEMPTS_KEPT, Attempt, Clean, Content, Ending, Filter, Scope, Tried, fingerprint,
};

/// One event.
#[derive(Clone)]
pub(super) struct Stored {
    /// What the producer wrote.
    pub(super) values: Row,
    pub(super) sequence: i64,
    pub(super) state: State,
    pub(super) attempts: u32,
    pub(super) epoch: i64,
    pub(super) next_attempt_at: SystemTime,
    pub(super) last_error: Option<String>,
    pub(super) created_at: SystemTime,
    pub(super) updated_at: SystemTime,
    pub(super) redeliveries: Option<i32>,
    /// The attempts that were written down, the oldest first.
    pub(super) history: Vec<Attempt>,
}

/// A status with what belongs to it: so that no other combination can be.
#[derive(Clone, Copy)]
pub(super) enum State {
    Pending,
    Processing { owner: Uuid, until: SystemTime },
    Delivered { at: SystemTime },
    Dead { at: SystemTime, reason: DeadReason },
}

/// All events, in sequence.
#[derive(Default)]
pub(super) struct Rows {
    rows: BTreeMap<i64, Stored>,
    by_id: HashMap<Uuid, i64>,
    last: i64,
}

impl Rows {
    /// Adds an event, unless it is there by its id or its dedupe key.
    pub(super) fn enqueue(&mut self, values: Row, now: SystemTime) -> Receipt {
        let twin = self.by_id(values.id).or_else(|| {
            values.dedupe_key.as_ref()?;
            self.iter().find(|row| {
                row.values.dedupe_key == values.dedupe_key
                    && row.values.namespace == values.namespace
                    && row.values.topic == values.topic
            })
        });
        if let Some(twin) = twin {
            return Receipt {
                id: twin.values.id,
                sequence: twin.sequence,
                new: false,
            };
        }
        self.last += 1;
        let (id, sequence) = (values.id, self.last);
        let soonest = now + Duration::from_secs_f64(values.delay);
        let due = values.due.map_or(UNIX_EPOCH, from_unix_seconds);
        self.by_id.insert(id, sequence);
        self.rows.insert(
            sequence,
            Stored {
                values,
                sequence,
                state: State::Pending,
                attempts: 0,
                epoch: 0,
                next_attempt_at: soonest.max(due),
                last_error: None,
                created_at: now,
                updated_at: now,
                redeliveries: None,
                history: Vec::new(),
            },
        );
        Receipt {
            id,
            sequence,
            new: true,
        }
    }

    /// How many events were ever added.
    pub(super) fn enqueued(&self) -> u64 {
        self.last.unsigned_abs()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stored> {
        self.rows.values()
    }

    pub(super) fn at(&mut self, sequence: i64) -> Option<&mut Stored> {
        self.rows.get_mut(&sequence)
    }

    /// How many bytes the payload of an event has.
    pub(super) fn size(&self, sequence: i64) -> u64 {
        let payload = self.rows.get(&sequence).map(Stored::payload);
        payload.map_or(0, |payload| payload.len() as u64)
    }

    pub(super) fn by_id(&self, id: Uuid) -> Option<&Stored> {
        self.rows.get(self.by_id.get(&id)?)
    }

    /// The row that is leased by this very lease.
    pub(super) fn leased(&mut self, lease: &Lease) -> Option<&mut Stored> {
        let sequence = self.by_id.get(&lease.id)?;
        self.rows
            .get_mut(sequence)
            .filter(|row| row.is_leased_by(lease.owner) && row.epoch == lease.epoch)
    }

    pub(super) fn remove(&mut self, sequence: i64) -> Option<Stored> {
        let row = self.rows.remove(&sequence)?;
        self.by_id.remove(&row.values.id);
        Some(row)
    }

    /// Those of these that were delivered or died.
    pub(super) fn ended(&self, ids: &[Uuid]) -> Vec<i64> {
        let ended =
            |row: &&Stored| matches!(row.state, State::Delivered { .. } | State::Dead { .. });
        let named = ids.iter().filter_map(|id| self.by_id(*id));
        named.filter(ended).map(|row| row.sequence).collect()
    }

    /// One batch of what the cleaner removes: the delivered first, the oldest first.
    pub(super) fn past_retention(&self, clean: &Clean, now: SystemTime) -> Vec<i64> {
        let mut old: Vec<(bool, SystemTime, i64)> = self
            .iter()
            .filter_map(|row| {
                let (dead, at, retention) = match row.state {
                    State::Delivered { at } => (false, at, clean.retention),
                    State::Dead { at, .. } => (true, at, clean.dead_retention?),
                    State::Pending | State::Processing { .. } => return None,
                };
                (at < now.checked_sub(retention)?).then_some((dead, at, row.sequence))
            })
            .collect();
        old.sort();
        old.truncate(clean.limit as usize);
        old.into_iter().map(|(_, _, sequence)| sequence).collect()
    }

    /// Brings dead events back, and adds delivered ones anew. Gives back the event that was
    /// meant, the one that will be delivered, and their topic.
    pub(super) fn redeliver(&mut self, ids: &[Uuid], now: SystemTime) -> Vec<(Uuid, Uuid, String)> {
        let mut acted = Vec::new();
        let mut anew = Vec::new();
        for row in self.rows.values_mut() {
            let id = row.values.id;
            match row.state {
                _ if !ids.contains(&id) => {}
                State::Dead { .. } => {
                    row.state = State::Pending;
                    row.attempts = 0;
                    row.next_attempt_at = now;
                    row.updated_at = now;
                    row.redeliveries = Some(row.redeliveries.unwrap_or(0) + 1);
                    acted.push((id, id, row.values.topic.clone()));
                }
                State::Delivered { .. } => anew.push((row.values.clone(), row.redeliveries)),
                State::Pending | State::Processing { .. } => {}
            }
        }
        for (values, redeliveries) in anew {
            let origin = values.id;
            let topic = values.topic.clone();
            let receipt = self.enqueue(again(values), now);
            if let Some(row) = self.at(receipt.sequence) {
                row.redeliveries = Some(redeliveries.unwrap_or(0) + 1);
            }
            acted.push((origin, receipt.id, topic));
        }
        acted
    }

    /// Enqueues a letter for each of these that has died, in their sequence.
    pub(super) fn send_letters(&mut self, mut dead: Vec<i64>, topic: &str, now: SystemTime) {
        dead.sort_unstable();
        for sequence in dead {
            let letter = self.rows.get(&sequence).and_then(|row| letter(row, topic));
            if let Some(letter) = letter {
                self.enqueue(letter, now);
            }
        }
    }

    /// Gives up what is not leased, delivered or given up already.
    pub(super) fn discard(&mut self, ids: &[Uuid], now: SystemTime) -> Vec<(Uuid, String)> {
        let reason = DeadReason::Discarded;
        let mut acted = Vec::new();
        for row in self.rows.values_mut() {
            let at = match row.state {
                _ if !ids.contains(&row.values.id) => continue,
                State::Pending => now,
                State::Dead { at, reason } if reason != DeadReason::Discarded => at,
                _ => continue,
            };
            row.state = State::Dead { at, reason };
            row.updated_at = now;
            acted.push((row.values.id, row.values.topic.clone()));
        }
        acted
    }
}

impl Stored {
    pub(super) fn status(&self) -> Status {
        match self.state {
            State::Pending => Status::Pending,
            State::Processing { .. } => Status::Processing,
            State::Delivered { .. } => Status::Delivered,
            State::Dead { .. } => Status::Dead,
        }
    }

    pub(super) fn is_leased(&self) -> bool {
        matches!(self.state, State::Processing { .. })
    }

    pub(super) fn is_leased_by(&self, relay: Uuid) -> bool {
        matches!(self.state, State::Processing { owner, .. } if owner == relay)
    }

    pub(super) fn is_of(&self, keys: &[String]) -> bool {
        (self.values.ordering_key.as_ref()).is_some_and(|key| keys.contains(key))
    }

    pub(super) fn is_in(&self, scope: &Scope) -> bool {
        let Scope {
            namespace,
            topics,
            tenant_id,
        } = scope;
        namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == self.values.namespace)
            && (topics.is_empty() || topics.contains(&self.values.topic))
            && (tenant_id.is_none() || *tenant_id == self.values.tenant_id)
    }

    /// Writes down how its current attempt ended, before its state changes.
    pub(super) fn attempted(
        &mut self,
        ending: Ending,
        error: Option<String>,
        tried: Option<&Tried>,
        relay_name: Option<String>,
        now: SystemTime,
    ) {
        let relay = match self.state {
            State::Processing { owner, .. } => Some(owner),
            _ => None,
        };
        self.history.push(Attempt {
            number: self.attempts,
            epoch: self.epoch,
            claimed_at: Some(self.updated_at),
            ended_at: Some(now),
            took: tried.map(|tried| tried.took),
            ending,
            error,
            relay,
            relay_name,
            destination: tried.map(|tried| tried.destination.clone()),
        });
        let surplus = self.history.len().saturating_sub(ATTEMPTS_KEPT);
        self.history.drain(..surplus);
    }

    /// What its error has in common with others.
    pub(super) fn fingerprint(&self) -> String {
        fingerprint(self.last_error.as_deref().unwrap_or_default())
    }

    /// Whether a filter is about it.
    pub(super) fn is_meant(&self, filter: &Filter, now: SystemTime) -> bool {
        let Filter {
            scope,
            status,
            ids,
            topic,
            older_than,
            newer_than,
            ended_for,
            error,
            fingerprint,
            reason,
            event_type,
            aggregate_type,
            aggregate_id,
            after,
        } = filter;
        let age = now.duration_since(self.created_at).unwrap_or_default();
        let same =
            |wanted: &Option<String>, value: &Option<String>| wanted.is_none() || wanted == value;
        self.is_in(scope)
            && (status.is_empty() || status.contains(&self.status()))
            && (ids.is_empty() || ids.contains(&self.values.id))
            && topic
                .as_ref()
                .is_none_or(|topic| topic.matches(&self.values.topic))
            && older_than.is_none_or(|than| age > than)
            && newer_than.is_none_or(|than| age <= than)
            && ended_for.is_none_or(|time| {
                let since = |at| now.duration_since(at).unwrap_or_default();
                self.ended_at().is_some_and(|at| since(at) > time)
            })
            && error.as_ref().is_none_or(|text| {
                let last = self.last_error.as_ref();
                last.is_some_and(|error| error.contains(text))
            })
            && fingerprint
                .as_ref()
                .is_none_or(|wanted| self.status() == Status::Dead && *wanted == self.fingerprint())
            && (reason.is_none() || *reason == self.dead_reason())
            && same(event_type, &self.values.event_type)
            && same(aggregate_type, &self.values.aggregate_type)
            && same(aggregate_id, &self.values.aggregate_id)
            && after.is_none_or(|after| self.sequence > after)
    }

    pub(super) fn dead_reason(&self) -> Option<DeadReason> {
        match self.state {
            State::Dead { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// When it was delivered or died.
    pub(super) fn ended_at(&self) -> Option<SystemTime> {
        match self.state {
            State::Delivered { at } | State::Dead { at, .. } => Some(at),
            State::Pending | State::Processing { .. } => None,
        }
    }

    fn payload(&self) -> Bytes {
        match &self.values.payload {
            Some(text) => Bytes::from(text.clone()),
            None => Bytes::from(self.values.payload_bytes.clone().unwrap_or_default()),
        }
    }

    /// What the event says, for an operator.
    pub(super) fn content(&self) -> Content {
        Content::new(
            self.values.content_type.clone(),
            self.values.headers.as_bytes(),
            self.payload(),
        )
    }

    /// The event for a relay that has just claimed it.
    pub(super) fn event(&self, relay: &Relay<'_>, now: SystemTime) -> Event {
        let values = self.values.clone();
        let mut headers = headers(&self.values);
        header::tell_redeliveries(&mut headers, self.redeliveries);
        Event {
            table: relay.table.clone(),
            id: values.id,
            sequence: self.sequence,
            namespace: values.namespace,
            topic: values.topic,
            tenant_id: values.tenant_id,
            aggregate_type: values.aggregate_type,
            aggregate_id: values.aggregate_id,
            event_type: values.event_type,
            ordering_key: values.ordering_key,
            dedupe_key: values.dedupe_key,
            headers,
            content_type: values.content_type,
            payload: self.payload(),
            trace: values.traceparent.map(|traceparent| TraceContext {
                traceparent,
                tracestate: values.tracestate,
            }),
            attempts: self.attempts,
            created_at: self.created_at,
            age: now.duration_since(self.created_at).unwrap_or_default(),
            lease: Lease {
                id: values.id,
                owner: relay.owner,
                epoch: self.epoch,
            },
        }
    }

    /// The event for an operator.
    pub(super) fn record(&self) -> Record {
        let (lease_owner, lease_until) = match self.state {
            State::Processing { owner, until } => (Some(owner), Some(until)),
            _ => (None, None),
        };
        Record {
            id: self.values.id,
            sequence: self.sequence,
            namespace: self.values.namespace.clone(),
            topic: self.values.topic.clone(),
            tenant_id: self.values.tenant_id,
            aggregate_type: self.values.aggregate_type.clone(),
            aggregate_id: self.values.aggregate_id.clone(),
            event_type: self.values.event_type.clone(),
            ordering_key: self.values.ordering_key.clone(),
            dedupe_key: self.values.dedupe_key.clone(),
            content_type: self.values.content_type.clone(),
            traceparent: self.values.traceparent.clone(),
            status: self.status(),
            attempts: self.attempts,
            next_attempt_at: self.next_attempt_at,
            lease_owner,
            lease_until,
            lease_epoch: self.epoch,
            last_error: self.last_error.clone(),
            dead_reason: self.dead_reason(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            delivered_at: self
                .ended_at()
                .filter(|_| self.status() == Status::Delivered),
            dead_at: self.ended_at().filter(|_| self.status() == Status::Dead),
        }
    }
}

/// The letter of an event that has died, unless it is one itself.
fn letter(row: &Stored, topic: &str) -> Option<Row> {
    let death = Death {
        id: row.values.id,
        topic: &row.values.topic,
        reason: row.dead_reason()?,
        error: row.last_error.as_deref(),
        attempts: row.attempts,
        created_at: row.created_at,
        history: row.history.iter().rev().collect(),
    };
    let headers = death.letter(row.values.headers.as_bytes())?;
    let mut letter = anew(row.values.clone(), headers);
    letter.topic = topic.to_owned();
    letter.ordering_key = None;
    Some(letter)
}

/// The same event once more, under an id of its own and with a header naming the first.
fn again(values: Row) -> Row {
    let mut headers = headers(&values);
    headers.insert(header::REDELIVERY_OF.to_owned(), values.id.to_string());
    let headers = serde_json::to_string(&headers).expect("a map of strings is JSON");
    anew(values, headers)
}

/// A copy of an event, under an id of its own and with these headers.
fn anew(mut values: Row, headers: String) -> Row {
    values.id = Uuid::new_v4();
    values.headers = headers;
    values.dedupe_key = None;
    values.delay = 0.0;
    values.due = None;
    values
}

fn headers(values: &Row) -> BTreeMap<String, String> {
    serde_json::from_str(&values.headers).expect("written by enqueue")
}

fn from_unix_seconds(seconds: f64) -> SystemTime {
    Duration::try_from_secs_f64(seconds).map_or(UNIX_EPOCH, |since| UNIX_EPOCH + since)
}
