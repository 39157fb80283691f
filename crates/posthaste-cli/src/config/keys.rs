//! Every key of the configuration: the one table from which reading, the environment, defaults,
//! suggestions, the schema, `config explain` and the reference follow.

use super::admin;
use super::kind::Kind;
use super::profile::PROFILES;
use super::sinks::{SINKS, SinkType};
use super::trace;

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Default,
    /// What it does, in a sentence or two.
    pub(crate) doc: &'static str,
    /// A value to show, as text.
    pub(crate) example: &'static str,
}

/// What holds if a key is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Default {
    /// This, as text.
    Is(&'static str),
    /// Nothing.
    Unset,
    /// It has to be given.
    Required,
}

/// A table of the file, and its keys.
#[derive(Debug)]
pub(crate) struct Section {
    /// Such as `outbox.relay`.
    pub(crate) path: &'static str,
    pub(crate) shape: Shape,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [Key],
}

/// How often a table comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// `[path]`, once.
    Once,
    /// `[[path]]`, any number of times.
    Listed,
    /// `[path.name]`, any number of times.
    Named,
}

/// In the order in which they are explained.
pub(crate) const SECTIONS: &[Section] = &[
    Section {
        path: "log",
        shape: Shape::Once,
        doc: "What the program says about itself, on standard error.",
        keys: &[
            Key {
                name: "level",
                kind: Kind::Word(&["error", "warn", "info", "debug", "trace"]),
                default: Default::Is("info"),
                doc: "The least severe lines that are written.",
                example: "debug",
            },
            Key {
                name: "format",
                kind: Kind::Word(&["text", "json"]),
                default: Default::Is("text"),
                doc: "Lines for people, or one JSON object per line.",
                example: "json",
            },
        ],
    },
    Section {
        path: "admin",
        shape: Shape::Once,
        doc: "Where `run` answers operators: metrics, health, the API. See docs/admin.md.",
        keys: admin::ADMIN,
    },
    Section {
        path: "admin.health",
        shape: Shape::Once,
        doc: "From where on `/healthz` and `status` call an outbox ill.",
        keys: admin::HEALTH,
    },
    Section {
        path: "tracing",
        shape: Shape::Once,
        doc: "Spans of claims, dispatches and settlements, for an OpenTelemetry collector. See docs/tracing.md.",
        keys: trace::TRACING,
    },
    Section {
        path: "database",
        shape: Shape::Once,
        doc: "Where the outboxes are, unless an outbox names a database of its own.",
        keys: DATABASE,
    },
    Section {
        path: "outbox",
        shape: Shape::Listed,
        doc: "One outbox. The program relays all of them.",
        keys: &[
            Key {
                name: "table",
                kind: Kind::Table,
                default: Default::Required,
                doc: "The outbox's table. Without a schema, `public` is meant.",
                example: "public.orders_outbox",
            },
            Key {
                name: "profile",
                kind: Kind::Word(PROFILES),
                default: Default::Unset,
                doc: "Ready-made values for this outbox, see below. Keys that are given win.",
                example: "org",
            },
            Key {
                name: "namespace",
                kind: Kind::Text,
                default: Default::Is(""),
                doc: "Relay only this namespace. Empty: all.",
                example: "billing",
            },
            Key {
                name: "topics",
                kind: Kind::Texts,
                default: Default::Is(""),
                doc: "Relay only these topics, word by word. Empty: all.",
                example: "shop.order.placed.v1,shop.order.paid.v1",
            },
            Key {
                name: "tenant",
                kind: Kind::Uuid,
                default: Default::Is(""),
                doc: "Relay only this tenant's events. Empty: all.",
                example: "67e55044-10b1-426f-9247-bb680e5fe0c8",
            },
            Key {
                name: "ordering",
                kind: Kind::Word(&["none", "key"]),
                default: Default::Is("none"),
                doc: "With `key`, events of one ordering key are delivered strictly in sequence.",
                example: "key",
            },
            Key {
                name: "on_failure",
                kind: Kind::Word(&["block", "park", "skip"]),
                default: Default::Is("block"),
                doc: "What a dead event does to the later events of its key: they wait for an \
                      operator, become dead too, or go on. Only with `ordering = \"key\"`.",
                example: "park",
            },
            Key {
                name: "mode",
                kind: Kind::Word(&["parallel", "single-active"]),
                default: Default::Is("parallel"),
                doc: "Whether relays of this outbox share the work, or one works and the others stand by.",
                example: "single-active",
            },
        ],
    },
    Section {
        path: "outbox.database",
        shape: Shape::Once,
        doc: "The database of this outbox, in place of `[database]`.",
        keys: DATABASE,
    },
    Section {
        path: "outbox.relay",
        shape: Shape::Once,
        doc: "How this outbox is relayed.",
        keys: &[
            Key {
                name: "enabled",
                kind: Kind::Boolean,
                default: Default::Is("true"),
                doc: "Whether to deliver at all. Switched off, events wait and nothing is lost.",
                example: "false",
            },
            Key {
                name: "batch_size",
                kind: COUNT,
                default: Default::Is("500"),
                doc: "How many events one claim asks for.",
                example: "100",
            },
            Key {
                name: "poll_interval",
                kind: Kind::Duration,
                default: Default::Is("1s"),
                doc: "How often to look when nothing has happened for a while; after something \
                      happened, far more often. At most a third of `lease`.",
                example: "200ms",
            },
            Key {
                name: "lease",
                kind: Kind::Duration,
                default: Default::Is("60s"),
                doc: "For how long events are leased. Prolonged while work goes on.",
                example: "2m",
            },
            Key {
                name: "dispatch_timeout",
                kind: Kind::Duration,
                default: Default::Is("30s"),
                doc: "How long one delivery may take. At most two thirds of `lease`.",
                example: "10s",
            },
            Key {
                name: "in_flight",
                kind: COUNT,
                default: Default::Is("2000"),
                doc: "How many events to have in hand. At least `batch_size`.",
                example: "5000",
            },
            Key {
                name: "in_flight_bytes",
                kind: Kind::Size,
                default: Default::Is("16MiB"),
                doc: "About how many bytes of payload to have in hand.",
                example: "64MiB",
            },
            Key {
                name: "error_limit",
                kind: Kind::Size,
                default: Default::Is("2KiB"),
                doc: "The longest error that is kept with an event: what is longer is cut. At most 64KiB.",
                example: "512",
            },
            Key {
                name: "notify",
                kind: Kind::Boolean,
                default: Default::Is("false"),
                doc: "Whether enqueueing wakes idle relays by NOTIFY. Costs concurrent producers \
                      most of their speed; the relay is quick without it.",
                example: "true",
            },
            Key {
                name: "stats_interval",
                kind: Kind::Duration,
                default: Default::Is("15s"),
                doc: "How often to count what is in the outbox, for metrics.",
                example: "1m",
            },
            Key {
                name: "mask_tenant",
                kind: Kind::Boolean,
                default: Default::Is("false"),
                doc: "Whether tenants are masked in logs.",
                example: "true",
            },
        ],
    },
    Section {
        path: "outbox.retry",
        shape: Shape::Once,
        doc: "When to try again after a failed delivery. An outage of the destination costs no attempt.",
        keys: &[
            Key {
                name: "policy",
                kind: Kind::Word(&["equal-jitter", "additive-jitter", "exponential", "fixed"]),
                default: Default::Is("equal-jitter"),
                doc: "With d = `base` · 2^(attempts − 1), at most `max`: between half of d and d, \
                      d and up to `jitter` more, d, or always `base`.",
                example: "exponential",
            },
            Key {
                name: "base",
                kind: Kind::Duration,
                default: Default::Is("1s"),
                doc: "The first delay.",
                example: "100ms",
            },
            Key {
                name: "max",
                kind: Kind::Duration,
                default: Default::Is("5m"),
                doc: "The longest delay. Not used by `fixed`.",
                example: "1m",
            },
            Key {
                name: "jitter",
                kind: Kind::Duration,
                default: Default::Is("200ms"),
                doc: "What `additive-jitter` adds at most.",
                example: "500ms",
            },
            Key {
                name: "max_attempts",
                kind: COUNT,
                default: Default::Is("25"),
                doc: "After how many attempts, the first included, an event is dead.",
                example: "5",
            },
        ],
    },
    Section {
        path: "outbox.dead_letter",
        shape: Shape::Once,
        doc: "Copies of events that die, for whoever watches over a destination. See \
              [dead letters](dead-letters.md).",
        keys: &[Key {
            name: "topic",
            kind: Kind::Text,
            default: Default::Is(""),
            doc: "The topic under which a copy of each event that dies is enqueued, with what went wrong \
                  in its headers. Routes say where it goes, as with any event. Empty: no copies.",
            example: "shop.dead-letters.v1",
        }],
    },
    Section {
        path: "outbox.clean",
        shape: Shape::Once,
        doc: "What is removed, and when. A pending event never is.",
        keys: &[
            Key {
                name: "enabled",
                kind: Kind::Boolean,
                default: Default::Is("true"),
                doc: "Whether to clean at all. Switched off, everything is kept.",
                example: "false",
            },
            Key {
                name: "interval",
                kind: Kind::Duration,
                default: Default::Is("1m"),
                doc: "How often to look.",
                example: "10m",
            },
            Key {
                name: "retention",
                kind: Kind::Duration,
                default: Default::Is("7d"),
                doc: "How long delivered events are kept. `0s`: they are deleted as they are settled.",
                example: "30d",
            },
            Key {
                name: "dead_retention",
                kind: Kind::Duration,
                default: Default::Is("0s"),
                doc: "How long dead events are kept. `0s`: for ever.",
                example: "90d",
            },
            Key {
                name: "archive",
                kind: Kind::Boolean,
                default: Default::Is("false"),
                doc: "Whether events move to the archive table instead of being deleted.",
                example: "true",
            },
            Key {
                name: "batch_size",
                kind: COUNT,
                default: Default::Is("1000"),
                doc: "How many events one statement removes at most.",
                example: "5000",
            },
        ],
    },
    Section {
        path: "outbox.route",
        shape: Shape::Listed,
        doc: "Which events go where: the first match wins, and the last has to match everything. \
              With only one sink, routes are not needed.",
        keys: &[
            Key {
                name: "topic",
                kind: Kind::Text,
                default: Default::Is("*"),
                doc: "The topics: `*` stands for any text, `?` for one character.",
                example: "shop.order.*",
            },
            Key {
                name: "namespace",
                kind: Kind::Text,
                default: Default::Is(""),
                doc: "Only of namespaces that match this pattern. Empty: any.",
                example: "eu",
            },
            Key {
                name: "tenant",
                kind: Kind::Uuid,
                default: Default::Is(""),
                doc: "Only of this tenant. Empty: any.",
                example: "67e55044-10b1-426f-9247-bb680e5fe0c8",
            },
            Key {
                name: "aggregate_type",
                kind: Kind::Text,
                default: Default::Is(""),
                doc: "Only of types of aggregates that match this pattern. Empty: any.",
                example: "Order",
            },
            Key {
                name: "sink",
                kind: Kind::Text,
                default: Default::Required,
                doc: "The name of a sink.",
                example: "log",
            },
        ],
    },
    Section {
        path: "sink",
        shape: Shape::Named,
        doc: "A destination, by its name. Further keys depend on its type.",
        keys: &[
            Key {
                name: "type",
                kind: Kind::Word(&super::sinks::TYPES),
                default: Default::Required,
                doc: "What kind of destination it is.",
                example: "stdout",
            },
            Key {
                name: "concurrency",
                kind: COUNT,
                default: Default::Unset,
                doc: "How many deliveries of one outbox it gets at the same time. Unset: as many \
                      as are in flight.",
                example: "64",
            },
        ],
    },
];

const COUNT: Kind = Kind::Integer {
    min: 1,
    max: u32::MAX as u64,
};

const DATABASE: &[Key] = &[
    Key {
        name: "url",
        kind: Kind::Database,
        default: Default::Required,
        doc: "Its address: `postgres://user:password@host:5432/database` or `sqlite:shop.db`. A \
              password in it is never shown. A relative path is one in the folder that the program is \
              started in, wherever the configuration file is.",
        example: "postgres://localhost/shop",
    },
    Key {
        name: "url_file",
        kind: Kind::File("url"),
        default: Default::Unset,
        doc: "A file that holds the address, in place of `url`; relative to the configuration file.",
        example: "/run/secrets/database_url",
    },
    Key {
        name: "max_connections",
        kind: Kind::Integer {
            min: 1,
            max: 10_000,
        },
        default: Default::Is("8"),
        doc: "How many connections the program may open. A relayed outbox in PostgreSQL needs four, \
              one that is only cleaned needs one.",
        example: "16",
    },
];

impl Section {
    pub(crate) fn named(path: &str) -> Option<&'static Self> {
        SECTIONS.iter().find(|section| section.path == path)
    }

    /// The tables within this one, or within the file if there is none.
    pub(crate) fn within(parent: &str) -> impl Iterator<Item = &'static Self> {
        SECTIONS.iter().filter(move |section| {
            let (above, _) = section.path.rsplit_once('.').unwrap_or(("", section.path));
            above == parent
        })
    }

    /// Its own name, without the tables around it.
    pub(crate) fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Its header, as it is written in a file.
    pub(crate) fn header(&self) -> String {
        match self.shape {
            Shape::Once => format!("[{}]", self.path),
            Shape::Listed => format!("[[{}]]", self.path),
            Shape::Named => format!("[{}.NAME]", self.path),
        }
    }

    /// Its keys, and those that the type of a sink adds.
    pub(crate) fn keys(&self, sink: Option<&SinkType>) -> impl Iterator<Item = &'static Key> {
        self.keys
            .iter()
            .chain(sink.map_or(&[][..], |sink| sink.keys))
    }
}

/// Every key there is, with its table; those of sinks with each type.
pub(crate) fn all() -> impl Iterator<Item = (&'static Section, &'static Key)> {
    SECTIONS.iter().flat_map(|section| {
        let further: &[SinkType] = match section.shape {
            Shape::Named => SINKS,
            _ => &[],
        };
        let further = further.iter().flat_map(|sink| sink.keys);
        section
            .keys
            .iter()
            .chain(further)
            .map(move |key| (section, key))
    })
}

/// The key, and its table, that a path such as `outbox.0.relay.batch_size`,
/// `outbox.relay.batch_size`, `sink.log.type` or `sink.type` is about.
pub(crate) fn find(path: &str) -> Option<(&'static Section, &'static Key)> {
    let general = general(path);
    all().find(|(section, key)| {
        general
            .strip_prefix(section.path)
            .and_then(|rest| rest.strip_prefix('.'))
            == Some(key.name)
    })
}

/// A path without the places in lists and the names of sinks.
pub(crate) fn general(path: &str) -> String {
    let mut parts: Vec<&str> = path
        .split('.')
        .filter(|part| part.parse::<usize>().is_err())
        .collect();
    if parts.len() == 3 && parts[0] == "sink" {
        parts.remove(1);
    }
    parts.join(".")
}

/// The variable that sets the key at this path.
pub(crate) fn variable(path: &str) -> String {
    format!("POSTHASTE_{}", path.to_uppercase().replace('.', "__"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_and_example_is_a_value_of_its_kind() {
        for (section, key) in all() {
            let name = format!("{}.{}", section.path, key.name);
            key.kind
                .parse(key.example)
                .unwrap_or_else(|why| panic!("{name}: {why:?}"));
            if let Default::Is(text) = key.default {
                key.kind
                    .parse(text)
                    .unwrap_or_else(|why| panic!("{name}: {why:?}"));
                assert_ne!(
                    text, key.example,
                    "{name}: show something else than the default"
                );
            }
        }
    }

    #[test]
    fn names_tell_keys_and_tables_apart_and_fit_the_environment() {
        for section in SECTIONS {
            for key in section.keys {
                assert!(Section::within(section.path).all(|inner| inner.name() != key.name));
                assert!(key.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
                assert!(!key.name.contains("__"));
            }
        }
    }

    #[test]
    fn a_key_is_found_by_its_general_and_by_its_particular_path() {
        for path in ["outbox.relay.batch_size", "outbox.3.relay.batch_size"] {
            let (section, key) = find(path).unwrap();
            assert_eq!((section.path, key.name), ("outbox.relay", "batch_size"));
        }
        assert_eq!(find("sink.log.type").unwrap().1.name, "type");
        assert_eq!(find("sink.type").unwrap().1.name, "type");
        assert!(find("outbox.relay").is_none() && find("nothing").is_none());
        assert_eq!(
            variable("outbox.0.relay.batch_size"),
            "POSTHASTE_OUTBOX__0__RELAY__BATCH_SIZE"
        );
    }
}
