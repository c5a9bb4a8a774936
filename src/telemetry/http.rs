//! Sends requests to a collector, by OTLP over HTTP, and retries them for a limited time.
//!
//! A failure is logged once, until sending succeeds again. Headers, and the parts of a URL that may be secret, are never
//! shown.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use flate2::{Compression, write::GzEncoder};
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use hyper::body::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use reqwest::{Client, Identity, Response, Url};
use tokio::{
    runtime::{self, Runtime},
    sync::watch,
    time::sleep,
};
use tracing::{info, warn};

use super::settings::OtlpTarget;
use crate::cluster::{
    backoff::Backoff,
    error::reasons,
    http_client::{self, RequestError, retry_after},
};

/// The delays between attempts, which end with the timeout of the signal.
const BACKOFF: Backoff = Backoff::between(Duration::from_secs(1), Duration::MAX);

/// Sends one signal. Blocks while it sends.
#[derive(Debug)]
pub(super) struct Sender {
    target: OtlpTarget,
    client: Client,
    /// A runtime of its own, since it still sends when that of the program has ended.
    runtime: Runtime,
    /// The deadline of the end of the program; `None` before the end has begun.
    ending: watch::Receiver<Option<Instant>>,
    /// Whether the last request failed.
    fails: AtomicBool,
}

impl Sender {
    /// Creates a sender for a target.
    ///
    /// # Errors
    /// If a file with certificates cannot be used.
    pub(super) fn new(target: OtlpTarget, ending: watch::Receiver<Option<Instant>>) -> anyhow::Result<Self> {
        let word = target.signal.word();
        let client = client(&target).with_context(|| format!("no OTLP {word} are sent"))?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { target, client, runtime, ending, fails: AtomicBool::new(false) })
    }

    /// Sends one request, and returns whether it was accepted. Logs only the first of consecutive failures.
    pub(super) fn send(&self, request: &impl Message) -> bool {
        let result = self.body(request).and_then(|body| self.runtime.block_on(self.deliver(body)));
        let fails = self.fails.swap(result.is_err(), Ordering::Relaxed);
        let (word, endpoint) = (self.target.signal.word(), shown(&self.target.url));
        match &result {
            Err(why) if !fails => warn!(endpoint, "OTLP {word} are not sent: {why}"),
            Ok(()) if fails => info!(endpoint, "OTLP {word} are sent again"),
            _ => {}
        }
        result.is_ok()
    }

    /// Encodes a request, and compresses it if that is configured.
    fn body(&self, request: &impl Message) -> Result<Bytes, String> {
        let body = request.encode_to_vec();
        if !self.target.gzip {
            return Ok(body.into());
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let compressed = io::Write::write_all(&mut encoder, &body).and_then(|()| encoder.finish());
        compressed.map(Bytes::from).map_err(|error| error.to_string())
    }

    /// Sends a body. Retries until an attempt succeeds or there is no time for another; at the end of the program there is
    /// time for one.
    async fn deliver(&self, body: Bytes) -> Result<(), String> {
        let until = Instant::now() + self.target.timeout;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let attempt = tokio::select! {
                attempt = self.attempt(body.clone()) => attempt,
                () = self.deadline_passed() => return Err("the collector did not respond before shutdown".to_owned()),
            };
            match attempt {
                Ok(()) => return Ok(()),
                Err(RequestError::Refused(why)) => return Err(why),
                Err(RequestError::Later(at_least, why)) => {
                    let wait = BACKOFF.with_jitter(attempts).max(at_least);
                    if self.ending.borrow().is_some() || Instant::now() + wait >= until {
                        return Err(why);
                    }
                    let mut ending = self.ending.clone();
                    // At the end of the program there is one more attempt, at once.
                    tokio::select! {
                        () = sleep(wait) => {}
                        _ = ending.wait_for(Option::is_some) => {}
                    }
                }
            }
        }
    }

    /// Waits until the deadline of the end of the program.
    async fn deadline_passed(&self) {
        let mut ending = self.ending.clone();
        let deadline = ending.wait_for(Option::is_some).await.ok().and_then(|deadline| *deadline);
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            // There will be no deadline: only the timeout of the signal bounds the request.
            None => std::future::pending().await,
        }
    }

    async fn attempt(&self, body: Bytes) -> Result<(), RequestError> {
        let OtlpTarget { url, headers, gzip, .. } = &self.target;
        let mut request = self.client.post(url.clone()).headers(headers.clone()).body(body);
        request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        if *gzip {
            request = request.header(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        match request.send().await {
            Ok(response) => classify(response).await,
            Err(error) if error.is_timeout() => {
                Err(RequestError::Later(Duration::ZERO, "no response in time".to_owned()))
            }
            Err(error) => Err(RequestError::Later(Duration::ZERO, reasons(&error.without_url()))),
        }
    }
}

/// Classifies a response as the OTLP specification requires.
async fn classify(response: Response) -> Result<(), RequestError> {
    let status = response.status();
    if status.is_success() {
        let body = response.bytes().await.unwrap_or_default();
        // The response for traces has the same fields.
        let partly = ExportMetricsServiceResponse::decode(body).ok().and_then(|decoded| decoded.partial_success);
        return match partly.map(|partly| partly.rejected_data_points) {
            Some(rejected @ 1..) => Err(RequestError::Refused(format!("the collector rejected {rejected} items"))),
            _ => Ok(()),
        };
    }
    // The body of the response is not shown: it may repeat the request.
    let why = format!("the collector responded with {status}");
    let retryable = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    if !retryable.contains(&status) {
        return Err(RequestError::Refused(why));
    }
    Err(RequestError::Later(retry_after(response.headers()), why))
}

fn client(target: &OtlpTarget) -> anyhow::Result<Client> {
    let mut builder = http_client::builder(target.timeout, target.ca_file.as_ref())?;
    if let Some((certificate, key)) = &target.identity {
        let pem = [http_client::pem(certificate)?, b"\n".to_vec(), http_client::pem(key)?].concat();
        let identity = Identity::from_pem(&pem).ok().with_context(|| {
            format!("{} and {} must be a certificate and its key in PEM format", certificate.display(), key.display())
        })?;
        builder = builder.identity(identity);
    }
    http_client::build(builder)
}

/// Returns a URL without the parts that may be secret: the user, the password and the query.
fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}
