//! Lists, whole or by page, at the current version or an earlier one.

use std::{ops::Range, sync::Arc};

use anyhow::anyhow;
use axum::{body::Bytes, response::Response};
use futures::{Stream, stream};
use serde_json::json;

use super::{
    Server,
    answer::{self, Query},
    counters::Flight,
    kinds::{Resource, Source},
    status::Refusal,
};

/// Objects that are written at a time.
const BLOCK: usize = 32;

/// A list, or a page of one.
struct Page {
    version: u32,
    slots: Range<u32>,
    /// The slots after the page.
    rest: Range<u32>,
    began_ms: u64,
}

/// Returns the response to a list request.
pub(crate) fn list(
    server: &Arc<Server>,
    resource: &'static Resource,
    namespace: Option<&str>,
    query: &Query,
    flight: Flight,
) -> Result<Response, Refusal> {
    let slots = match resource.source {
        Source::Made(kind) => server.objects.world.slots(kind, namespace),
        _ => 0..0,
    };
    if !slots.is_empty() && (query.has("labelSelector") || query.has("fieldSelector")) {
        return Err(Refusal::bad_request("the simulated API server does not support selectors"));
    }
    let page = page(server, slots, query)?;
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if !page.rest.is_empty() {
        metadata["continue"] = token(page.version, page.rest.start, page.began_ms).into();
        metadata["remainingItemCount"] = page.rest.len().into();
    }
    let kind = format!("{}List", resource.kind);
    let mut head =
        format!(r#"{{"kind":"{kind}","apiVersion":"{}","metadata":{metadata},"items":["#, resource.api_version());
    if resource.source == Source::Written {
        head.push_str(&server.written.items(resource.plural, namespace));
    }
    Ok(answer::streamed(blocks(server.clone(), head, page), flight, server.gzips(query)))
}

/// Returns the requested page.
fn page(server: &Server, slots: Range<u32>, query: &Query) -> Result<Page, Refusal> {
    let history = server.history();
    let limit = query.number("limit")?.unwrap_or(0) as usize;
    let asked = query.number("resourceVersion")?;
    let matching = query.get("resourceVersionMatch");
    let began_ms = server.milliseconds();
    if let Some(text) = query.get("continue").filter(|text| !text.is_empty()) {
        if matching.is_some() || asked.is_some_and(|version| version != 0) {
            return Err(Refusal::invalid("resourceVersionMatch and resourceVersion are forbidden with continue"));
        }
        let (version, start, began_ms) = parse_token(text).ok_or(Refusal::bad_request("continue key is not valid"))?;
        if version < history.oldest() || server.has_expired(began_ms) {
            return Err(Refusal::token_expired(token(history.latest(), start, server.milliseconds())));
        }
        return Ok(cut(&history, version, start.max(slots.start)..slots.end, limit, began_ms));
    }
    let exactly = |version: u32| {
        if version > history.latest() {
            Err(Refusal::too_large(version, history.latest()))
        } else if version < history.oldest() {
            Err(Refusal::expired(version, history.oldest()))
        } else {
            Ok(version)
        }
    };
    let (version, limit) = match (matching, asked) {
        (None, None) => (history.latest(), limit),
        // A real server answers from its watch cache, which ignores the limit.
        (None | Some("NotOlderThan"), Some(0)) => (history.latest(), 0),
        (Some("Exact"), Some(version)) if version > 0 => (exactly(version)?, limit),
        // Before there was `resourceVersionMatch`, a page was exact.
        (None, Some(version)) if limit > 0 => (exactly(version)?, limit),
        (None | Some("NotOlderThan"), Some(version)) => {
            exactly(version.max(history.oldest()))?;
            (history.latest(), limit)
        }
        _ => return Err(Refusal::invalid("resourceVersionMatch is not valid for this resourceVersion")),
    };
    Ok(cut(&history, version, slots, limit, began_ms))
}

/// Returns a page of at most `limit` objects; of all of them if `limit` is 0.
fn cut(history: &super::history::History, version: u32, slots: Range<u32>, limit: usize, began_ms: u64) -> Page {
    let mut end = slots.end;
    if limit > 0 {
        let mut alive = slots.clone().filter(|slot| history.at(*slot, version).is_some());
        end = alive.nth(limit).unwrap_or(end);
    }
    Page { version, slots: slots.start..end, rest: end..slots.end, began_ms }
}

/// Returns the JSON of a list, in blocks.
fn blocks(server: Arc<Server>, head: String, page: Page) -> impl Stream<Item = anyhow::Result<Bytes>> {
    let Page { version, slots, .. } = page;
    stream::try_unfold((server, head.into_bytes(), slots, true), move |(server, mut text, slots, first)| async move {
        if slots.is_empty() && !first && text.is_empty() {
            return Ok(None);
        }
        let (mut slots, mut comma) = (slots, !first);
        let mut objects = Vec::with_capacity(BLOCK);
        {
            let history = server.history();
            if version < history.oldest() {
                return Err(anyhow!("the version of the list has expired"));
            }
            let mut alive = slots.by_ref().filter_map(|slot| Some((slot, history.at(slot, version)?)));
            objects.extend(alive.by_ref().take(BLOCK));
        }
        text.reserve(objects.len() * 12_000);
        for (slot, stamps) in objects {
            if std::mem::replace(&mut comma, true) {
                text.push(b',');
            }
            server.objects.write(slot, stamps, stamps.version(), &mut text);
        }
        if slots.is_empty() {
            text.extend_from_slice(b"]}\n");
        }
        Ok(Some((Bytes::from(text), (server, Vec::new(), slots, false))))
    })
}

/// Returns a continue token.
fn token(version: u32, slot: u32, began_ms: u64) -> String {
    data_encoding::BASE64URL_NOPAD.encode(format!("{version}/{slot}/{began_ms}").as_bytes())
}

fn parse_token(token: &str) -> Option<(u32, u32, u64)> {
    let text = String::from_utf8(data_encoding::BASE64URL_NOPAD.decode(token.as_bytes()).ok()?).ok()?;
    let mut parts = text.split('/');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
