//! HTTP clients for servers other than the API server: receivers of notifications, collectors of telemetry, and servers
//! of bundles.
//!
//! They do not follow redirects, whose servers would receive the credentials, and do not retry.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use data_encoding::BASE64;
use http::{HeaderMap, header::RETRY_AFTER};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use jiff::Timestamp;
use reqwest::{Certificate, Client, ClientBuilder, Proxy, Url, redirect::Policy};

use super::error::reasons;

/// The longest time for which a server can make kaudit wait.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(10);
/// The maximum length of a server's error message that is shown, in bytes.
pub(crate) const REASON_BYTES: usize = 300;

/// Returns the builder of a client with this timeout, which trusts the certificate authorities in a file as well as
/// those of the system.
///
/// # Errors
/// If the file cannot be used.
pub(crate) fn builder(timeout: Duration, ca_file: Option<&PathBuf>) -> anyhow::Result<ClientBuilder> {
    // Fails if another part of the process has installed one before.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    let builder = ClientBuilder::new()
        .user_agent(concat!("kaudit/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .proxy(proxy())
        .timeout(timeout);
    let Some(path) = ca_file else { return Ok(builder) };
    let certificates = Certificate::from_pem_bundle(&pem(path)?)
        .ok()
        .filter(|certificates| !certificates.is_empty())
        .with_context(|| format!("{} has no certificates in PEM", path.display()))?;
    Ok(builder.tls_certs_merge(certificates))
}

/// Why a request failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// Another attempt may succeed, at the earliest after this delay.
    Later(Duration, String),
    /// The same request will not succeed.
    Refused(String),
}

/// Builds a client.
///
/// # Errors
/// With the reason why that is not possible.
pub(crate) fn build(builder: ClientBuilder) -> anyhow::Result<Client> {
    builder.build().map_err(|error| anyhow::anyhow!("cannot create an HTTP client: {}", reasons(&error)))
}

/// Returns the delay in the `Retry-After` header of a response, which is in seconds or a time, up to
/// [`LONGEST_RETRY_AFTER`]; zero without such a header.
pub(crate) fn retry_after(headers: &HeaderMap) -> Duration {
    let text = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    text.and_then(|text| delay(text.trim(), Timestamp::now())).unwrap_or_default().min(LONGEST_RETRY_AFTER)
}

fn delay(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Duration::try_from(at.duration_since(now)).ok()
}

/// Returns the body of a response as one line, without white space at its ends.
pub(crate) fn one_line(body: &[u8]) -> String {
    String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the proxy of the environment. Requests to this machine never use it: they may carry credentials without TLS,
/// because they do not leave the machine.
fn proxy() -> Proxy {
    let system = Matcher::from_system();
    Proxy::custom(move |url| {
        if is_loopback(url) {
            return None;
        }
        with_credentials(&system.intercept(&url.as_str().parse().ok()?)?)
    })
}

/// Returns the URL of a proxy with its user and password.
fn with_credentials(proxy: &Intercept) -> Option<Url> {
    let mut url = Url::parse(&proxy.uri().to_string()).ok()?;
    let basic = proxy.basic_auth().and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
    if let Some(basic) = basic {
        let text = String::from_utf8(BASE64.decode(basic.as_bytes()).ok()?).ok()?;
        let (user, password) = text.split_once(':')?;
        url.set_username(&user.replace('%', "%25")).ok()?;
        url.set_password(Some(&password.replace('%', "%25"))).ok()?;
    }
    Some(url)
}

/// Whether a URL refers to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}

/// Reads a file of certificates or keys.
///
/// # Errors
/// Names the file that cannot be read.
pub(crate) fn pem(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_credentials_of_a_proxy_are_kept() {
        let via = |proxy: &str| {
            let matcher = Matcher::builder().all(proxy.to_owned()).build();
            let found = matcher.intercept(&http::Uri::from_static("https://example.com"));
            found.and_then(|found| with_credentials(&found)).map(String::from)
        };
        for proxy in ["http://proxy:3128/", "http://user:pass@proxy:3128/", "http://a%40b:p%25%3A%2F@proxy/"] {
            assert_eq!(via(proxy).as_deref(), Some(proxy));
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_time() {
        let now: Timestamp = "2026-11-23T10:00:00Z".parse().unwrap();
        assert_eq!(delay("7", now), Some(Duration::from_secs(7)));
        assert_eq!(delay("Mon, 23 Nov 2026 10:00:30 GMT", now), Some(Duration::from_secs(30)));
        assert_eq!((delay("Mon, 23 Nov 2026 09:00:00 GMT", now), delay("soon", now)), (None, None));
    }
}
