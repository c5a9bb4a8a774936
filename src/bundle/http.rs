//! HTTP requests for bundles, bounded in time and size. Credentials are not sent to servers of redirects.

use std::{fmt, path::PathBuf, time::Duration};

use anyhow::Context as _;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{AUTHORIZATION, LOCATION},
};
use reqwest::{Client, Url};

pub(super) use crate::cluster::http_client::is_loopback;
use crate::cluster::{
    error::reasons,
    http_client::{self, REASON_BYTES, one_line},
};

/// The timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of [`download`].
const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(1);
/// The maximum number of redirects that are followed.
const REDIRECTS: usize = 5;

/// Why a bundle, or a newer version of it, was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    /// It may be available later.
    #[error("{0}")]
    Unavailable(String),
    /// The content must not be used.
    #[error("{0}")]
    Unacceptable(String),
}

/// One request.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: &'a [u8],
    /// The maximum size of the response, in bytes.
    pub(super) limit: u64,
}

impl Request<'static> {
    /// Creates a GET request for at most `limit` bytes.
    pub(super) fn get(url: Url, limit: u64) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: &[], limit }
    }
}

/// A response of any status.
pub(super) struct BundleResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// The URL it came from, after redirects.
    pub(super) url: Url,
}

impl BundleResponse {
    /// Returns a header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns an error with the status and the message of the server; `failure` says what could not be done.
    pub(super) fn refusal(&self, failure: impl fmt::Display) -> FetchError {
        let line = one_line(&self.body[..self.body.len().min(4 * REASON_BYTES)]);
        let line = crate::model::text::shortened(&line, REASON_BYTES);
        let colon = if line.is_empty() { "" } else { ": " };
        let plain = self.url.scheme() == "http" && !is_loopback(&self.url);
        let help = match self.status {
            StatusCode::UNAUTHORIZED if plain => "; kaudit sends no credentials without TLS: use https",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                "; log in with docker login, so that $DOCKER_CONFIG/config.json has credentials"
            }
            _ => "",
        };
        FetchError::Unavailable(format!("{failure}: the server responded with {}{colon}{line}{help}", self.status))
    }
}

/// The HTTP client for bundles.
#[derive(Debug, Clone)]
pub(super) struct Http(Client);

impl Http {
    /// Creates a client that trusts the certificate authorities in the file `ca` as well as those of the system.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(super) fn new(timeout: Duration, ca: Option<&PathBuf>) -> anyhow::Result<Self> {
        let client = http_client::builder(timeout, ca)?.connect_timeout(CONNECT_TIMEOUT.min(timeout));
        Ok(Self(http_client::build(client)?))
    }

    /// Sends a request, and follows redirects of GET and HEAD.
    ///
    /// # Errors
    /// If the server cannot be reached, the response is too long, or a redirect must not be followed.
    pub(super) async fn send(&self, mut request: Request<'_>) -> Result<BundleResponse, FetchError> {
        for _ in 0..=REDIRECTS {
            let answer = self.send_once(&request).await?;
            let is_read = matches!(request.method, Method::GET | Method::HEAD);
            if !is_read || !answer.status.is_redirection() || answer.status == StatusCode::NOT_MODIFIED {
                return Ok(answer);
            }
            let Some(next) = answer.header(LOCATION.as_str()).and_then(|to| request.url.join(to).ok()) else {
                return Ok(answer);
            };
            if next.scheme() != "https" && next.scheme() != request.url.scheme() {
                return Err(FetchError::Unavailable(format!("is redirected to {}, which is not https", next.scheme())));
            }
            if next.origin() != request.url.origin() {
                request.headers.remove(AUTHORIZATION);
            }
            request.url = next;
        }
        Err(FetchError::Unavailable(format!("is redirected more than {REDIRECTS} times")))
    }

    /// Sends a request without following redirects.
    async fn send_once(&self, request: &Request<'_>) -> Result<BundleResponse, FetchError> {
        let sending = self
            .0
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone())
            .body(request.body.to_vec());
        let mut response = sending.send().await.map_err(|error| unreachable(&request.url, error))?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&request.url, error))? {
            if (body.len() + chunk.len()) as u64 > request.limit {
                let limit = request.limit;
                return Err(FetchError::Unacceptable(format!("exceeds the limit of {limit} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(BundleResponse {
            status: response.status(),
            headers: response.headers().clone(),
            body,
            url: request.url.clone(),
        })
    }

    /// Whether a server on this machine accepts TLS.
    pub(super) async fn speaks_tls(&self, url: &Url) -> bool {
        !matches!(self.0.get(url.clone()).send().await, Err(error) if error.is_connect())
    }
}

/// Downloads at most `limit` bytes from a URL, which must be `https` or on this machine.
///
/// # Errors
/// If the URL is another, or the server cannot be reached, refuses, or sends more.
pub(crate) async fn download(url: &str, limit: u64) -> anyhow::Result<Vec<u8>> {
    let url: Url = url.parse().context("is not a URL")?;
    anyhow::ensure!(url.scheme() == "https" || is_loopback(&url), "only https URLs are supported");
    let answer = Http::new(DOWNLOAD_TIMEOUT, None)?.send(Request::get(url, limit)).await?;
    if !answer.status.is_success() {
        return Err(answer.refusal("it cannot be downloaded").into());
    }
    Ok(answer.body)
}

fn unreachable(url: &Url, error: reqwest::Error) -> FetchError {
    let host = authority(url);
    FetchError::Unavailable(if error.is_timeout() {
        format!("{host} did not respond in time")
    } else {
        // The URL may be pre-signed, and thus a secret.
        format!("{host} cannot be reached: {}", reasons(&error.without_url()))
    })
}

/// Returns the host and port of a URL.
pub(super) fn authority(url: &Url) -> String {
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    format!("{}{port}", url.host_str().unwrap_or_default())
}

/// Returns a header value that is not shown when it is formatted; `None` if it is invalid.
pub(super) fn secret(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}
