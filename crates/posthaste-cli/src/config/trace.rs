//! `[tracing]`: where spans go. What every program understands (`OTEL_…`) holds where nothing else
//! is said.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

use super::keys::{Default, Key};
use super::kind::Kind;
use super::problem::{Place, Problem};
use super::values::{Group, Origin, Values};

/// What is configured under `[tracing]`, if spans go anywhere.
#[derive(Clone, PartialEq)]
pub(crate) struct Tracing {
    /// What spans are posted to.
    pub(crate) endpoint: String,
    /// May be secrets: never shown.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) timeout: Duration,
    /// How many of the traces that begin here are kept. `None`: what `OTEL_TRACES_SAMPLER` says.
    pub(crate) sample_ratio: Option<f64>,
    pub(crate) service_name: String,
}

const PROTOCOL: &str = "http/protobuf";
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const TRACING: &[Key] = &[
    Key {
        name: "otlp_endpoint",
        kind: Kind::Text,
        default: Default::Unset,
        doc: "The collector's address, for OTLP over HTTP (`http/protobuf`). `/v1/traces` is added where it has no path. Unset: what \
              `OTEL_EXPORTER_OTLP_ENDPOINT` says, or nothing is exported.",
        example: "http://localhost:4318",
    },
    Key {
        name: "headers",
        kind: Kind::Secret,
        default: Default::Unset,
        doc: "Headers for the collector, such as a key: `name=value`, with commas or new lines between them.",
        example: "api-key=a-secret",
    },
    Key {
        name: "headers_file",
        kind: Kind::File("headers"),
        default: Default::Unset,
        doc: "A file that holds the headers, in place of `headers`.",
        example: "/run/secrets/otlp_headers",
    },
    Key {
        name: "ca_file",
        kind: Kind::Text,
        default: Default::Is(""),
        doc: "Further certificate authorities to trust (PEM), besides the system's.",
        example: "/etc/posthaste/ca.pem",
    },
    Key {
        name: "timeout",
        kind: Kind::Duration,
        default: Default::Is("10s"),
        doc: "How long a batch of spans may take.",
        example: "5s",
    },
    Key {
        name: "sample_ratio",
        kind: Kind::Ratio,
        default: Default::Is("1"),
        doc: "How many of the traces that begin here are exported. Of an event that brings a trace, \
              its producer has decided.",
        example: "0.1",
    },
    Key {
        name: "service_name",
        kind: Kind::Text,
        default: Default::Is("posthaste"),
        doc: "The `service.name` of the spans.",
        example: "orders-relay",
    },
];

/// Whether a variable of this name has a meaning to every program that exports spans.
pub(super) fn is_standard(variable: &str) -> bool {
    variable.starts_with("OTEL_")
}

/// Reads `[tracing]`. `None`: something is wrong with it, which was noted. `Some(None)`: spans go nowhere.
pub(super) fn read(values: &mut Values) -> Option<Option<Tracing>> {
    let mut keys = Group {
        values,
        path: "tracing".to_owned(),
    };
    let (endpoint, headers) = (keys.some_text("otlp_endpoint"), keys.some_text("headers"));
    let ca_file = keys.some_text("ca_file");
    let timeout = keys.duration("timeout")?;
    let ratio = keys.ratio("sample_ratio")?;
    let service_name = keys.text("service_name")?;
    let ca_file = ca_file.map(|file| keys.values.folder.join(file));
    let is_given = |values: &Values, name| {
        matches!(values.get(&format!("tracing.{name}")).1, Origin::Given(_))
    };
    let headers = match headers.as_deref().map(read_headers) {
        None => Vec::new(),
        Some(Ok(headers)) => headers,
        Some(Err(why)) => {
            let help = "write name=value, with commas between several of them";
            return refuse(values, "headers", why, help);
        }
    };
    let endpoint = match endpoint {
        Some(text) => match complete(&text) {
            Ok(endpoint) => Some(endpoint),
            Err(why) => {
                let help =
                    "such as \"http://localhost:4318\" or \"https://otlp.example/v1/traces\"";
                return refuse(values, "otlp_endpoint", why, help);
            }
        },
        None => standard_endpoint(values),
    };
    let disabled = standard(values, &["OTEL_SDK_DISABLED"]);
    let disabled = disabled.is_some_and(|(_, text)| text.eq_ignore_ascii_case("true"));
    let Some(endpoint) = endpoint.filter(|_| !disabled) else {
        return Some(None);
    };
    let timeout = match is_given(values, "timeout") {
        true => timeout,
        false => standard_timeout(values).unwrap_or(TIMEOUT),
    };
    let service_name = match standard(values, &["OTEL_SERVICE_NAME"]) {
        Some((_, name)) if !is_given(values, "service_name") => name,
        _ => service_name,
    };
    let sampled_elsewhere = standard(values, &["OTEL_TRACES_SAMPLER"]).is_some();
    let ratio = Some(ratio).filter(|_| is_given(values, "sample_ratio") || !sampled_elsewhere);
    Some(Some(Tracing {
        endpoint,
        headers,
        ca_file,
        timeout,
        sample_ratio: ratio,
        service_name,
    }))
}

/// The first of these variables that says something, and what.
fn standard(values: &Values, variables: &[&str]) -> Option<(String, String)> {
    variables.iter().find_map(|variable| {
        let text = values.standard.get(*variable)?.trim();
        (!text.is_empty()).then(|| ((*variable).to_owned(), text.to_owned()))
    })
}

/// What the environment says of a collector. What cannot be used there is a warning: it was
/// probably meant for other programs.
fn standard_endpoint(values: &mut Values) -> Option<String> {
    const OWN: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let exporter = standard(values, &["OTEL_TRACES_EXPORTER"]);
    if exporter.is_some_and(|(_, name)| name != "otlp") {
        return None;
    }
    let (variable, text) = standard(values, &[OWN, "OTEL_EXPORTER_OTLP_ENDPOINT"])?;
    let protocols = [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ];
    let other = standard(values, &protocols).filter(|(_, protocol)| protocol != PROTOCOL);
    let problem = match (other, checked(&text)) {
        (None, Ok(())) if variable == OWN => return Some(text),
        (None, Ok(())) => return Some(format!("{}/v1/traces", text.trim_end_matches('/'))),
        (Some((variable, protocol)), _) => (
            variable,
            format!("no spans are exported: {protocol:?} is not spoken here, only {PROTOCOL}"),
        ),
        (None, Err(why)) => (variable, format!("no spans are exported: {why}")),
    };
    let (variable, message) = problem;
    let help = "name a collector for OTLP over HTTP with tracing.otlp_endpoint";
    let problem = Problem::error(
        Place::Environment(variable),
        "tracing.otlp_endpoint",
        message,
        help,
    );
    values.problems.push(problem.warning());
    None
}

fn standard_timeout(values: &Values) -> Option<Duration> {
    let variables = [
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ];
    let (_, text) = standard(values, &variables)?;
    text.parse().ok().map(Duration::from_millis)
}

/// The address that spans are posted to.
fn complete(text: &str) -> Result<String, String> {
    checked(text)?;
    let has_path = text
        .split_once("://")
        .is_some_and(|(_, rest)| rest.trim_end_matches('/').contains('/'));
    Ok(match has_path {
        true => text.to_owned(),
        false => format!("{}/v1/traces", text.trim_end_matches('/')),
    })
}

fn checked(text: &str) -> Result<(), String> {
    let uri: Option<Uri> = text.parse().ok();
    let Some(uri) = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https"))) else {
        return Err("this is no address that begins with http:// or https://".to_owned());
    };
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            Err("this has a password in it, which belongs into headers".to_owned())
        }
        Some(authority) if !authority.host().is_empty() => Ok(()),
        _ => Err("this names no host".to_owned()),
    }
}

/// What is wrong is told without any value.
fn read_headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let entries = text.split([',', '\n']).map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty()).enumerate();
    let read = |(place, entry): (usize, &str)| {
        let parsed = entry.split_once('=').and_then(|(name, value)| {
            let name: HeaderName = name.trim().parse().ok()?;
            let mut value: HeaderValue = value.trim().parse().ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        parsed.ok_or_else(|| format!("header {} is not name=value", place + 1))
    };
    entries.map(read).collect()
}

fn refuse<T>(values: &mut Values, name: &str, message: String, help: &str) -> Option<T> {
    let path = format!("tracing.{name}");
    let at = values.place(&path);
    values.put_broken(&path);
    values
        .problems
        .push(Problem::error(at, path, message, help));
    None
}

impl std::fmt::Debug for Tracing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracing")
            .field("endpoint", &self.endpoint)
            .field("sample_ratio", &self.sample_ratio)
            .field("service_name", &self.service_name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    const OUTBOX: [(&str, &str); 3] = [
        ("POSTHASTE_DATABASE__URL", "sqlite:shop.db"),
        ("POSTHASTE_OUTBOX__0__TABLE", "orders_outbox"),
        ("POSTHASTE_SINK__LOG__TYPE", "stdout"),
    ];

    fn config(variables: &[(&str, &str)]) -> Result<Config, super::super::Problems> {
        let all = OUTBOX.iter().chain(variables);
        let all = all.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Config::load(None, all)
    }

    fn tracing(variables: &[(&str, &str)]) -> Option<Tracing> {
        config(variables).unwrap().tracing
    }

    #[test]
    fn without_a_collector_nothing_is_exported() {
        assert_eq!(tracing(&[]), None);
        assert_eq!(tracing(&[("POSTHASTE_TRACING__SERVICE_NAME", "x")]), None);
        assert_eq!(tracing(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), None);
    }

    #[test]
    fn the_path_is_added_where_there_is_none() {
        for (given, posted) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://otlp.example/up", "https://otlp.example/up"),
        ] {
            let found = tracing(&[("POSTHASTE_TRACING__OTLP_ENDPOINT", given)]).unwrap();
            assert_eq!(found.endpoint, posted);
        }
    }

    #[test]
    fn variables_that_all_programs_know_hold_unless_we_are_told_otherwise() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/otlp/");
        let found = tracing(&[
            base,
            ("OTEL_SERVICE_NAME", "orders"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_TRACES_SAMPLER", "always_off"),
        ]);
        let found = found.unwrap();
        assert_eq!(found.endpoint, "http://collector:4318/otlp/v1/traces");
        assert_eq!(found.service_name, "orders");
        assert_eq!(found.timeout, Duration::from_millis(2500));
        assert_eq!(found.sample_ratio, None);
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/spans");
        assert_eq!(tracing(&[base, own]).unwrap().endpoint, "http://t/spans");
        let ours = [
            base,
            own,
            ("OTEL_SERVICE_NAME", "orders"),
            ("OTEL_TRACES_SAMPLER", "always_off"),
            ("POSTHASTE_TRACING__OTLP_ENDPOINT", "http://ours"),
            ("POSTHASTE_TRACING__SERVICE_NAME", "relay"),
            ("POSTHASTE_TRACING__SAMPLE_RATIO", "0.25"),
        ];
        let found = tracing(&ours).unwrap();
        assert_eq!(found.endpoint, "http://ours/v1/traces");
        assert_eq!(found.service_name, "relay");
        assert_eq!(found.sample_ratio, Some(0.25));
        for off in [
            ("OTEL_SDK_DISABLED", "true"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            assert_eq!(tracing(&[base, off]), None, "{off:?}");
        }
    }

    #[test]
    fn a_collector_that_speaks_another_protocol_is_warned_of() {
        let found = config(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ]);
        let found = found.unwrap();
        assert_eq!(found.tracing, None);
        let warnings: Vec<_> = found.warnings.iter().collect();
        assert!(
            matches!(&warnings[..], [one] if one.message.contains("grpc")),
            "{warnings:?}"
        );
    }

    #[test]
    fn headers_are_read_and_never_told() {
        let endpoint = ("POSTHASTE_TRACING__OTLP_ENDPOINT", "http://ours");
        let given = "api-key=s3cr3t,\nx-tenant = a=b ";
        let found = tracing(&[endpoint, ("POSTHASTE_TRACING__HEADERS", given)]).unwrap();
        let texts: Vec<_> = found
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(texts, [("api-key", "s3cr3t"), ("x-tenant", "a=b")]);
        assert!(!format!("{found:?}").contains("s3cr3t"));
        let broken = config(&[endpoint, ("POSTHASTE_TRACING__HEADERS", "a=b, bare-s3cr3t")]);
        let told = format!("{:?}", broken.unwrap_err());
        assert!(
            told.contains("header 2") && !told.contains("s3cr3t"),
            "{told}"
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "localhost:4318",
            "grpc://x:4317",
            "http://",
            "http://u:p@x",
            "no address",
        ] {
            let broken = config(&[("POSTHASTE_TRACING__OTLP_ENDPOINT", text)]);
            assert!(broken.is_err(), "{text}");
        }
    }
}
