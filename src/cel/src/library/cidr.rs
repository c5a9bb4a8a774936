//! Networks.

use std::{fmt, net::IpAddr};

use super::{Table, argument, ip, strings::go_quoted, text, unexpected};
use crate::{
    error::{EvalError, failed, no_overload},
    value::CelValue,
};

pub(super) const TABLE: Table = &[
    ("string_to_cidr", |values| parse(text(values, 0)?).map_or_else(failed, |network| Ok(CelValue::Cidr(network)))),
    ("is_cidr", |values| Ok(Cidr::parse(text(values, 0)?).is_ok().into())),
    ("cidr_contains_ip_string", |values| match ip::parse(text(values, 1)?) {
        Ok(address) => Ok(network(values)?.contains(address).into()),
        Err(_) => no_overload(),
    }),
    ("cidr_contains_ip_ip", |values| match argument(values, 1)? {
        CelValue::Ip(address) => Ok(network(values)?.contains(*address).into()),
        _ => unexpected(),
    }),
    ("cidr_contains_cidr_string", |values| match parse(text(values, 1)?) {
        Ok(other) => Ok(network(values)?.contains_network(other).into()),
        Err(message) => failed(message),
    }),
    ("cidr_contains_cidr", |values| match argument(values, 1)? {
        CelValue::Cidr(other) => Ok(network(values)?.contains_network(*other).into()),
        _ => unexpected(),
    }),
    ("cidr_ip", |values| Ok(CelValue::Ip(network(values)?.address))),
    ("cidr_prefix_length", |values| Ok(CelValue::Int(network(values)?.bits.into()))),
    ("cidr_masked", |values| {
        let network = network(values)?;
        Ok(CelValue::Cidr(Cidr { address: masked(network.address, network.bits), ..network }))
    }),
];

/// A network: an address, and how many of its bits are those of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

const MESSAGE: &str = "network address parse error during conversion from string: ";

fn parse(given: &str) -> Result<Cidr, String> {
    Cidr::parse(given).map_err(|message| format!("{MESSAGE}{message}"))
}

fn network(values: &[CelValue<'_>]) -> Result<Cidr, EvalError> {
    match argument(values, 0)? {
        CelValue::Cidr(network) => Ok(*network),
        _ => no_overload(),
    }
}

/// Returns an address with the bits after the first ones set to zero.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

impl Cidr {
    /// Returns the number of bits of the network.
    pub(crate) fn bits(self) -> u8 {
        self.bits
    }

    fn parse(given: &str) -> Result<Self, String> {
        let fault = |message: &str| format!("{MESSAGE}netip.ParsePrefix({}): {message}", go_quoted(given));
        let (address, bits) = given.rsplit_once('/').ok_or_else(|| fault("no '/'"))?;
        let parsed = ip::go_address(address)
            .map_err(|message| fault(&format!("ParseAddr({}): {message}", go_quoted(address))))?;
        let (parsed, has_zone) = parsed;
        if has_zone {
            return Err(fault("IPv6 zones cannot be present in a prefix"));
        }
        let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || (bits.len() > 1 && bits.starts_with('0')) {
            return Err(fault(&format!("bad bits after slash: {}", go_quoted(bits))));
        }
        let most = if parsed.is_ipv4() { 32 } else { 128 };
        let Some(bits) = bits.parse().ok().filter(|bits| *bits <= most) else {
            return Err(fault("prefix length out of range"));
        };
        match parsed {
            IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
                Err(format!("IPv4-mapped IPv6 address {} is not allowed", go_quoted(given)))
            }
            address => Ok(Self { address, bits }),
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && masked(address, self.bits) == masked(self.address, self.bits)
    }

    fn contains_network(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", ip::text(&self.address), self.bits)
    }
}
