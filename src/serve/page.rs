//! What the servers of pages have in common: the style, the script, the headers, and the events that update open pages.

use std::convert::Infallible;

use axum::{
    Router,
    http::{HeaderMap, HeaderValue, header},
    response::{
        Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::get,
};
use futures::Stream;
use jiff::Timestamp;
use tokio_stream::StreamExt as _;

use super::connections::ConnectionClosing;
use crate::output::page::{SCRIPT, STYLE};

/// Content Security Policy of a page: only own resources, no inline script or style, no framing.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
                                 form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Returns the routes of the style and the script.
pub(super) fn assets<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/style.css", get(|| async { ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE) }))
        .route("/script.js", get(|| async { ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT) }))
}

/// Adds the security headers of a page.
pub(super) fn secured(mut response: Response) -> Response {
    let rules = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    response.headers_mut().extend(rules.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

/// Returns the revision that an open page has seen.
pub(super) fn seen(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

/// Returns the event `changed`, after which an open page reloads itself.
pub(super) fn changed(revision: u64) -> Event {
    let id = revision.to_string();
    Event::default().event("changed").id(&id).data(&id).retry(std::time::Duration::from_millis(500))
}

/// Returns the event `alive`, which says when the page was current.
pub(super) fn alive(at: Timestamp) -> Event {
    Event::default().event("alive").data(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Returns the response with events, which ends with the connection.
pub(super) fn events<E: Stream<Item = Event> + Send + 'static>(
    events: E,
    ConnectionClosing(closing): ConnectionClosing,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<E>> {
    let events = events.map(Ok);
    Sse::new(futures::StreamExt::take_until(events, closing.cancelled_owned())).keep_alive(KeepAlive::default())
}
