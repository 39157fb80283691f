//! Whether all is well: what is looked at, from where on it is ill, and what to do then.
//!
//! The judgement is pure: `/healthz` and `posthaste status` bring what they know.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use futures_util::future::join_all;
use http::StatusCode;
use posthaste::store::{Stats, Target};
use posthaste::{Store, StoreError};
use posthaste_relay::Mode;
use serde::Serialize;
use serde_json::json;

use super::desk::{Desk, Served, ask};
use super::fault;
use super::live::{DestinationNow, OutboxNow, Point};
use crate::config::Thresholds;
use crate::time::brief;

/// Fewer attempts say nothing about a rate.
const ENOUGH: u64 = 20;
/// Over how long failures are counted, in milliseconds.
const FAILURES_OVER: u64 = 300_000;
/// A lead that passes from one relay to the next does so within about a second.
const PASSING: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// A daemon that has not looked at anything for so long is stuck itself.
const STUCK: Duration = Duration::from_secs(60);

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Check {
    pub(crate) outbox: String,
    pub(crate) check: &'static str,
    pub(crate) status: Verdict,
    pub(crate) value: String,
    pub(crate) threshold: String,
    /// Empty if there is nothing to do.
    pub(crate) remedy: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Ok,
    /// It cannot be told from here.
    Unknown,
    Ill,
}

impl Verdict {
    /// What they come to together.
    pub(crate) fn worst(checks: &[Check]) -> Self {
        match checks.iter().any(|check| check.status == Self::Ill) {
            true => Self::Ill,
            false => Self::Ok,
        }
    }
}

/// What is known of an outbox. `None`: it cannot be told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    pub(crate) outbox: String,
    /// Without: the database does not answer.
    pub(crate) stats: Option<Counted>,
    /// What the database said instead of an answer, if that is known.
    pub(crate) refused: Option<String>,
    /// How it is, or what is wrong.
    pub(crate) schema: Option<Result<String, String>>,
    pub(crate) destinations: Option<Destinations>,
    /// Failed attempts, and all of them, over five minutes.
    pub(crate) attempts: Option<(u64, u64)>,
    /// Over a quarter of an hour.
    pub(crate) died: Option<u64>,
    /// Who leads, as far as somebody has to.
    pub(crate) leader: Option<Leader>,
    /// Who paused it, and why.
    pub(crate) paused: Option<String>,
}

/// How many destinations there are, and which of them are down.
#[derive(Debug, Clone, Default)]
pub(crate) struct Destinations {
    pub(crate) all: usize,
    pub(crate) down: Vec<Down>,
}

/// A destination that is down, for how long and why.
#[derive(Debug, Clone)]
pub(crate) struct Down {
    pub(crate) name: String,
    pub(crate) since: Duration,
    pub(crate) why: String,
}

/// What a look at the table says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) lag: Duration,
    pub(crate) stuck: u64,
}

impl From<&Stats> for Counted {
    fn from(stats: &Stats) -> Self {
        Self {
            lag: stats.oldest_pending,
            stuck: stats.stuck,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Leader {
    /// Relays share the work.
    NotNeeded,
    /// The relay of this process.
    Here,
    /// Another one, by its name.
    There(String),
    Nobody,
}

impl Leader {
    /// Who leads an outbox on which only one relay may be active.
    pub(crate) async fn of(store: &dyn Store) -> Result<Self, StoreError> {
        let began = Instant::now();
        loop {
            let relays = store.relays().await?;
            if let Some(relay) = relays.into_iter().find(|it| it.leads && it.alive) {
                let unnamed = || relay.owner.to_string();
                return Ok(Self::There(relay.name.unwrap_or_else(unnamed)));
            }
            if began.elapsed() > PASSING {
                return Ok(Self::Nobody);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// Judges what is known.
pub(crate) fn judge(evidence: &Evidence, limits: &Thresholds) -> Vec<Check> {
    let check = |check, status, value: String, threshold: String, remedy: &str| Check {
        outbox: evidence.outbox.clone(),
        check,
        status,
        value,
        threshold,
        remedy: match status {
            Verdict::Ill => remedy.to_owned(),
            Verdict::Ok | Verdict::Unknown => String::new(),
        },
    };
    let ill_if = |ill: bool| if ill { Verdict::Ill } else { Verdict::Ok };
    let unknown = |name, threshold: String| {
        check(
            name,
            Verdict::Unknown,
            "not known here".to_owned(),
            threshold,
            "",
        )
    };
    // Who says what is wrong with the schema answers.
    let answers = evidence.stats.is_some() || matches!(evidence.schema, Some(Err(_)));
    let (found, remedy) = match (answers, &evidence.refused) {
        (true, _) => ("answers", ""),
        (false, Some(why)) => (why.as_str(), "see posthaste doctor"),
        (false, None) => (
            "does not answer",
            "is the server running, and the address right? See posthaste doctor",
        ),
    };
    let mut checks = vec![check(
        "database",
        ill_if(!answers),
        found.to_owned(),
        "answers".to_owned(),
        remedy,
    )];
    checks.push(match &evidence.schema {
        Some(Ok(found)) => check(
            "schema",
            Verdict::Ok,
            found.clone(),
            "as this version needs it".to_owned(),
            "",
        ),
        Some(Err(why)) => check(
            "schema",
            Verdict::Ill,
            why.clone(),
            "as this version needs it".to_owned(),
            "run posthaste migrate",
        ),
        None => unknown("schema", "as this version needs it".to_owned()),
    });
    let most = format!("none down for more than {}", brief(limits.max_outage));
    checks.push(match &evidence.destinations {
        Some(Destinations { all, down }) => {
            let long = down.iter().any(|it| it.since > limits.max_outage);
            let told = |it: &Down| format!("{} down for {}: {}", it.name, brief(it.since), it.why);
            let value = match down.len() {
                0 => format!("{all} up"),
                _ => down.iter().map(told).collect::<Vec<_>>().join("; "),
            };
            let remedy = "look at the destination: its events wait, and flow again when it is back";
            check("destinations", ill_if(long), value, most, remedy)
        }
        None => unknown("destinations", most),
    });
    let (lag, stuck) = (brief(limits.max_lag), limits.max_stuck);
    match &evidence.stats {
        Some(counted) => {
            checks.push(check(
                "stuck",
                ill_if(counted.stuck > stuck),
                counted.stuck.to_string(),
                format!("at most {stuck} in delivery for more than five minutes"),
                "look at the relay that holds them: posthaste list --status processing",
            ));
            let remedy = match &evidence.paused {
                Some(pause) => format!("{pause}: resume it with posthaste resume"),
                None => {
                    "is a relay running, can it deliver, and are there enough of them?".to_owned()
                }
            };
            let behind = counted.lag > limits.max_lag;
            let most = format!("at most {lag}");
            checks.push(check(
                "lag",
                ill_if(behind),
                brief(counted.lag),
                most,
                &remedy,
            ));
        }
        None => {
            checks.push(unknown(
                "stuck",
                format!("at most {stuck} in delivery for more than five minutes"),
            ));
            checks.push(unknown("lag", format!("at most {lag}")));
        }
    }
    let most = format!("at most {} of 100 attempts", limits.max_failure_rate);
    checks.push(match evidence.attempts {
        Some((failed, all)) => {
            let of_hundred = failed * 100 / all.max(1);
            check(
                "failures",
                ill_if(all >= ENOUGH && of_hundred > u64::from(limits.max_failure_rate)),
                format!("{of_hundred} of 100, of {all} in five minutes"),
                most,
                "see what the errors have in common: posthaste list, or the groups of dead letters",
            )
        }
        None => unknown("failures", most),
    });
    let most = format!("at most {} in a quarter of an hour", limits.max_dead_growth);
    checks.push(match evidence.died {
        Some(died) => check(
            "dead",
            ill_if(died > limits.max_dead_growth),
            format!("{died} more"),
            most,
            "see why with posthaste dead, then redeliver or discard them",
        ),
        None => unknown("dead", most),
    });
    let one = format!(
        "one leads, if only one may relay; it passes on within {}",
        brief(PASSING)
    );
    checks.push(match &evidence.leader {
        Some(leader) => check(
            "leader",
            ill_if(*leader == Leader::Nobody),
            match leader {
                Leader::NotNeeded => "relays share the work".to_owned(),
                Leader::Here => "this relay leads".to_owned(),
                Leader::There(name) => format!("{name} leads"),
                Leader::Nobody => "nobody leads".to_owned(),
            },
            one,
            "is a relay running that may deliver? Start one with posthaste run, and see posthaste doctor",
        ),
        None => unknown("leader", one),
    });
    checks
}

/// Every check of every outbox, of what this process knows.
pub(super) async fn checks(desk: &Desk) -> Vec<Check> {
    let now = desk.live.outboxes();
    // At the same time: a database that is slow to answer keeps no other one waiting.
    let each = desk.served.iter().enumerate().map(|(place, served)| {
        let seen = now.iter().find(|it| it.name == served.name);
        let points = desk.live.points(place);
        async move { evidence(served, seen, &points).await }
    });
    let evidence = join_all(each).await;
    let judged = evidence.iter().map(|it| judge(it, &desk.thresholds));
    judged.flatten().collect()
}

async fn evidence(served: &Served, seen: Option<&OutboxNow>, points: &[Point]) -> Evidence {
    let connected = seen.filter(|seen| seen.connected);
    let relay = seen.and_then(|seen| seen.relay.as_ref());
    // One that delivers nothing knows nothing of what others deliver.
    let relay = relay.filter(|_| served.settings.deliver);
    // A database that does not answer is not asked more: somebody waits for what is known.
    let store = connected.and_then(|_| served.open());
    let leader = async {
        match (served.settings.mode, relay, &store) {
            (Mode::SingleActive, Some(relay), _) if relay.leads => Some(Leader::Here),
            (Mode::SingleActive, _, Some(store)) => ask(Leader::of(&**store)).await.ok(),
            (Mode::SingleActive, _, None) => None,
            _ => Some(Leader::NotNeeded),
        }
    };
    let schema = async {
        connected?;
        let found = served.checked_schema().await?;
        Some(found.map(|version| format!("version {version}")))
    };
    let paused = async { paused(store.as_deref()?).await };
    let (leader, schema, paused) = tokio::join!(leader, schema, paused);
    let since = points
        .last()
        .map_or(0, |it| it.at.saturating_sub(FAILURES_OVER));
    let recent = || points.iter().filter(|point| point.at >= since);
    let sum = |of: fn(&Point) -> u64| recent().map(of).sum::<u64>();
    // What operators discard is dead, too: only of what died here is it known that it was not by their hands.
    let died = relay.filter(|_| !points.is_empty());
    let died = died.map(|_| points.iter().map(|point| point.died).sum());
    let destinations = |seen: &OutboxNow| Destinations {
        all: seen.destinations.len(),
        down: seen.destinations.iter().filter_map(down).collect(),
    };
    Evidence {
        outbox: served.name.clone(),
        stats: connected.map(|seen| Counted {
            lag: Duration::try_from_secs_f64(seen.lag_seconds).unwrap_or_default(),
            stuck: seen.stuck,
        }),
        schema,
        refused: None,
        destinations: seen.filter(|_| relay.is_some()).map(destinations),
        attempts: relay.map(|_| (sum(|it| it.failures), sum(|it| it.attempts))),
        died,
        leader,
        paused,
    }
}

/// Who paused the outbox, and why, if somebody did.
async fn paused(store: &dyn Store) -> Option<String> {
    let pauses = ask(store.pauses()).await.ok()?;
    let pause = pauses.iter().find(|pause| pause.target == Target::Outbox)?;
    Some(format!("paused by {}, because: {}", pause.actor, pause.why))
}

fn down(destination: &DestinationNow) -> Option<Down> {
    Some(Down {
        name: destination.name.clone(),
        since: Duration::try_from_secs_f64(destination.down_seconds?).ok()?,
        why: destination.down_because.clone().unwrap_or_default(),
    })
}

/// `/livez`: the process works at all.
pub(super) async fn live(State(desk): State<Arc<Desk>>) -> Response {
    match desk.live.idle() < STUCK {
        true => probe(StatusCode::OK, "ok"),
        false => probe(StatusCode::SERVICE_UNAVAILABLE, "stuck"),
    }
}

/// `/readyz`: every outbox is served, and goes on to be.
pub(super) async fn ready(State(desk): State<Arc<Desk>>) -> Response {
    let now = desk.live.outboxes();
    let connected = now.len() == desk.served.len() && now.iter().all(|it| it.connected);
    match (desk.is_stopping(), connected) {
        (true, _) => probe(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        (false, false) => probe(StatusCode::SERVICE_UNAVAILABLE, "no database"),
        (false, true) => probe(StatusCode::OK, "ok"),
    }
}

fn probe(status: StatusCode, word: &str) -> Response {
    fault::json(status, &json!({ "status": word }))
}

/// `/healthz`: every check, with what to do.
pub(super) async fn all(State(desk): State<Arc<Desk>>) -> Response {
    let checks = checks(&desk).await;
    let worst = Verdict::worst(&checks);
    let status = match worst {
        Verdict::Ill => StatusCode::SERVICE_UNAVAILABLE,
        Verdict::Ok | Verdict::Unknown => StatusCode::OK,
    };
    fault::json(status, &json!({ "status": worst, "checks": checks }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> Evidence {
        Evidence {
            outbox: "public.orders_outbox".to_owned(),
            stats: Some(Counted {
                lag: Duration::from_secs(60),
                stuck: 0,
            }),
            refused: None,
            schema: Some(Ok("version 3".to_owned())),
            destinations: Some(Destinations::default()),
            attempts: Some((50, 100)),
            died: Some(100),
            leader: Some(Leader::There("host (7)".to_owned())),
            paused: None,
        }
    }

    fn ill(evidence: &Evidence) -> Vec<&'static str> {
        let checks = judge(evidence, &Thresholds::default());
        assert_eq!(checks.len(), 8);
        for check in &checks {
            assert_eq!(
                check.remedy.is_empty(),
                check.status != Verdict::Ill,
                "{check:?}"
            );
        }
        let ill = checks.iter().filter(|it| it.status == Verdict::Ill);
        ill.map(|check| check.check).collect()
    }

    // F8
    #[test]
    fn what_is_at_its_threshold_is_well_and_what_is_beyond_is_ill() {
        assert_eq!(ill(&well()), [""; 0]);
        let counted = |lag, stuck| {
            let lag = Duration::from_secs(lag);
            Some(Counted { lag, stuck })
        };
        let down = |seconds| {
            let down = Down {
                name: "mq".to_owned(),
                since: Duration::from_secs(seconds),
                why: String::new(),
            };
            let down = vec![down];
            Some(Destinations { all: 1, down })
        };
        #[rustfmt::skip]
        let cases = [
            (Evidence { stats: None, ..well() }, "database"),
            (Evidence { stats: None, refused: Some("no".to_owned()), ..well() }, "database"),
            (Evidence { schema: Some(Err("older".to_owned())), ..well() }, "schema"),
            (Evidence { stats: None, schema: Some(Err("older".to_owned())), ..well() }, "schema"),
            (Evidence { destinations: down(61), ..well() }, "destinations"),
            (Evidence { stats: counted(0, 1), ..well() }, "stuck"),
            (Evidence { stats: counted(61, 0), ..well() }, "lag"),
            (Evidence { attempts: Some((51, 100)), ..well() }, "failures"),
            (Evidence { died: Some(101), ..well() }, "dead"),
            (Evidence { leader: Some(Leader::Nobody), ..well() }, "leader"),
        ];
        for (evidence, check) in cases {
            assert_eq!(ill(&evidence), [check]);
        }
        let short = Evidence {
            destinations: down(5),
            ..well()
        };
        assert_eq!(ill(&short), [""; 0]);
    }

    // F8
    #[test]
    fn what_is_not_known_is_not_ill() {
        let nothing = Evidence {
            stats: well().stats,
            ..Evidence::default()
        };
        assert_eq!(ill(&nothing), [""; 0]);
        let few = Evidence {
            attempts: Some((19, 19)),
            ..well()
        };
        assert_eq!(ill(&few), [""; 0], "too few attempts for a rate");
    }
}
