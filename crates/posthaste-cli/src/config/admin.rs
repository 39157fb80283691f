//! `[admin]`: where the daemon answers operators, whom it lets in, and when it calls itself ill.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::keys::{Default, Key};
use super::kind::Kind;
use super::problem::Problem;
use super::values::{Group, Origin, Values};
use crate::admin::host::Host;
use crate::admin::role::{ROLES, Role};
use crate::admin::token::Token;

/// What is configured under `[admin]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Admin {
    pub(crate) enabled: bool,
    pub(crate) listen: SocketAddr,
    /// Whether the address was chosen by somebody: then it must be free.
    pub(crate) chosen: bool,
    /// What anybody may do while there are no tokens.
    pub(crate) without_tokens: Role,
    pub(crate) tokens: Vec<Token>,
    pub(crate) allowed_hosts: Vec<Host>,
    /// Certificate and key, as PEM files.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// Requests a second of one caller.
    pub(crate) rate_limit: u32,
    pub(crate) health: Thresholds,
}

/// From where on something is not well.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Thresholds {
    pub(crate) max_lag: Duration,
    pub(crate) max_stuck: u64,
    /// Of a hundred attempts.
    pub(crate) max_failure_rate: u32,
    /// In a quarter of an hour.
    pub(crate) max_dead_growth: u64,
    pub(crate) max_outage: Duration,
}

impl std::default::Default for Thresholds {
    fn default() -> Self {
        Self {
            max_lag: Duration::from_secs(60),
            max_stuck: 0,
            max_failure_rate: 50,
            max_dead_growth: 100,
            max_outage: Duration::from_secs(60),
        }
    }
}

impl std::default::Default for Admin {
    fn default() -> Self {
        Self {
            enabled: true,
            listen: SocketAddr::from(([127, 0, 0, 1], 7411)),
            chosen: false,
            without_tokens: Role::NoPayload,
            tokens: Vec::new(),
            allowed_hosts: Vec::new(),
            tls: None,
            rate_limit: 100,
            health: Thresholds::default(),
        }
    }
}

pub(super) const ADMIN: &[Key] = &[
    Key {
        name: "enabled",
        kind: Kind::Boolean,
        default: Default::Is("true"),
        doc: "Whether `run` answers operators at all: metrics, health, the API and the dashboard.",
        example: "false",
    },
    Key {
        name: "listen",
        kind: Kind::Listen,
        default: Default::Is("127.0.0.1:7411"),
        doc: "Where it answers. Any address but this machine's own (127.0.0.1, ::1) needs tokens.",
        example: "0.0.0.0:7411",
    },
    Key {
        name: "tokens",
        kind: Kind::Tokens,
        default: Default::Unset,
        doc: "Whom it lets in: lines that `posthaste token create` prints. They hold no secret.",
        example: "ada operator sha256:80f6682f633997d4a4787348a3bbb17fda71a370fb88d8cd04b135afdc0b85f0 2030-01-01T00:00:00Z",
    },
    Key {
        name: "tokens_file",
        kind: Kind::File("tokens"),
        default: Default::Unset,
        doc: "A file with one such line for each token, in place of `tokens`. `#` begins a comment.",
        example: "/etc/posthaste/tokens",
    },
    Key {
        name: "without_tokens",
        kind: Kind::Word(&ROLES),
        default: Default::Is("viewer-no-payload"),
        doc: "What anybody on this machine may do while there are no tokens.",
        example: "operator",
    },
    Key {
        name: "allowed_hosts",
        kind: Kind::Texts,
        default: Default::Is(""),
        doc: "Names by which it may be called, besides localhost and bare addresses. If something before it speaks TLS, the address that browsers see, with `https://`.",
        example: "outbox.internal,https://ops.example",
    },
    Key {
        name: "cert_file",
        kind: Kind::Text,
        default: Default::Is(""),
        doc: "Its certificate and those above it (PEM). With it, only TLS is spoken.",
        example: "/etc/posthaste/cert.pem",
    },
    Key {
        name: "key_file",
        kind: Kind::Text,
        default: Default::Is(""),
        doc: "The key of the certificate (PEM).",
        example: "/etc/posthaste/key.pem",
    },
    Key {
        name: "rate_limit",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Is("100"),
        doc: "How many requests a second one caller gets answered.",
        example: "20",
    },
];

pub(super) const HEALTH: &[Key] = &[
    Key {
        name: "max_lag",
        kind: Kind::Duration,
        default: Default::Is("1m"),
        doc: "For how long the oldest due event may have been due.",
        example: "10s",
    },
    Key {
        name: "max_stuck",
        kind: COUNT,
        default: Default::Is("0"),
        doc: "How many events may be in delivery for more than five minutes.",
        example: "10",
    },
    Key {
        name: "max_failure_rate",
        kind: Kind::Integer { min: 1, max: 100 },
        default: Default::Is("50"),
        doc: "How many of a hundred attempts may fail, over five minutes.",
        example: "10",
    },
    Key {
        name: "max_dead_growth",
        kind: COUNT,
        default: Default::Is("100"),
        doc: "How many events may die within a quarter of an hour.",
        example: "1",
    },
    Key {
        name: "max_outage",
        kind: Kind::Duration,
        default: Default::Is("1m"),
        doc: "For how long a destination may be held to be down.",
        example: "5m",
    },
];

const COUNT: Kind = Kind::Integer {
    min: 0,
    max: i64::MAX as u64,
};

/// Reads `[admin]`. `None`: something is wrong with it, which was noted.
pub(super) fn read(values: &mut Values) -> Option<Admin> {
    let mut keys = Group {
        values,
        path: "admin".to_owned(),
    };
    let enabled = keys.boolean("enabled");
    let listen = keys.text("listen").and_then(|text| text.parse().ok());
    let without_tokens = keys.text("without_tokens");
    let tokens: Vec<Token> = keys
        .texts("tokens")
        .iter()
        .filter_map(|line| Token::parse(line).ok())
        .collect();
    let hosts = keys.texts("allowed_hosts");
    let files = (keys.some_text("cert_file"), keys.some_text("key_file"));
    let rate_limit = keys.count("rate_limit");
    let folder = keys.values.folder.clone();
    let health = health(values);
    let allowed_hosts = allowed(values, &hosts);
    let tls = match files {
        (Some(cert), Some(key)) => Some((folder.join(cert), folder.join(key))),
        (None, None) => None,
        (Some(_), None) => return refuse_half(values, "cert_file", "key_file"),
        (None, Some(_)) => return refuse_half(values, "key_file", "cert_file"),
    };
    let admin = Admin {
        enabled: enabled?,
        listen: listen?,
        chosen: matches!(values.get("admin.listen").1, Origin::Given(_)),
        without_tokens: Role::named(&without_tokens?)?,
        tokens,
        allowed_hosts: allowed_hosts?,
        tls,
        rate_limit: rate_limit?,
        health: health?,
    };
    check(values, &admin);
    Some(admin)
}

fn allowed(values: &mut Values, hosts: &[String]) -> Option<Vec<Host>> {
    let path = "admin.allowed_hosts";
    let odd = hosts.iter().find(|host| Host::parse(host).is_none());
    if let Some(odd) = odd {
        let at = values.place(path);
        let message = format!("{odd:?} is no name of a host");
        let help = "give a name without a port, such as \"outbox.internal\", or where something before it speaks TLS, such as \"https://ops.example\"";
        let problem = Problem::error(at, path, message, help);
        values.problems.push(problem);
        return None;
    }
    Some(hosts.iter().filter_map(|host| Host::parse(host)).collect())
}

fn health(values: &mut Values) -> Option<Thresholds> {
    let mut keys = Group {
        values,
        path: "admin.health".to_owned(),
    };
    Some(Thresholds {
        max_lag: keys.duration("max_lag")?,
        max_stuck: keys.integer("max_stuck")?,
        max_failure_rate: keys.count("max_failure_rate")?,
        max_dead_growth: keys.integer("max_dead_growth")?,
        max_outage: keys.duration("max_outage")?,
    })
}

/// Whoever is reached from elsewhere has to know who calls.
fn check(values: &mut Values, admin: &Admin) {
    let broken = ["tokens", "tokens_file", "listen"];
    let broken = broken.map(|name| values.is_broken(&format!("admin.{name}")));
    if admin.enabled && admin.tokens.is_empty() && !broken.contains(&true) {
        refuse_open(values, admin);
    }
    for (place, token) in admin.tokens.iter().enumerate() {
        if admin.tokens[..place].iter().any(|it| it.name == token.name) {
            let message = format!("there are two tokens named {:?}", token.name);
            let help = "give each a name of its own: the audit log tells who acted by it";
            let at = values.place("admin.tokens");
            values
                .problems
                .push(Problem::error(at, "admin.tokens", message, help));
        }
    }
}

/// Without tokens everybody who gets here is let in: that has to be meant, and for this machine only.
fn refuse_open(values: &mut Values, admin: &Admin) {
    let given = |path: &&str| matches!(values.get(path).1, Origin::Given(_));
    let lists = ["admin.tokens", "admin.tokens_file"];
    let (path, message, help) = if let Some(list) = lists.into_iter().find(given) {
        (
            list,
            "there is no token in it, and without any everybody on this machine is let in"
                .to_owned(),
            "run `posthaste token create NAME` and put the line that it prints there, or leave it out",
        )
    } else if !admin.listen.ip().is_loopback() {
        (
            "admin.listen",
            format!(
                "{} can be reached from other machines, and there are no tokens",
                admin.listen
            ),
            "run `posthaste token create NAME` and put the line that it prints under tokens, or listen on 127.0.0.1",
        )
    } else if !admin.allowed_hosts.is_empty() {
        (
            "admin.allowed_hosts",
            "it may be called by these names, and there are no tokens".to_owned(),
            "run `posthaste token create NAME` and put the line that it prints under tokens: whoever comes through something before it seems to be on this machine",
        )
    } else {
        return;
    };
    let at = values.place(path);
    let problem = Problem::error(at, path, message, help);
    values.problems.push(problem);
}

fn refuse_half(values: &mut Values, given: &str, missing: &str) -> Option<Admin> {
    let path = format!("admin.{given}");
    let at = values.place(&path);
    let message = format!("{given} is given, and {missing} is not");
    let help = "TLS needs both; without either, the address speaks plain HTTP";
    values
        .problems
        .push(Problem::error(at, path, message, help));
    None
}
