//! The names that we are called by, and from where our pages then come.
//!
//! No page can call us by a name of its own that leads here (DNS rebinding): it is not among them.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header};

/// A name that we may be called by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Host {
    name: String,
    /// Where browsers have our pages from, if something before us speaks TLS: `https://ops.example`.
    origin: Option<String>,
}

impl Host {
    /// A name, or an address that begins with `https://`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let Some(rest) = text.strip_prefix("https://") else {
            let plain = named(text).filter(|name| *name == text);
            return plain.map(|name| Self {
                name: name.to_owned(),
                origin: None,
            });
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // As browsers write it.
        let rest = rest.strip_suffix(":443").unwrap_or(rest);
        named(rest).map(|name| Self {
            name: name.to_owned(),
            origin: Some(format!("https://{rest}")),
        })
    }
}

/// How a request calls us.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Called<'h> {
    /// By an address, or by a name of ours.
    Here,
    /// By the name of something that speaks TLS before us: our pages come from this origin.
    Through(&'h str),
}

/// How a host of a request calls us. `None`: it is none of ours.
pub(super) fn called<'h>(host: &str, allowed: &'h [Host]) -> Option<Called<'h>> {
    let name = named(host)?;
    let mut known = allowed.iter();
    match known.find(|it| it.name.eq_ignore_ascii_case(name)) {
        Some(Host {
            origin: Some(origin),
            ..
        }) => Some(Called::Through(origin)),
        Some(_) => Some(Called::Here),
        // A page has to have a name: it cannot come from a bare address that is not its own.
        None if name.parse::<IpAddr>().is_ok() => Some(Called::Here),
        None => name
            .eq_ignore_ascii_case("localhost")
            .then_some(Called::Here),
    }
}

/// The host that a request is for, with its port.
pub(super) fn of(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let mut given = headers.get_all(header::HOST).into_iter();
    match (given.next(), given.next()) {
        (Some(host), None) => host.to_str().ok().map(str::to_owned),
        (None, _) => uri.authority().map(ToString::to_string),
        (Some(_), Some(_)) => None,
    }
}

/// The name of a host that may have a port.
fn named(host: &str) -> Option<&str> {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let is_name = |name: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        !name.is_empty() && name.bytes().all(plain)
    };
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => return Some(address).filter(|it| it.parse::<IpAddr>().is_ok()),
        Some((address, port)) if port.strip_prefix(':').is_some_and(is_port) => {
            return Some(address).filter(|it| it.parse::<IpAddr>().is_ok());
        }
        Some(_) => return None,
        None => match host.split_once(':') {
            Some((name, port)) if is_port(port) => name,
            Some(_) => return None,
            None => host,
        },
    };
    Some(name).filter(|name| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_and_bare_addresses_are_called() {
        let allowed = ["ops.example", "https://tls.example"].map(|it| Host::parse(it).unwrap());
        for ours in [
            "localhost",
            "LOCALHOST:7411",
            "127.0.0.1:7411",
            "[::1]:7411",
            "10.1.2.3",
            "ops.example",
            "Ops.Example:443",
        ] {
            assert_eq!(called(ours, &allowed), Some(Called::Here), "{ours}");
        }
        for through in ["tls.example", "TLS.example:443"] {
            let origin = Some(Called::Through("https://tls.example"));
            assert_eq!(called(through, &allowed), origin, "{through}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost:7411:x",
            "localhost:",
            "[::1",
            "[::1]x",
            "[localhost]",
            "ops.example@evil.example",
            "ops.example.",
        ] {
            assert_eq!(called(other, &allowed), None, "{other}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_where_tls_is_spoken() {
        let origin = |text: &str| Host::parse(text).and_then(|host| host.origin);
        assert_eq!(
            origin("https://ops.example:443/").unwrap(),
            "https://ops.example"
        );
        assert_eq!(
            origin("https://ops.example:8443").unwrap(),
            "https://ops.example:8443"
        );
        assert_eq!(Host::parse("ops.example").unwrap().origin, None);
        for odd in [
            "",
            "*",
            "http://ops.example",
            "ops.example:7411",
            "https://",
            "https://ops.example/path",
            "https://a@ops.example",
        ] {
            assert_eq!(Host::parse(odd), None, "{odd}");
        }
    }
}
