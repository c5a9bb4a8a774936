//! `net.cidr_*`: networks of both families.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use regorus::Value;

use super::call::{Builtin, BuiltinFault, BuiltinResult, failed, items, refused, string};

pub(super) const TABLE: &[Builtin] = &[
    ("net.cidr_contains", 2, contains),
    ("net.cidr_contains_matches", 2, contains_matches),
    ("net.cidr_expand", 1, expand),
    ("net.cidr_intersects", 2, intersects),
    ("net.cidr_is_valid", 1, is_valid),
    ("net.cidr_merge", 1, merge),
    ("net.cidr_overlap", 2, contains),
];

/// The largest network that is expanded, as the number of its host bits.
const MOST_BITS: u32 = 16;

/// The offset of IPv4 addresses in the IPv6 address space.
const MAPPED: u128 = 0xffff << 32;

/// A network. An IPv4 address written as IPv6 counts as IPv4, as in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    /// The number of bits of an address: 32 or 128.
    width: u32,
    first: u128,
    prefix: u32,
}

fn address(text: &str) -> Option<(u32, u128)> {
    match text.parse().ok()? {
        IpAddr::V4(address) => Some((32, u32::from(address).into())),
        IpAddr::V6(address) => Some(match address.to_ipv4_mapped() {
            Some(address) => (32, u32::from(address).into()),
            None => (128, address.into()),
        }),
    }
}

impl Network {
    fn parse(text: &str) -> Result<Self, BuiltinFault> {
        let read = || {
            let (ip, prefix) = text.split_once('/')?;
            let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
            let prefix: u32 = digits.then(|| prefix.parse().ok()).flatten()?;
            let written = if ip.contains(':') { 128 } else { 32 };
            let (width, address) = address(ip)?;
            (prefix <= written).then(|| Self::around(address, width, prefix.saturating_sub(written - width)))
        };
        read().map_or_else(|| failed(format!("invalid CIDR address: {text}")), Ok)
    }

    fn around(address: u128, width: u32, prefix: u32) -> Self {
        let network = Self { width, first: 0, prefix };
        Self { first: address & !network.hosts(), ..network }
    }

    /// Returns the mask of the host bits.
    fn hosts(&self) -> u128 {
        let free = self.width - self.prefix;
        1_u128.checked_shl(free).map_or(u128::MAX, |beyond| beyond - 1)
    }

    fn last(&self) -> u128 {
        self.first | self.hosts()
    }

    fn holds(&self, width: u32, address: u128) -> bool {
        self.width == width && (self.first..=self.last()).contains(&address)
    }

    fn within(&self, other: &Self) -> bool {
        other.holds(self.width, self.first) && other.holds(self.width, self.last())
    }
}

fn shown(width: u32, address: u128) -> String {
    match u32::try_from(address) {
        Ok(address) if width == 32 => Ipv4Addr::from(address).to_string(),
        _ => Ipv6Addr::from(address).to_string(),
    }
}

/// Whether a network contains an address or another network.
fn holds(network: &str, other: &str) -> Result<bool, BuiltinFault> {
    let network = Network::parse(network)?;
    if let Some((width, address)) = address(other) {
        return Ok(network.holds(width, address));
    }
    let wrong = format!("not a valid textual representation of an IP address or CIDR: {other}");
    Network::parse(other).map(|other| other.within(&network)).map_err(|_| BuiltinFault::Failed(wrong))
}

fn contains(arguments: &[Value]) -> BuiltinResult {
    Ok(Value::from(holds(string(arguments, 0)?, string(arguments, 1)?)?))
}

fn intersects(arguments: &[Value]) -> BuiltinResult {
    let (left, right) = (Network::parse(string(arguments, 0)?)?, Network::parse(string(arguments, 1)?)?);
    Ok(Value::from(left.holds(right.width, right.first) || right.holds(left.width, left.first)))
}

fn is_valid(arguments: &[Value]) -> BuiltinResult {
    Ok(Value::from(string(arguments, 0).is_ok_and(|text| Network::parse(text).is_ok())))
}

fn expand(arguments: &[Value]) -> BuiltinResult {
    let network = Network::parse(string(arguments, 0)?)
        .map_err(|fault| BuiltinFault::Failed(format!("net.cidr_expand: {fault}")))?;
    if network.width - network.prefix > MOST_BITS {
        return refused(format!("net.cidr_expand: the network has more than {} addresses", 1 << MOST_BITS));
    }
    let all = network.first..=network.last();
    Ok(Value::from(all.map(|address| Value::from(shown(network.width, address))).collect::<BTreeSet<_>>()))
}

/// Returns the networks of one operand, each with the value that identifies it in the result.
fn indexed(operand: usize, value: &Value) -> Result<Vec<(&str, Value)>, BuiltinFault> {
    match value {
        Value::String(text) => Ok(vec![(text, value.clone())]),
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, item)| Ok((first_text(operand, item)?, Value::from(at)))).collect()
        }
        Value::Set(items) => items.iter().map(|item| Ok((first_text(operand, item)?, item.clone()))).collect(),
        Value::Object(entries) => {
            entries.iter_sorted().map(|(key, item)| Ok((first_text(operand, item)?, key.clone()))).collect()
        }
        _ => Ok(Vec::new()),
    }
}

/// Returns an item that is a network itself, or the first element of an array.
fn first_text(operand: usize, item: &Value) -> Result<&str, BuiltinFault> {
    let text = match item {
        Value::Array(tuple) => tuple.first(),
        other => Some(other),
    };
    match text {
        Some(Value::String(text)) => Ok(text),
        _ => failed(format!("operand {operand}: element must be string or non-empty array")),
    }
}

fn contains_matches(arguments: &[Value]) -> BuiltinResult {
    let networks = indexed(1, &arguments[0])?;
    // OPA checks the second operand only if the first one has a network.
    let others = if networks.is_empty() { Vec::new() } else { indexed(2, &arguments[1])? };
    let mut found = BTreeSet::new();
    for (network, index) in networks {
        for (other, other_index) in &others {
            if holds(network, other)? {
                found.insert(Value::from(vec![index.clone(), other_index.clone()]));
            }
        }
    }
    Ok(Value::from(found))
}

/// A range of addresses, with the text of its network unless ranges have been merged.
struct Range {
    first: u128,
    last: u128,
    written: Option<String>,
}

impl Range {
    /// Parses a network, or an address, for which the network of its class is used.
    fn parse(item: &Value) -> Result<Self, BuiltinFault> {
        let Value::String(text) = item else { return failed("element must be string") };
        let (network, written) = match address(text) {
            Some((32, address)) => {
                let prefix = match address >> 24 {
                    0..=127 => 8,
                    128..=191 => 16,
                    192..=223 => 24,
                    _ => return failed("IPv4 invalid: the address belongs to no class"),
                };
                (Network::around(address, 32, prefix), format!("{}/{prefix}", shown(32, address)))
            }
            Some(_) => return failed("IPv6 invalid: needs prefix length"),
            None => {
                let network = Network::parse(text)?;
                (network, format!("{}/{}", shown(network.width, network.first), network.prefix))
            }
        };
        let base = if network.width == 32 { MAPPED } else { 0 };
        Ok(Self { first: base + network.first, last: base + network.last(), written: Some(written) })
    }

    /// Returns the address before the range.
    fn before(&self) -> u128 {
        if self.first == MAPPED || self.first == 0 { self.first } else { self.first - 1 }
    }

    /// Returns the smallest list of networks that cover exactly this range.
    fn networks(self) -> Vec<String> {
        if let Some(written) = self.written {
            return vec![written];
        }
        let four = (MAPPED..MAPPED + (1 << 32)).contains(&self.first);
        let (width, base) = if four { (32, MAPPED) } else { (128, 0) };
        let mut networks = Vec::new();
        let mut first = self.first - base;
        let last = self.last - base;
        loop {
            let mut prefix = width;
            while prefix > 0 {
                let larger = Network { width, first, prefix: prefix - 1 };
                if first & larger.hosts() != 0 || larger.last() > last {
                    break;
                }
                prefix -= 1;
            }
            let network = Network { width, first, prefix };
            networks.push(format!("{}/{prefix}", shown(width, first)));
            if network.last() >= last {
                return networks;
            }
            first = network.last() + 1;
        }
    }
}

fn merge(arguments: &[Value]) -> BuiltinResult {
    let Some(items) = items(&arguments[0]) else { return failed("operand must be an array") };
    let mut ranges = items.into_iter().map(Range::parse).collect::<Result<Vec<_>, _>>()?;
    ranges.sort_by_key(|range| (range.last, range.first));
    let mut merged: Vec<Range> = Vec::new();
    // From the last range down, as each may absorb those before it.
    while let Some(mut range) = ranges.pop() {
        while let Some(previous) = ranges.last().filter(|previous| range.before() <= previous.last) {
            range = Range { first: range.first.min(previous.first), last: range.last, written: None };
            ranges.pop();
        }
        merged.push(range);
    }
    Ok(Value::from(merged.into_iter().flat_map(Range::networks).map(Value::from).collect::<BTreeSet<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(networks: &[&str]) -> Vec<String> {
        let argument = Value::from(networks.iter().map(|text| Value::from(*text)).collect::<Vec<_>>());
        let answer = merge(&[argument]).unwrap();
        let Value::Set(networks) = answer else { panic!("no set") };
        networks.iter().map(|network| crate::value::text(network).unwrap().to_string()).collect()
    }

    #[test]
    fn adjacent_networks_are_merged() {
        assert_eq!(merged(&["192.0.2.0/25", "192.0.2.128/25"]), ["192.0.2.0/24"]);
        assert_eq!(merged(&["192.0.2.0/26", "192.0.2.64/26", "192.0.2.128/26"]), ["192.0.2.0/25", "192.0.2.128/26"]);
        assert_eq!(merged(&["0.0.0.0/0", "10.0.0.0/8"]), ["0.0.0.0/0"]);
        assert_eq!(merged(&["2001:db8::/33", "2001:db8:8000::/33"]), ["2001:db8::/32"]);
        assert_eq!(merged(&["::/0", "::/1"]), ["::/0"]);
        assert_eq!(merged(&[]), Vec::<String>::new());
    }

    #[test]
    fn networks_contain_addresses() {
        for (network, other, want) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.1.0.0/16", "10.0.0.0/8", false),
            ("::/80", "::/80", true),
            ("::/0", "1.2.3.4", false),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
        ] {
            assert_eq!(holds(network, other), Ok(want), "{network} {other}");
        }
        for wrong in ["10.0.0.0", "10.0.0.0/33", "10.0.0.01/8", "x/8", "10.0.0.0/+8", "10.0.0.0/"] {
            assert!(Network::parse(wrong).is_err(), "{wrong}");
        }
    }
}
