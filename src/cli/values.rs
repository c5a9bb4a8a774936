//! Parsers of option values.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    time::Duration,
};

use clap::{
    Arg, Command, ValueEnum as _,
    builder::{OsStringValueParser, TypedValueParser},
    error::ErrorKind,
};
use jiff::SignedDuration;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::{
    bus::nats::NatsServers,
    judge::{
        excusable::ExcusablePattern, rule_pattern::RulePattern, rule_settings::RuleSettings, sources::PolicySource,
    },
    model::{glob::Glob, shard::Shard, spelling::nearest, text},
    output::{Format, Target},
};

/// Parses `FORMAT[=FILE]`; the file `-` is standard output.
pub(super) fn target(text: &str) -> Result<Target, String> {
    let (name, file) = match text.split_once('=') {
        Some((name, file)) => (name, Some(file)),
        None => (text, None),
    };
    let format = Format::from_str(name, true).map_err(|_| {
        let names: Vec<&str> = Format::value_variants().iter().map(|format| format.name()).collect();
        let hint =
            nearest(name, names.iter().copied()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("unknown format (known: {}){hint}", names.join(", "))
    })?;
    match file {
        Some("") => Err(format!("a file name is missing after {name}=")),
        None | Some("-") => Ok(Target { format, file: None }),
        Some(file) => Ok(Target { format, file: Some(PathBuf::from(file)) }),
    }
}

/// Parses `FORMAT[=FILE]` of `kaudit diff`.
pub(super) fn diff_target(text: &str) -> Result<Target, String> {
    let target = target(text)?;
    match target.format {
        Format::Text | Format::Json | Format::Markdown => Ok(target),
        _ => Err("a comparison is written as text, json or markdown".into()),
    }
}

/// Parses `FORMAT[=FILE]` of `kaudit fleet`.
pub(super) fn fleet_target(text: &str) -> Result<Target, String> {
    let target = target(text)?;
    match target.format {
        Format::Openreport => Err("reports belong to one cluster: use another format".into()),
        _ => Ok(target),
    }
}

/// Parses a source of policies: a path, `builtin[:PART]`, `cluster:…` or a bundle.
pub(super) fn policy_source() -> impl TypedValueParser<Value = PolicySource> {
    OsStringValueParser::new().map(|text: OsString| PolicySource::from(text))
}

/// Parses a duration that has a unit and is not zero.
pub(super) fn duration(duration: &str) -> Result<Duration, String> {
    text::duration(duration)
}

/// Parses a duration that may be in days, such as `90d`.
pub(super) fn days(text: &str) -> Result<SignedDuration, String> {
    let days = text.trim().strip_suffix('d').and_then(|days| days.trim_end().parse::<u32>().ok());
    match days {
        Some(days @ 1..) => Ok(SignedDuration::from_hours(i64::from(days) * 24)),
        Some(0) => Err("must be greater than 0".into()),
        None => duration(text)
            .and_then(|time| SignedDuration::try_from(time).map_err(|error| error.to_string()))
            .map_err(|why| format!("{why}, or in days, such as 90d")),
    }
}

/// Parses the duration of a Lease, which must be long enough that the API server responds within a tenth of it.
pub(super) fn lease_duration(text: &str) -> Result<Duration, String> {
    duration(text)
        .and_then(|time| if time < Duration::from_secs(3) { Err("must be at least 3s".into()) } else { Ok(time) })
}

/// Parses a glob over names of namespaces.
pub(super) fn namespace_glob(text: &str) -> Result<Glob, String> {
    let is_pattern = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-*?".contains(c);
    if text.is_empty() || !text.chars().all(is_pattern) {
        return Err("expected the name of a namespace, in which * is any text and ? one character".into());
    }
    Ok(Glob::new(text))
}

/// Parses settings of rules: a mapping in YAML or JSON.
pub(super) fn rule_settings(text: &str) -> Result<RuleSettings, String> {
    RuleSettings::parse(text)
}

/// The options that take credentials of NATS.
pub(super) const NATS_LOGINS: &str = "--nats-credentials, --nats-nkey or --nats-user";

/// Parses the address of a NATS server. The error does not show it, as it may have a password.
pub(super) fn nats_url() -> impl TypedValueParser<Value = String> {
    NatsUrlParser
}

#[derive(Clone)]
struct NatsUrlParser;

impl TypedValueParser for NatsUrlParser {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        NatsServers::address(text, NATS_LOGINS).map(|_| text.to_owned()).map_err(|why| {
            let argument = argument.map(ToString::to_string).unwrap_or_default();
            clap::Error::raw(ErrorKind::ValueValidation, format!("the value of {argument} {why}\n")).with_cmd(command)
        })
    }
}

/// Parses `KEY=VALUE`.
pub(super) fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected KEY=VALUE, such as region=eu".into()),
    }
}

/// Parses a pattern that names rules.
pub(super) fn rule_pattern(text: &str) -> Result<RulePattern, String> {
    let pattern = RulePattern::new(text);
    if pattern.to_string().is_empty() { Err("must name a rule".into()) } else { Ok(pattern) }
}

/// Parses a pattern of rules that a namespace may excuse.
pub(super) fn excusable_pattern(text: &str) -> Result<ExcusablePattern, String> {
    ExcusablePattern::parse(text)
}

/// Parses a shard; `auto` takes its ordinal from the end of the host name.
pub(super) fn shard(text: &str) -> Result<Shard, String> {
    Shard::parse(text, std::env::var("HOSTNAME").ok().as_deref())
}

/// Parses an interval; 0 is never.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    if text.trim() == "0" { Ok(Duration::ZERO) } else { duration(text) }
}

/// Parses a percentage, with or without `%`.
pub(super) fn percentage(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("expected a percentage from 0 to 100".into()),
    }
}

/// Parses an address to listen on: `HOST:PORT`, or `:PORT` for all addresses.
pub(super) fn listen(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(host, port)| {
        let bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        (!bare_v6 && !host.contains(char::is_whitespace)).then_some(port)
    });
    match port.map(str::parse::<u16>) {
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT such as 127.0.0.1:8080 or [::]:8080, or :PORT for all addresses".into()),
    }
}

/// Whether an address to listen on is a loopback address.
pub(super) fn is_on_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or("", |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Parses an RFC 1123 label, such as the name of a namespace.
pub(super) fn label(text: &str) -> Result<String, String> {
    if is_label(text) && text.len() <= 63 {
        Ok(text.to_owned())
    } else {
        Err("expected a name of at most 63 lower-case letters, digits and -".into())
    }
}

/// Parses an RFC 1123 subdomain, such as the name of most objects.
pub(super) fn subdomain(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_label) {
        Ok(text.to_owned())
    } else {
        Err("expected a name of lower-case letters, digits, - and .".into())
    }
}

/// A `ServiceAccount`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccount {
    pub namespace: String,
    pub name: String,
}

/// Parses `NAMESPACE:NAME`, as kubectl writes it.
pub(super) fn service_account(text: &str) -> Result<ServiceAccount, String> {
    let parts = text.split_once(':').map(|(namespace, name)| (label(namespace), subdomain(name)));
    let Some((Ok(namespace), Ok(name))) = parts else {
        return Err("expected NAMESPACE:NAME such as kaudit:kaudit".into());
    };
    Ok(ServiceAccount { namespace, name })
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| inner(*byte));
    ends(text.as_bytes().first())
        && ends(text.as_bytes().last())
        && text.bytes().all(|byte| inner(byte) || byte == b'-')
}

/// Validates a log filter, and rejects a misspelled level, which the library would treat as a target.
///
/// # Errors
///
/// With the reason why it is invalid.
pub(crate) fn check_filter(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("expected a level (error, warn, info, debug, trace, off) or a filter such as kaudit=debug".into());
    }
    // As a target, the word would silence everything else.
    let bare =
        text.split(',').map(str::trim).find(|part| !part.contains(['=', '[']) && part.parse::<LevelFilter>().is_err());
    if let Some(word) = bare {
        return Err(format!("{word:?} is not a level (error, warn, info, debug, trace, off)"));
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_password_is_not_shown() {
        let command = Command::new("kaudit").arg(Arg::new("nats").long("nats").value_parser(nats_url()));
        let why = |url: &str| command.clone().try_get_matches_from(["kaudit", "--nats", url]).unwrap_err().to_string();
        let shown = why("nats://user:hidden@nats.example.com");
        assert!(shown.contains("--nats <nats> must not contain credentials") && !shown.contains("hidden"), "{shown}");
        assert!(why("http://nats.example.com").contains("must be URLs such as"));
    }

    #[test]
    fn invalid_log_filters_are_rejected() {
        assert!(check_filter("info,kaudit::source=debug").is_ok());
        assert!(check_filter("kaudit=loud").is_err());
        assert!(check_filter("inof").is_err());
        assert!(check_filter(" ").is_err());
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, millis) in
            [("500ms", 500), ("60s", 60_000), ("2m", 120_000), ("1h", 3_600_000), ("1h 30m", 5_400_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(interval("0"), Ok(Duration::ZERO));
        assert!(interval("60").is_err() && interval("2h") == duration("2h"));
        for text in ["60", "0s", "-1s", "", "soon", "1.5", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn addresses_have_a_port() {
        for text in ["127.0.0.1:8080", "[::]:8080", "[::1]:0", ":8080", "localhost:8080"] {
            assert_eq!(listen(text).as_deref(), Ok(text));
        }
        for text in ["8080", "localhost", "::1:8080", ":", ":99999", "a b:1", ""] {
            assert!(listen(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn loopback_addresses_are_recognized() {
        for text in ["127.0.0.1:8082", "127.9.9.9:1", "[::1]:0", "localhost:8082"] {
            assert!(is_on_loopback(text), "{text:?}");
        }
        for text in [":8082", "0.0.0.0:8082", "[::]:8082", "10.0.0.1:8082", "localhost.example.com:80"] {
            assert!(!is_on_loopback(text), "{text:?}");
        }
    }

    #[test]
    fn an_unknown_format_suggests_the_nearest() {
        assert_eq!(target("json=out.json"), Ok(Target { format: Format::Json, file: Some("out.json".into()) }));
        assert_eq!(target("text=-"), Ok(Target { format: Format::Text, file: None }));
        let known =
            "unknown format (known: text, json, ndjson, sarif, junit, csv, github, gitlab, markdown, html, openreport)";
        assert_eq!(target("jsno").unwrap_err(), format!("{known}; did you mean json?"));
        assert_eq!(target("zzz").unwrap_err(), known);
        assert!(target("json=").is_err());
    }

    #[test]
    fn names_follow_the_rules_of_kubernetes() {
        assert!(label("shop-1").is_ok() && label("Shop").is_err() && label("-a").is_err() && label("").is_err());
        assert_eq!(service_account("a:b.c"), Ok(ServiceAccount { namespace: "a".into(), name: "b.c".into() }));
        assert!(service_account("a").is_err() && service_account("A:b").is_err() && service_account("a:").is_err());
        assert!(subdomain("kaudit.prod").is_ok() && subdomain("a..b").is_err() && subdomain("ü").is_err());
    }
}
