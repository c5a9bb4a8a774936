//! Watches of the objects of a kind, in one namespace or in all, since a version.

use std::{ops::Range, sync::Arc, time::Duration};

use axum::{body::Bytes, response::Response};
use futures::{Stream, stream};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    Server,
    answer::{self, Query},
    counters::Flight,
    history::{Event, Step},
    kinds::{Resource, Source},
    status::Refusal,
};

/// Events that are written at a time.
const BLOCK: usize = 64;

/// An open watch.
struct Watch {
    server: Arc<Server>,
    /// The beginning of the JSON of each object, with its kind and `apiVersion`.
    types: String,
    slots: Range<u32>,
    /// The slots of existing objects that are still to be sent.
    initial: Range<u32>,
    /// The version up to which changes were sent.
    sent_up_to: u32,
    latest: watch::Receiver<u32>,
    ends: Instant,
    bookmarks: Option<Instant>,
    has_ended: bool,
}

/// Returns the response to a watch request.
pub(crate) fn watch(
    server: &Arc<Server>,
    resource: &'static Resource,
    namespace: Option<&str>,
    query: &Query,
    flight: Flight,
) -> Result<Response, Refusal> {
    if query.has("sendInitialEvents") {
        return Err(Refusal::invalid(
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        ));
    }
    let slots = match resource.source {
        Source::Made(kind) => server.objects.world.slots(kind, namespace),
        _ => 0..0,
    };
    if !slots.is_empty() && (query.has("labelSelector") || query.has("fieldSelector")) {
        return Err(Refusal::bad_request("the simulated API server does not support selectors"));
    }
    let asked = query.number("resourceVersion")?.filter(|version| *version > 0);
    let most = server.options.watch_seconds;
    let seconds = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0).map_or(most, |asked| asked.min(most));
    let latest = server.latest.subscribe();
    let version = *latest.borrow();
    let now = Instant::now();
    let watch = Watch {
        types: format!(r#"{{"kind":"{}","apiVersion":"{}""#, resource.kind, resource.api_version()),
        initial: if asked.is_none() { slots.clone() } else { 0..0 },
        slots,
        sent_up_to: asked.unwrap_or(version),
        latest,
        ends: now + Duration::from_secs(seconds.into()),
        bookmarks: query.is_true("allowWatchBookmarks").then_some(now),
        has_ended: false,
        server: server.clone(),
    };
    Ok(answer::streamed(lines(watch), flight, false))
}

fn lines(watch: Watch) -> impl Stream<Item = anyhow::Result<Bytes>> {
    stream::unfold(watch, |mut watch| async move { Some((Ok(watch.next().await?), watch)) })
}

impl Watch {
    /// Returns the next lines; `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        while !self.has_ended {
            if self.initial.is_empty() {
                self.send_changes(&mut out);
            } else {
                self.send_initial(&mut out);
            }
            if !out.is_empty() {
                return Some(out.into());
            }
            // There may be later versions that were not searched yet.
            if *self.latest.borrow_and_update() <= self.sent_up_to && self.wait(&mut out).await {
                return Some(out.into());
            }
        }
        None
    }

    /// Waits for the next change. Returns whether a bookmark is to be sent meanwhile, which it writes to `out`.
    async fn wait(&mut self, out: &mut Vec<u8>) -> bool {
        let bookmark = self.bookmarks.map_or(self.ends, |since| since + self.server.bookmarks_every());
        tokio::select! {
            changed = self.latest.changed() => self.has_ended |= changed.is_err(),
            () = sleep_until(self.ends.min(bookmark)) => {
                self.has_ended = Instant::now() >= self.ends;
                if self.bookmarks.is_some() {
                    self.bookmarks = Some(Instant::now());
                    let metadata = json!({"resourceVersion": self.sent_up_to.to_string(), "creationTimestamp": null});
                    let line = format!("{{\"type\":\"BOOKMARK\",\"object\":{},\"metadata\":{metadata}}}}}\n", self.types);
                    out.extend_from_slice(line.as_bytes());
                    return true;
                }
            }
        }
        false
    }

    /// Writes objects that existed when the watch began.
    fn send_initial(&mut self, out: &mut Vec<u8>) {
        let server = self.server.clone();
        let Some(objects) = ({
            let history = server.history();
            (self.sent_up_to >= history.oldest()).then(|| {
                let alive = self.initial.by_ref().filter_map(|slot| Some((slot, history.at(slot, self.sent_up_to)?)));
                alive.take(BLOCK).collect::<Vec<_>>()
            })
        }) else {
            return self.expired(out);
        };
        for (slot, stamps) in objects {
            self.line("ADDED", out, |types, out| {
                server.objects.write_whole(slot, stamps, stamps.version(), types, out);
            });
        }
    }

    /// Writes changes since then.
    fn send_changes(&mut self, out: &mut Vec<u8>) {
        let server = self.server.clone();
        let since = server.history().since(self.sent_up_to, &self.slots, BLOCK);
        let Some((events, upto)) = since else { return self.expired(out) };
        self.sent_up_to = self.sent_up_to.max(upto);
        for Event { version, slot, step, stamps } in events {
            let name = match step {
                Step::Create => "ADDED",
                Step::Spec | Step::Status => "MODIFIED",
                Step::Delete => "DELETED",
            };
            self.line(name, out, |types, out| server.objects.write_whole(slot, stamps, version, types, out));
        }
    }

    fn line(&self, event: &str, out: &mut Vec<u8>, object: impl FnOnce(&str, &mut Vec<u8>)) {
        out.extend_from_slice(format!("{{\"type\":\"{event}\",\"object\":").as_bytes());
        object(&self.types, out);
        out.extend_from_slice(b"}\n");
    }

    /// Writes an error, as the version is no longer kept, and ends the watch.
    fn expired(&mut self, out: &mut Vec<u8>) {
        let refusal = Refusal::expired(self.sent_up_to, self.server.history().oldest()).status();
        out.extend_from_slice(format!("{{\"type\":\"ERROR\",\"object\":{refusal}}}\n").as_bytes());
        self.has_ended = true;
    }
}
