//! `uri.*`: URLs as Go's `net/url` parses them.

use std::collections::BTreeMap;

use regorus::Value;

use super::call::{Builtin, BuiltinFault, BuiltinResult, failed, string};

pub(super) const TABLE: &[Builtin] = &[("uri.is_valid", 1, is_valid), ("uri.parse", 1, parse)];

fn is_valid(arguments: &[Value]) -> BuiltinResult {
    Ok(Value::from(string(arguments, 0).is_ok_and(|text| !text.is_empty() && ParsedUrl::read(text).is_ok())))
}

fn parse(arguments: &[Value]) -> BuiltinResult {
    let address = ParsedUrl::read(string(arguments, 0)?)?;
    let fields = [
        ("scheme", &address.scheme),
        ("hostname", &address.hostname),
        ("port", &address.port),
        ("path", &address.path),
        ("raw_path", &address.raw_path),
        ("raw_query", &address.query),
        ("fragment", &address.fragment),
    ];
    let given = fields.into_iter().filter(|(_, text)| !text.is_empty());
    Ok(Value::from(
        given.map(|(name, text)| (Value::from(name), Value::from(text.as_str()))).collect::<BTreeMap<_, _>>(),
    ))
}

/// The parts of a URL; missing ones are empty.
#[derive(Debug, Default)]
struct ParsedUrl {
    scheme: String,
    hostname: String,
    port: String,
    path: String,
    raw_path: String,
    query: String,
    fragment: String,
}

/// A part of a URL, for the characters that are valid in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlPart {
    Host,
    Zone,
    Path,
}

impl ParsedUrl {
    fn read(text: &str) -> Result<Self, BuiltinFault> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut address = Self { fragment: unescaped(fragment, UrlPart::Path)?, ..Self::default() };
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return failed("net/url: invalid control character in URL");
        }
        let (scheme, rest) = scheme(text)?;
        address.scheme = scheme.to_lowercase();
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut address.query);
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                // An opaque URL, for example `mailto:x`.
                return Ok(address);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return failed("first path segment in URL cannot contain colon");
            }
        }
        if let Some(authority) = rest.strip_prefix("//")
            && (!scheme.is_empty() || !rest.starts_with("///"))
        {
            let end = authority.find('/').unwrap_or(authority.len());
            (address.hostname, address.port) = host_and_port(&authority[..end])?;
            rest = &authority[end..];
        }
        address.path = unescaped(rest, UrlPart::Path)?;
        address.raw_path = if escaped_path(&address.path) == rest { address.path.clone() } else { rest.to_owned() };
        Ok(address)
    }
}

/// Splits off the text before the first colon, if it is a valid scheme.
fn scheme(text: &str) -> Result<(&str, &str), BuiltinFault> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return failed("missing protocol scheme"),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn host_and_port(authority: &str) -> Result<(String, String), BuiltinFault> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            if !user.bytes().all(allowed) {
                return failed("net/url: invalid userinfo");
            }
            escapes(user)?;
            host
        }
        None => authority,
    };
    let host = match (host.strip_prefix('['), host.rfind(']')) {
        (Some(_), None) => return failed("missing ']' in host"),
        (Some(_), Some(end)) => {
            valid_port(&host[end + 1..])?;
            let literal = host[1..end].split("%25").next().unwrap_or_default();
            if literal.parse::<std::net::Ipv6Addr>().is_err() {
                return failed("invalid host: no IPv6 address in brackets");
            }
            match host[..end].find("%25") {
                Some(zone) => {
                    unescaped(&host[..zone], UrlPart::Host)?
                        + &unescaped(&host[zone..end], UrlPart::Zone)?
                        + &host[end..]
                }
                None => unescaped(host, UrlPart::Host)?,
            }
        }
        (None, _) => {
            if let Some(colon) = host.find(':') {
                valid_port(&host[colon..])?;
            }
            if host.contains('[') {
                return failed("invalid character in host name");
            }
            unescaped(host, UrlPart::Host)?
        }
    };
    let colon = host.rfind(':').filter(|colon| valid_port(&host[*colon..]).is_ok());
    let (name, port) = colon.map_or((&*host, ""), |colon| (&host[..colon], &host[colon + 1..]));
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    Ok((name.to_owned(), port.to_owned()))
}

/// Checks that a port is empty, or a colon followed by digits.
fn valid_port(port: &str) -> Result<(), BuiltinFault> {
    let digits = port.strip_prefix(':').unwrap_or(if port.is_empty() { "" } else { "x" });
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(())
    } else {
        failed(format!("invalid port {port:?} after host"))
    }
}

/// Checks that two hexadecimal digits follow each percent sign.
fn escapes(text: &str) -> Result<(), BuiltinFault> {
    let mut pieces = text.split('%');
    pieces.next();
    let wrong = |piece: &str| !piece.bytes().take(2).filter(u8::is_ascii_hexdigit).count().eq(&2);
    match pieces.find(|piece| wrong(piece)) {
        Some(piece) => failed(format!("invalid URL escape \"%{}\"", piece.chars().take(2).collect::<String>())),
        None => Ok(()),
    }
}

fn unescaped(text: &str, part: UrlPart) -> Result<String, BuiltinFault> {
    Ok(String::from_utf8_lossy(&unescape(text, part)?).into_owned())
}

/// Decodes percent escapes such as `%2F`.
pub(super) fn unescape(text: &str, part: UrlPart) -> Result<Vec<u8>, BuiltinFault> {
    escapes(text)?;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let code = std::str::from_utf8(&after[..2]).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let code = code.unwrap_or(b'%');
            // Hosts escape only non-ASCII bytes; zones escape almost anything.
            let wrong = match part {
                UrlPart::Host => code < 0x80 && code != b'%',
                UrlPart::Zone => code != b'%' && code != b' ' && code < 0x80 && must_be_escaped(code),
                UrlPart::Path => false,
            };
            if wrong {
                return failed("invalid URL escape in the host");
            }
            bytes.push(code);
            rest = &after[2..];
        } else {
            if part != UrlPart::Path && first < 0x80 && must_be_escaped(first) {
                return failed(format!("invalid character {:?} in host name", char::from(first).to_string()));
            }
            bytes.push(first);
            rest = after;
        }
    }
    Ok(bytes)
}

/// Whether a character is not allowed in a host.
fn must_be_escaped(byte: u8) -> bool {
    !(byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte))
}

/// Returns a path as Go escapes it.
fn escaped_path(path: &str) -> String {
    path.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}
