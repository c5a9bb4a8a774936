//! URLs as Go's `net/url` parses them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{Table, argument, strings::go_quoted, text};
use crate::{
    error::{EvalError, failed, no_overload},
    value::{CelText, CelValue, Map, MapKey},
};

pub(super) const TABLE: Table = &[
    ("string_to_url", |values| {
        let given = text(values, 0)?;
        let parsed = Url::parse_request(given).and_then(|_| Url::parse(given));
        match parsed {
            Ok(url) => Ok(CelValue::Url(Arc::new(url))),
            Err(message) => failed(format!("URL parse error during conversion from string: {message}")),
        }
    }),
    ("is_url_string", |values| Ok(Url::parse_request(text(values, 0)?).is_ok().into())),
    ("url_get_scheme", |values| Ok(url(values)?.scheme.as_str().into())),
    ("url_get_host", |values| Ok(url(values)?.host.as_str().into())),
    ("url_get_hostname", |values| Ok(url(values)?.host_and_port().0.into())),
    ("url_get_port", |values| Ok(url(values)?.host_and_port().1.into())),
    ("url_get_escaped_path", |values| Ok(url(values)?.path.as_str().into())),
    ("url_get_query", |values| Ok(CelValue::Map(url(values)?.query()))),
];

fn url<'a>(values: &'a [CelValue<'_>]) -> Result<&'a Url, EvalError> {
    match argument(values, 0)? {
        CelValue::Url(url) => Ok(url),
        _ => no_overload(),
    }
}

/// A URL.
#[derive(Debug, Clone, Default)]
pub struct Url {
    scheme: String,
    /// What follows the scheme without a slash.
    opaque: String,
    user: Option<String>,
    host: String,
    /// Escaped.
    path: String,
    query: Option<String>,
    fragment: Option<String>,
}

/// The parts of URLs with rules of their own for escapes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EscapedPart {
    Host,
    Zone,
    Path,
    Fragment,
}

impl Url {
    /// Parses a URL without a fragment, as in a request: absolute, or an absolute path.
    ///
    /// # Errors
    /// What Go's message says.
    pub(super) fn parse_request(given: &str) -> Result<Self, String> {
        Self::parts(given, true).map_err(|message| format!("parse {}: {message}", go_quoted(given)))
    }

    fn parse(given: &str) -> Result<Self, String> {
        let (before, fragment) = given.split_once('#').map_or((given, None), |(before, after)| (before, Some(after)));
        let parsed = Self::parts(before, false).and_then(|mut url| {
            if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) {
                unescape(fragment, EscapedPart::Fragment)?;
                url.fragment = Some(fragment.to_owned());
            }
            Ok(url)
        });
        parsed.map_err(|message| format!("parse {}: {message}", go_quoted(given)))
    }

    fn parts(given: &str, is_request: bool) -> Result<Self, String> {
        if given.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if given.is_empty() && is_request {
            return Err("empty url".to_owned());
        }
        if given == "*" {
            return Ok(Self { path: "*".to_owned(), ..Self::default() });
        }
        let (scheme, rest) = scheme(given)?;
        let mut url = Self { scheme: scheme.to_lowercase(), ..Self::default() };
        let (mut rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        url.query = query.map(str::to_owned);
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if is_request {
                return Err("invalid URI for request".to_owned());
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        if let Some(authority) = rest.strip_prefix("//")
            && (!scheme.is_empty() || (!is_request && !rest.starts_with("///")))
        {
            let end = authority.find('/').unwrap_or(authority.len());
            (url.user, url.host) = parse_authority(&authority[..end])?;
            rest = &authority[end..];
        }
        let path = unescape(rest, EscapedPart::Path)?;
        let is_valid = rest.bytes().all(|byte| byte == b'%' || is_plain_in_path(byte) || b"[]".contains(&byte));
        url.path = if is_valid { rest.to_owned() } else { escape_path(&path) };
        Ok(url)
    }

    /// Returns the host without its port and brackets, and the port.
    fn host_and_port(&self) -> (&str, &str) {
        let colon = self.host.rfind(':').filter(|colon| is_port(&self.host[*colon..]));
        let (name, port) = colon.map_or((&*self.host, ""), |colon| (&self.host[..colon], &self.host[colon + 1..]));
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        (name, port)
    }

    /// Returns the parameters of the query; invalid ones are left out.
    fn query<'v>(&self) -> Map<'v> {
        let mut all: BTreeMap<String, Vec<CelValue<'v>>> = BTreeMap::new();
        for pair in self.query.as_deref().unwrap_or_default().split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |text: &str| unescape(&text.replace('+', " "), EscapedPart::Fragment).ok();
            if let (Some(key), Some(value)) = (decoded(key), decoded(value)) {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                all.entry(text(key)).or_default().push(CelValue::from(text(value)));
            }
        }
        let entries =
            all.into_iter().map(|(key, values)| (MapKey::String(CelText::Shared(key.into())), CelValue::from(values)));
        Map::Shared(Arc::new(entries.collect()))
    }
}

/// Splits off the text before the first colon if it is a scheme.
fn scheme(given: &str) -> Result<(&str, &str), String> {
    for (at, byte) in given.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&given[..at], &given[at + 1..])),
            _ => break,
        }
    }
    Ok(("", given))
}

/// Parses `user@host:port`.
fn parse_authority(authority: &str) -> Result<(Option<String>, String), String> {
    let Some((user, host)) = authority.rsplit_once('@') else { return Ok((None, parse_host(authority)?)) };
    let host = parse_host(host)?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(is_allowed) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    unescape(user, EscapedPart::Fragment)?;
    Ok((Some(user.to_owned()), host))
}

fn parse_host(host: &str) -> Result<String, String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let check_port = |port: &str| {
        if is_port(port) { Ok(()) } else { Err(format!("invalid port {} after host", go_quoted(port))) }
    };
    if let Some(open) = host.find('[') {
        if open > 0 {
            return Err("invalid IP-literal".to_owned());
        }
        let Some(close) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
        check_port(&host[close + 1..])?;
        let (address, zone) = match host[..close].find("%25") {
            Some(at) => (&host[1..at], Some(&host[at..close])),
            None => (&host[1..close], None),
        };
        let decoded = text(unescape(address, EscapedPart::Host)?);
        let zone = zone.map(|zone| unescape(zone, EscapedPart::Zone).map(text)).transpose()?.unwrap_or_default();
        if decoded.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(format!("invalid host: ParseAddr({}): unable to parse IP", go_quoted(&decoded)));
        }
        return Ok(format!("[{decoded}{zone}]{}", &host[close + 1..]));
    }
    if let Some(colon) = host.find(':') {
        check_port(&host[colon..])?;
    }
    unescape(host, EscapedPart::Host).map(text)
}

/// Whether a text is empty, or a colon with digits.
fn is_port(port: &str) -> bool {
    match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    }
}

/// Decodes percent escapes.
fn unescape(given: &str, part: EscapedPart) -> Result<Vec<u8>, String> {
    let bytes = given.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b'%' {
            let code = given.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let Some(code) = code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
                let end = (at + 3).min(bytes.len());
                return Err(format!("invalid URL escape {}", go_quoted(&String::from_utf8_lossy(&bytes[at..end]))));
            };
            let is_wrong = match part {
                EscapedPart::Host => code < 0x80 && code != b'%',
                EscapedPart::Zone => code != b'%' && code != b' ' && code < 0x80 && !is_plain_in_host(code),
                EscapedPart::Path | EscapedPart::Fragment => false,
            };
            if is_wrong {
                return Err(format!("invalid URL escape {}", go_quoted(&given[at..at + 3])));
            }
            decoded.push(code);
            at += 3;
            continue;
        }
        if matches!(part, EscapedPart::Host | EscapedPart::Zone) && byte < 0x80 && !is_plain_in_host(byte) {
            return Err(format!("invalid character {} in host name", go_quoted(&char::from(byte).to_string())));
        }
        decoded.push(byte);
        at += 1;
    }
    Ok(decoded)
}

fn is_plain_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

fn is_plain_in_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/".contains(&byte)
}

fn escape_path(path: &[u8]) -> String {
    path.iter().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(byte) {
            escaped.push(char::from(*byte));
        } else {
            escaped.extend(format!("%{byte:02X}").chars());
        }
        escaped
    })
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
                if !(self.host.is_empty() && self.path.is_empty() && self.user.is_none()) {
                    f.write_str("//")?;
                }
                if let Some(user) = &self.user {
                    write!(f, "{user}@")?;
                }
                f.write_str(&self.host)?;
            }
            f.write_str(&self.path)?;
        } else {
            f.write_str(&self.opaque)?;
        }
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        match &self.fragment {
            Some(fragment) => write!(f, "#{fragment}"),
            None => Ok(()),
        }
    }
}
