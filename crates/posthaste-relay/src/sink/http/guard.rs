//! The guard: a webhook goes to the internet, not into the network that the relay stands in.
//!
//! What is checked is the address that is dialled, not the name in the URL: a name that points
//! elsewhere by the time it is looked up gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Which addresses may be dialled.
#[derive(Debug, Clone, Default)]
pub(super) struct Guard {
    pub(super) off: bool,
    pub(super) hosts: Vec<String>,
    pub(super) networks: Vec<Network>,
}

impl Guard {
    pub(super) fn allows(&self, host: &str, address: IpAddr) -> bool {
        let host = host.trim_end_matches('.');
        self.off
            || is_public(address)
            || self
                .hosts
                .iter()
                .any(|known| known.eq_ignore_ascii_case(host))
            || self
                .networks
                .iter()
                .any(|network| network.contains(address))
    }

    /// Takes a network, an address or the name of a host. `None`: it is none of them.
    pub(super) fn allow(&mut self, what: &str) -> Option<()> {
        if let Ok(network) = what.parse() {
            self.networks.push(network);
            return Some(());
        }
        let name = what.trim_end_matches('.');
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        self.hosts.push(name.to_owned());
        Some(())
    }
}

/// A range of addresses, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    base: IpAddr,
    prefix: u8,
}

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        match (self.base, address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let differs = base.to_bits() ^ address.to_bits();
                differs.leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let differs = base.to_bits() ^ address.to_bits();
                differs.leading_zeros() >= u32::from(self.prefix)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (base, prefix) = match text.split_once('/') {
            Some((base, prefix)) => (base, Some(prefix.parse::<u8>().map_err(drop)?)),
            None => (text, None),
        };
        let base: IpAddr = base.parse().map_err(drop)?;
        let longest = if base.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(longest);
        match prefix <= longest {
            true => Ok(Self { base, prefix }),
            false => Err(()),
        }
    }
}

/// Whether an address belongs to the internet. Those that carry another one are what they carry.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    const NOT: [([u8; 4], u32); 16] = [
        ([0, 0, 0, 0], 8),
        ([10, 0, 0, 0], 8),
        ([100, 64, 0, 0], 10),
        ([127, 0, 0, 0], 8),
        // The host of a virtual machine on Azure answers here.
        ([168, 63, 129, 16], 32),
        ([169, 254, 0, 0], 16),
        ([172, 16, 0, 0], 12),
        ([192, 0, 0, 0], 24),
        ([192, 0, 2, 0], 24),
        ([192, 88, 99, 0], 24),
        ([192, 168, 0, 0], 16),
        ([198, 18, 0, 0], 15),
        ([198, 51, 100, 0], 24),
        ([203, 0, 113, 0], 24),
        ([224, 0, 0, 0], 4),
        ([240, 0, 0, 0], 4),
    ];
    !NOT.iter().any(|(base, prefix)| {
        let differs = u32::from_be_bytes(*base) ^ address.to_bits();
        differs.leading_zeros() >= *prefix
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // NAT64: the IPv4 address that the translator will dial.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        // Protocol assignments (Teredo is one), documentation, 6to4.
        [0x2001, second, ..] if second < 0x200 => false,
        [0x2001, 0xdb8, ..] | [0x2002, ..] => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // All else that is global unicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Looks names up, and leaves out what may not be dialled.
pub(super) struct Guarded<R> {
    pub(super) guard: Guard,
    pub(super) resolver: Arc<R>,
}

/// Looks names up as the system does.
pub(super) struct System;

impl Resolve for System {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// No address of a host may be dialled.
#[derive(Debug, thiserror::Error)]
#[error(
    "{host} is at {address}, which is no public address: allow it, if it is meant to be reached"
)]
pub(super) struct Forbidden {
    host: String,
    address: IpAddr,
}

impl<R: Resolve + 'static> Resolve for Guarded<R> {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.guard.clone();
        let host = name.as_str().to_owned();
        let found = self.resolver.resolve(name);
        Box::pin(async move {
            let (allowed, forbidden): (Vec<_>, Vec<_>) = found
                .await?
                .partition(|found| guard.allows(&host, found.ip()));
            match (allowed.is_empty(), forbidden.first()) {
                (true, Some(first)) => Err(Forbidden {
                    host,
                    address: first.ip(),
                }
                .into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_addresses_of_the_internet_are_dialled() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:808:808::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(ip(text)), "{text}");
        }
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "126.255.255.255",
            "128.0.0.1",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "192.169.0.1",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700:4700::1111",
            "2a00:1450:4001:81b::200e",
        ] {
            assert!(is_public(ip(text)), "{text}");
        }
    }

    #[test]
    fn what_is_allowed_is_allowed_and_no_more() {
        let mut guard = Guard::default();
        for what in ["10.1.0.0/16", "fd00::/8", "192.168.1.7", "hooks.internal."] {
            assert_eq!(guard.allow(what), Some(()), "{what}");
        }
        for what in ["", "10.0.0.0/33", "::/129", "a b", "http://x", "10.0.0.0/x"] {
            assert_eq!(guard.allow(what), None, "{what}");
        }
        for (host, address, allowed) in [
            ("h", "10.1.2.3", true),
            ("h", "::ffff:10.1.2.3", true),
            ("h", "10.2.0.1", false),
            ("h", "fd12::1", true),
            ("h", "fc00::1", false),
            ("h", "192.168.1.7", true),
            ("h", "192.168.1.8", false),
            ("HOOKS.internal", "127.0.0.1", true),
            ("hooks.internal.", "127.0.0.1", true),
            ("hooks.internal.evil", "127.0.0.1", false),
            ("h", "8.8.8.8", true),
        ] {
            assert_eq!(guard.allows(host, ip(address)), allowed, "{host} {address}");
        }
    }
}
