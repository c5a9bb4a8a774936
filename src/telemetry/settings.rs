//! Reads the environment variables that configure the signals and their destinations: those of the OpenTelemetry
//! specification for SDKs and for the OTLP exporter. Variables that the SDK reads by itself (sampler, limits, batches,
//! resource) are left to it.
//!
//! As that specification requires, invalid or unsupported values cause a warning and do not end a run. No warning shows
//! headers or a URL, which may contain secrets.

use std::{path::PathBuf, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use reqwest::Url;

/// The destinations of the signals; `None` for those that are not sent.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) traces: Option<OtlpTarget>,
    pub(super) metrics: Option<OtlpTarget>,
    /// How often metrics are sent.
    pub(super) interval: Duration,
    /// Whether the environment gives the service a name.
    pub(super) is_named: bool,
    /// The problems with the variables, to be logged.
    pub(super) warnings: Vec<String>,
}

/// A kind of data that is configured and sent separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    /// Returns its name in URLs, and in upper case in variables.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

/// The destination of a signal.
#[derive(Debug, Clone)]
pub(super) struct OtlpTarget {
    pub(super) signal: Signal,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// The timeout of one batch, for all attempts.
    pub(super) timeout: Duration,
    pub(super) gzip: bool,
    /// Certificate authorities that are trusted besides those of the system.
    pub(super) ca_file: Option<PathBuf>,
    /// The client certificate and its key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

/// Reads variables, and collects warnings about them.
struct EnvironmentReader<E> {
    environment: E,
    warnings: Vec<String>,
}

impl Settings {
    /// Reads the variables of an environment, which returns `None` for empty values.
    pub(super) fn read(environment: impl Fn(&str) -> Option<String>) -> Self {
        let mut reader = EnvironmentReader { environment, warnings: Vec::new() };
        if reader.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Self::default();
        }
        let (traces, mut metrics) = (reader.target(Signal::Traces), reader.target(Signal::Metrics));
        if traces.is_some() {
            reader.check_sampler();
        }
        if let Some(metrics) = &mut metrics {
            reader.one_of("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", &["cumulative"]);
            metrics.timeout = metrics.timeout.min(reader.milliseconds(&["OTEL_METRIC_EXPORT_TIMEOUT"], 30_000));
        }
        let interval = reader.milliseconds(&["OTEL_METRIC_EXPORT_INTERVAL"], 60_000);
        let attributes = reader.get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let names = |pair: &str| pair.split_once('=').is_some_and(|(key, _)| key.trim() == "service.name");
        let is_named = reader.get("OTEL_SERVICE_NAME").is_some() || attributes.split(',').any(names);
        Self { traces, metrics, interval, is_named, warnings: reader.warnings }
    }
}

impl<E: Fn(&str) -> Option<String>> EnvironmentReader<E> {
    fn get(&self, name: &str) -> Option<String> {
        (self.environment)(name)
    }

    fn warn(&mut self, warning: String) {
        // Both signals may read the same variable.
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Returns the value of a variable for a signal, or else of the general one, with the name of the variable.
    fn of(&self, signal: Signal, suffix: &str) -> Option<(String, String)> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_{suffix}", signal.word().to_uppercase());
        [own, format!("OTEL_EXPORTER_OTLP_{suffix}")].into_iter().find_map(|name| Some((self.get(&name)?, name)))
    }

    /// Reads the destination of a signal; `None` if it is not sent.
    fn target(&mut self, signal: Signal) -> Option<OtlpTarget> {
        let endpoint = self.of(signal, "ENDPOINT");
        if !self.exports(signal, endpoint.is_some()) {
            return None;
        }
        let (text, name) = endpoint?;
        let Some(mut url) =
            Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        else {
            self.warn(format!(
                "{name} must be a URL that begins with http:// or https://: no {} are sent",
                signal.word()
            ));
            return None;
        };
        // The endpoint of a signal is used as it is.
        if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
            url.set_path(&format!("{}/v1/{}", url.path().trim_end_matches('/'), signal.word()));
        }
        if let Some((protocol, name)) = self.of(signal, "PROTOCOL").filter(|(value, _)| value != "http/protobuf") {
            self.warn(format!(
                "{name}: protocol {protocol:?} is not supported; kaudit sends http/protobuf, which collectors commonly \
                 receive at port 4318"
            ));
        }
        let file = |reader: &Self, suffix| reader.of(signal, suffix).map(|(path, _)| PathBuf::from(path));
        let identity = (file(self, "CLIENT_CERTIFICATE"), file(self, "CLIENT_KEY"));
        let timeout = [
            format!("OTEL_EXPORTER_OTLP_{}_TIMEOUT", signal.word().to_uppercase()),
            "OTEL_EXPORTER_OTLP_TIMEOUT".to_owned(),
        ];
        Some(OtlpTarget {
            signal,
            url,
            headers: self.headers(signal),
            timeout: self.milliseconds(&timeout.each_ref().map(String::as_str), 10_000),
            gzip: self.gzip(signal),
            ca_file: file(self, "CERTIFICATE"),
            identity: identity.0.zip(identity.1),
        })
    }

    /// Whether a signal is sent.
    fn exports(&mut self, signal: Signal, has_endpoint: bool) -> bool {
        let name = format!("OTEL_{}_EXPORTER", signal.word().to_uppercase());
        match self.get(&name).as_deref() {
            None => has_endpoint,
            Some("otlp") => {
                if !has_endpoint {
                    self.warn(format!(
                        "{name} is otlp, but OTEL_EXPORTER_OTLP_ENDPOINT is not set: no {} are sent",
                        signal.word()
                    ));
                }
                has_endpoint
            }
            Some("none") => false,
            Some(other) => {
                self.warn(format!(
                    "{name}: exporter {other:?} is not supported, only otlp: no {} are sent",
                    signal.word()
                ));
                false
            }
        }
    }

    /// Reads headers as `name=value,…`, with percent-encoded values.
    fn headers(&mut self, signal: Signal) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let Some((text, variable)) = self.of(signal, "HEADERS") else { return headers };
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let header = pair.split_once('=').and_then(|(name, value)| {
                let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
                let mut value = HeaderValue::from_str(&value).ok()?;
                value.set_sensitive(true);
                Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
            });
            match header {
                Some((name, value)) => drop(headers.insert(name, value)),
                None => self.warn(format!("{variable} has an entry that is not name=value; it is ignored")),
            }
        }
        headers
    }

    fn gzip(&mut self, signal: Signal) -> bool {
        let Some((value, name)) = self.of(signal, "COMPRESSION") else { return false };
        if !matches!(value.as_str(), "gzip" | "none") {
            self.warn(format!("{name}: {value:?} is neither gzip nor none; nothing is compressed"));
        }
        value == "gzip"
    }

    /// Returns the first valid value of these variables, or else the default.
    fn milliseconds(&mut self, names: &[&str], default: u64) -> Duration {
        for name in names {
            match self.get(name).map(|value| value.trim().parse::<u64>()) {
                None => {}
                Some(Ok(number)) if number > 0 => return Duration::from_millis(number),
                Some(_) => self.warn(format!("{name} must be a number of milliseconds above 0; {default} is used")),
            }
        }
        Duration::from_millis(default)
    }

    /// Warns if a variable has another value than these.
    fn one_of(&mut self, name: &str, known: &[&str]) {
        if let Some(value) = self.get(name).filter(|value| !known.contains(&value.to_lowercase().as_str())) {
            self.warn(format!("{name}: {value:?} is not supported; {} is used", known.join(" or ")));
        }
    }

    /// Warns of sampler values that the SDK would ignore without a warning.
    fn check_sampler(&mut self) {
        const RATIOS: [&str; 2] = ["traceidratio", "parentbased_traceidratio"];
        const OTHERS: [&str; 4] = ["always_on", "always_off", "parentbased_always_on", "parentbased_always_off"];
        let Some(sampler) = self.get("OTEL_TRACES_SAMPLER") else { return };
        if RATIOS.contains(&sampler.as_str()) {
            let ratio = self.get("OTEL_TRACES_SAMPLER_ARG").and_then(|ratio| ratio.parse::<f64>().ok());
            if ratio.is_none_or(|ratio| !(0.0..=1.0).contains(&ratio)) {
                self.warn("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1; every trace is sampled".to_owned());
            }
        } else if !OTHERS.contains(&sampler.as_str()) {
            let known = [RATIOS.as_slice(), &OTHERS].concat().join(", ");
            self.warn(format!(
                "OTEL_TRACES_SAMPLER: sampler {sampler:?} is not supported, only {known}; every trace is sampled"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Settings::read(move |name| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base/");

    fn urls(variables: &[(&str, &str)]) -> [Option<String>; 2] {
        let settings = read(variables);
        [settings.traces, settings.metrics].map(|target| target.map(|target| target.url.to_string()))
    }

    #[test]
    fn the_endpoint_of_a_signal_takes_precedence_over_the_general_one() {
        let some = |text: &str| Some(text.to_owned());
        let all = [some("http://collector:4318/base/v1/traces"), some("http://collector:4318/base/v1/metrics")];
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://metrics/own");
        assert_eq!(urls(&[]), [None, None]);
        assert_eq!(urls(&[ENDPOINT]), all);
        assert_eq!(
            urls(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")])[0],
            some("http://collector:4318/v1/traces")
        );
        assert_eq!(urls(&[own]), [None, some("https://metrics/own")]);
        assert_eq!(urls(&[ENDPOINT, own]), [all[0].clone(), some("https://metrics/own")]);
        assert_eq!(urls(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")]), [None, all[1].clone()]);
        assert_eq!(urls(&[ENDPOINT, ("OTEL_METRICS_EXPORTER", "otlp")]), all);
        assert_eq!(urls(&[ENDPOINT, ("OTEL_SDK_DISABLED", "True")]), [None, None]);
    }

    #[test]
    fn unsupported_values_cause_warnings_without_secrets() {
        let wrong = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "4318"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "neither gzip nor none"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0", "milliseconds"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta", "cumulative"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "hidden", "not name=value"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "hidden:4318", "must be a URL"),
            ("OTEL_METRICS_EXPORTER", "prometheus", "only otlp"),
            ("OTEL_TRACES_SAMPLER", "xray", "always_on"),
            ("OTEL_TRACES_SAMPLER", "traceidratio", "0 to 1"),
        ];
        for (name, value, expected) in wrong {
            let warnings = read(&[ENDPOINT, (name, value)]).warnings;
            assert_eq!(warnings.len(), 1, "{name}: {warnings:?}");
            assert!(warnings[0].contains(expected) && !warnings[0].contains("hidden"), "{warnings:?}");
        }
        assert_eq!(read(&[("OTEL_TRACES_EXPORTER", "otlp")]).warnings.len(), 1);
        let right = [
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ];
        assert_eq!(read(&right).warnings, Vec::<String>::new());
        // Variables of a signal that is not sent are not checked.
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).warnings, Vec::<String>::new());
    }

    #[test]
    fn values_for_a_signal_take_precedence_over_general_ones() {
        let settings = read(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20token, x-tenant = a%2Cb"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-tenant=own"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "700"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "250"),
            ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test, service.name=own"),
        ]);
        let (traces, metrics) = (settings.traces.unwrap(), settings.metrics.unwrap());
        assert_eq!(
            (&traces.headers["authorization"], &traces.headers["x-tenant"]),
            (&"Bearer token".parse().unwrap(), &"a,b".parse().unwrap())
        );
        assert!(traces.headers.values().all(HeaderValue::is_sensitive));
        assert_eq!((metrics.headers.len(), &metrics.headers["x-tenant"]), (1, &HeaderValue::from_static("own")));
        assert_eq!((traces.timeout, metrics.timeout), (Duration::from_millis(1500), Duration::from_millis(700)));
        assert_eq!(
            (traces.gzip, metrics.gzip, settings.interval, settings.is_named),
            (true, false, Duration::from_millis(250), true)
        );
    }
}
