//! IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Table, argument, strings::go_quoted, text as argument_text, unexpected};
use crate::{
    error::{EvalError, failed},
    value::CelValue,
};

pub(super) const TABLE: Table = &[
    ("string_to_ip", |values| match parse(argument_text(values, 0)?) {
        Ok(address) => Ok(CelValue::Ip(address)),
        Err(message) => failed(message),
    }),
    ("is_ip", |values| Ok(parse(argument_text(values, 0)?).is_ok().into())),
    ("ip_is_canonical", |values| {
        let given = argument_text(values, 0)?;
        match parse(given) {
            Ok(address) => Ok(CelValue::Bool(text(&address) == given)),
            Err(message) => failed(message),
        }
    }),
    ("ip_family", |values| Ok(CelValue::Int(if address(values)?.is_ipv4() { 4 } else { 6 }))),
    ("ip_is_unspecified", |values| Ok(address(values)?.is_unspecified().into())),
    ("ip_is_loopback", |values| Ok(address(values)?.is_loopback().into())),
    ("ip_is_link_local_multicast", |values| Ok(is_link_local_multicast(address(values)?).into())),
    ("ip_is_link_local_unicast", |values| Ok(is_link_local_unicast(address(values)?).into())),
    ("ip_is_global_unicast", |values| Ok(is_global_unicast(address(values)?).into())),
];

fn address(values: &[CelValue<'_>]) -> Result<IpAddr, EvalError> {
    match argument(values, 0)? {
        CelValue::Ip(address) => Ok(*address),
        _ => unexpected().map(|_| IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(address.is_unspecified()
        || is_broadcast
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address))
}

/// Returns an address as text in its canonical form.
pub(crate) fn text(address: &IpAddr) -> String {
    address.to_string()
}

/// Parses an address; zones, and IPv4 addresses as IPv6, are not allowed.
pub(super) fn parse(given: &str) -> Result<IpAddr, String> {
    let quoted = go_quoted(given);
    match go_address(given) {
        Ok((_, true)) => Err(format!("IP address {quoted} with zone value is not allowed")),
        Ok((IpAddr::V6(address), _)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"))
        }
        Ok((address, _)) => Ok(address),
        Err(message) => Err(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {message}"
        )),
    }
}

/// Parses an address and whether it has a zone; errors are those of Go's `netip`.
pub(super) fn go_address(given: &str) -> Result<(IpAddr, bool), String> {
    match given.find(['.', ':', '%']).map(|at| given.as_bytes()[at]) {
        Some(b'.') => v4(given).map(|address| (IpAddr::V4(address), false)),
        Some(b':') => {
            let (address, zone) = given.split_once('%').unwrap_or((given, ""));
            if zone.is_empty() && given.contains('%') {
                return Err("zone must be a non-empty string".to_owned());
            }
            match address.parse::<Ipv6Addr>() {
                Ok(address) => Ok((IpAddr::V6(address), !zone.is_empty())),
                Err(_) => Err(format!("unable to parse IPv6 address {}", go_quoted(address))),
            }
        }
        Some(_) => Err("missing IPv6 address".to_owned()),
        None => Err("unable to parse IP".to_owned()),
    }
}

fn v4(given: &str) -> Result<Ipv4Addr, String> {
    let (mut octets, mut count, mut value, mut digits) = ([0_u8; 4], 0, 0_u32, 0);
    for (at, byte) in given.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err("IPv4 field has octet with leading zero".to_owned());
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err("IPv4 field has value >255".to_owned());
                }
            }
            b'.' => {
                if at == 0 || at == given.len() - 1 || given.as_bytes()[at - 1] == b'.' {
                    return Err(format!("IPv4 field must have at least one digit (at {})", go_quoted(&given[at..])));
                }
                if count == 3 {
                    return Err("IPv4 address too long".to_owned());
                }
                octets[count] = u8::try_from(value).unwrap_or(u8::MAX);
                (count, value, digits) = (count + 1, 0, 0);
            }
            _ => return Err(format!("unexpected character (at {})", go_quoted(given.get(at..).unwrap_or_default()))),
        }
    }
    if count < 3 {
        return Err("IPv4 address too short".to_owned());
    }
    octets[3] = u8::try_from(value).unwrap_or(u8::MAX);
    Ok(octets.into())
}
