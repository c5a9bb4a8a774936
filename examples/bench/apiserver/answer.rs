//! Parses requests, and streams responses.

use std::{collections::BTreeMap, io::Write};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use futures::{Stream, TryStreamExt, stream};
use percent_encoding::percent_decode_str;

use super::{counters::Flight, status::Refusal};

/// The parameters of a request.
#[derive(Debug)]
pub(crate) struct Query {
    parameters: BTreeMap<String, String>,
    /// Whether the client accepts gzip.
    pub(crate) gzip: bool,
}

impl Query {
    pub(crate) fn new(query: &str, headers: &HeaderMap) -> Self {
        let text = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let parameters = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (text(name), text(value))
        });
        let encodings = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Self { parameters: parameters.collect(), gzip: encodings.contains("gzip") }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// Whether a parameter exists and is not empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.is_empty())
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }

    /// Returns a parameter as a number; `None` if it does not exist or is empty.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u32>, Refusal> {
        let text = self.get(name).filter(|text| !text.is_empty());
        text.map(|text| text.parse().map_err(|_| Refusal::bad_request(format!("{name} {text:?} is not a number"))))
            .transpose()
    }
}

/// Whether a client accepts JSON other than a `Table`.
pub(crate) fn takes_json(headers: &HeaderMap) -> bool {
    let Some(accept) = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()) else { return true };
    accept.split(',').any(|range| {
        let (media, parameters) = range.split_once(';').unwrap_or((range, ""));
        matches!(media.trim(), "application/json" | "application/*" | "*/*") && !parameters.contains("as=")
    })
}

/// Returns a response of unknown length; the request is in flight until its end.
pub(crate) fn streamed(
    blocks: impl Stream<Item = anyhow::Result<Bytes>> + Send + 'static,
    flight: Flight,
    gzip: bool,
) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    let count = move |block: &Bytes| flight.sends(block.len());
    if gzip {
        headers.insert(header::CONTENT_ENCODING, header::HeaderValue::from_static("gzip"));
        return (headers, Body::from_stream(compressed(blocks).inspect_ok(count))).into_response();
    }
    (headers, Body::from_stream(blocks.inspect_ok(count))).into_response()
}

/// Compresses a response at the fastest level, as kube-apiserver does.
fn compressed(
    blocks: impl Stream<Item = anyhow::Result<Bytes>> + Send + 'static,
) -> impl Stream<Item = anyhow::Result<Bytes>> + Send {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    stream::try_unfold((Box::pin(blocks), Some(encoder)), |(mut blocks, encoder)| async move {
        let Some(mut encoder) = encoder else { return Ok(None) };
        while let Some(block) = blocks.try_next().await? {
            encoder.write_all(&block)?;
            if !encoder.get_ref().is_empty() {
                let done = std::mem::take(encoder.get_mut());
                return Ok(Some((done.into(), (blocks, Some(encoder)))));
            }
        }
        Ok(Some((encoder.finish()?.into(), (blocks, None))))
    })
}
