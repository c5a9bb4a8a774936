//! Watches: what happens to the objects of a kind, and of a namespace, since a version.

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

/// A watch while it is open.
struct Watch {
    server: Arc<Server>,
    /// What every object begins with: its kind.
    types: String,
    slots: Range<u32>,
    /// The objects that it still has to tell of as they were when it began.
    initial: Range<u32>,
    /// Up to which version it has told what happened.
    told: u32,
    latest: watch::Receiver<u32>,
    ends: Instant,
    bookmarks: Option<Instant>,
    over: bool,
}

/// Answers a watch.
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
        return Err(Refusal::bad_request("the simulated API server knows no selectors"));
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
        told: asked.unwrap_or(version),
        latest,
        ends: now + Duration::from_secs(seconds.into()),
        bookmarks: query.is_true("allowWatchBookmarks").then_some(now),
        over: false,
        server: server.clone(),
    };
    Ok(answer::streamed(lines(watch), flight, false))
}

fn lines(watch: Watch) -> impl Stream<Item = anyhow::Result<Bytes>> {
    stream::unfold(watch, |mut watch| async move { Some((Ok(watch.next().await?), watch)) })
}

impl Watch {
    /// Returns the next lines; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        while !self.over {
            if self.initial.is_empty() {
                self.happened(&mut out);
            } else {
                self.found(&mut out);
            }
            if !out.is_empty() {
                return Some(out.into());
            }
            // There may be more that was not searched yet.
            if *self.latest.borrow_and_update() <= self.told && self.wait(&mut out).await {
                return Some(out.into());
            }
        }
        None
    }

    /// Waits for what happens next. Returns whether there is a bookmark to be sent meanwhile.
    async fn wait(&mut self, out: &mut Vec<u8>) -> bool {
        let bookmark = self.bookmarks.map_or(self.ends, |since| since + self.server.bookmarks_every());
        tokio::select! {
            changed = self.latest.changed() => self.over |= changed.is_err(),
            () = sleep_until(self.ends.min(bookmark)) => {
                self.over = Instant::now() >= self.ends;
                if self.bookmarks.is_some() {
                    self.bookmarks = Some(Instant::now());
                    let metadata = json!({"resourceVersion": self.told.to_string(), "creationTimestamp": null});
                    let line = format!("{{\"type\":\"BOOKMARK\",\"object\":{},\"metadata\":{metadata}}}}}\n", self.types);
                    out.extend_from_slice(line.as_bytes());
                    return true;
                }
            }
        }
        false
    }

    /// Writes objects as they were when it began.
    fn found(&mut self, out: &mut Vec<u8>) {
        let server = self.server.clone();
        let Some(objects) = ({
            let history = server.history();
            (self.told >= history.oldest()).then(|| {
                let alive = self.initial.by_ref().filter_map(|slot| Some((slot, history.at(slot, self.told)?)));
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

    /// Writes what happened since.
    fn happened(&mut self, out: &mut Vec<u8>) {
        let server = self.server.clone();
        let since = server.history().since(self.told, &self.slots, BLOCK);
        let Some((events, upto)) = since else { return self.expired(out) };
        self.told = self.told.max(upto);
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

    /// Says that what it would have to tell is not known any more.
    fn expired(&mut self, out: &mut Vec<u8>) {
        let refusal = Refusal::expired(self.told, self.server.history().oldest()).status();
        out.extend_from_slice(format!("{{\"type\":\"ERROR\",\"object\":{refusal}}}\n").as_bytes());
        self.over = true;
    }
}
