//! Which hosts and addresses a tool may reach.
//!
//! Without this, a name that an attacker controls could point a tool at the cloud's metadata
//! service or at a neighbour on the private network. Names are therefore checked after they are
//! resolved, in the resolver that the connection itself uses, so that no second look-up can differ.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A host of the allow-list, with a port or for every port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    name: String,
    port: Option<u16>,
}

impl Host {
    /// Reads `host` or `host:port`; the host may be an address, `[::1]` in brackets.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no host: write `api.example.com` or `api.example.com:8443`");
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !text.ends_with(']') => (name, Some(port.parse().map_err(|_| wrong())?)),
            _ => (text, None),
        };
        if name.contains(['/', '?', '#', '@', '\\']) {
            return Err(wrong());
        }
        let url = Url::parse(&format!("http://{name}/")).map_err(|_| wrong())?;
        let name = url.host_str().filter(|_| url.port().is_none()).ok_or_else(wrong)?;
        Ok(Self { name: name.to_owned(), port })
    }

    /// The host and the port that a URL leads to.
    pub(super) fn of(url: &Url) -> Option<Self> {
        Some(Self { name: url.host_str()?.to_owned(), port: url.port_or_known_default() })
    }

    /// Whether this entry lets a request to `target` through.
    pub(super) fn allows(&self, target: &Self) -> bool {
        self.name == target.name && (self.port.is_none() || self.port == target.port)
    }

    /// The address, where the host is one instead of a name.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.name.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

/// Resolves names, but gives private addresses only for hosts that the operator listed.
pub(super) struct GuardedResolver {
    listed: BTreeSet<String>,
}

impl GuardedResolver {
    pub(super) fn new(listed: &[Host]) -> Self {
        Self { listed: listed.iter().map(|host| host.name.clone()).collect() }
    }
}

/// The name leads to private addresses only.
#[derive(Debug, thiserror::Error)]
#[error("the host has only private addresses and is not listed under `hosts`")]
pub(super) struct PrivateAddress;

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let listed = self.listed.contains(name.as_str());
        Box::pin(async move {
            // The connector puts the port in.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let none_found = found.is_empty();
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|address| listed || is_public(address.ip())).collect();
            if allowed.is_empty() && !none_found {
                return Err(PrivateAddress.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Whether an address belongs to the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let benchmark = a == 198 && (b == 18 || b == 19);
    let special = a == 0 || a >= 240 || (a == 192 && b == 0 && c == 0);
    !(shared
        || benchmark
        || special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let embedded = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        // Mapped, compatible (which holds `::` and `::1` too) and translated addresses are IPv4 in disguise.
        [0, 0, 0, 0, 0, 0xffff | 0] | [0x64, 0xff9b, 0, 0, 0, 0] => is_public_v4(embedded(high, low)),
        [0x2002, ..] => is_public_v4(embedded(b, c)),
        // Only 2000::/3 is given out; that leaves out local, unique-local, link-local and multicast.
        [first, second, ..] => {
            let documentation = first == 0x2001 && second == 0xdb8;
            let teredo = first == 0x2001 && second == 0;
            first & 0xe000 == 0x2000 && !documentation && !teredo
        }
    }
}
