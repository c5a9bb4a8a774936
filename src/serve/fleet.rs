//! Serves the page of a fleet, its health and its metrics.
//!
//! The view of the fleet is in memory, so each request makes its page of the current view. Server-sent events announce
//! changes to open pages, less often if pages take long.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Extension, Router,
    body::Body,
    extract::{Query as UrlQuery, Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{Html, IntoResponse, Response, sse::Event},
    routing::get,
};
use futures::{Stream, StreamExt as _, stream};
use hyper::body::Bytes;
use jiff::Timestamp;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::{Instant, interval, sleep, sleep_until},
};
use tokio_stream::wrappers::{IntervalStream, ReceiverStream};
use tokio_util::sync::CancellationToken;

use super::{
    admin::Server,
    connections::{self, ConnectionClosing},
    host, page,
};
use crate::{
    blocking::spawn_blocking,
    fleet::{
        scope::FleetScope,
        view::{ClusterStatus, FleetView},
    },
    metrics::{
        self,
        fleet::{ClusterNumbers, FleetNumbers},
    },
    model::verdict::Severity,
    output::page::{FleetCache, FleetPage, PageQuery},
};

/// The pause between two announcements of changes: at least the first, and a multiple of the time that a page takes.
const REST: (Duration, u32) = (Duration::from_millis(200), 4);
/// The longest such pause.
const LONGEST_REST: Duration = Duration::from_secs(2);
/// How soon open pages show new heartbeats.
const HEARTBEATS: Duration = Duration::from_secs(15);
/// How often open pages learn that the server answers.
const ALIVE: Duration = Duration::from_secs(4);
/// A list of buckets that is older does not show that NATS answers: it is read every ten seconds.
const LISTED: Duration = Duration::from_secs(30);
/// How many pages are made at a time.
const AT_ONCE: usize = 2;
/// The bytes of a chunk of a file, and how many chunks wait until the client reads.
const CHUNK: (usize, usize) = (64 << 10, 4);

/// What is served.
#[derive(Clone)]
pub(crate) struct FleetSite {
    view: watch::Receiver<Arc<FleetView>>,
    scope: Arc<FleetScope>,
    cache: Arc<FleetCache>,
    permits: Arc<Semaphore>,
    /// How many milliseconds the last page took.
    took: Arc<AtomicU64>,
}

impl FleetSite {
    /// Serves the clusters in scope of a view that is kept up to date.
    pub(crate) fn new(view: watch::Receiver<Arc<FleetView>>, scope: FleetScope) -> Self {
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        Self { view, scope: Arc::new(scope), cache: Arc::default(), permits, took: Arc::default() }
    }

    /// Serves the page until `shutdown`, to everyone who can connect.
    pub(crate) async fn serve_page(self, server: Server, shutdown: CancellationToken) {
        tracing::info!(address = %server.address, "Serving the page");
        connections::serve(server.listener, self.pages(), shutdown).await;
    }

    /// Serves health and metrics until `shutdown`.
    pub(crate) async fn serve_health(self, server: Server, shutdown: CancellationToken) {
        tracing::info!(address = %server.address, "Serving health and metrics");
        connections::serve(server.listener, self.health(), shutdown).await;
    }

    fn pages(self) -> Router {
        Router::new()
            .route("/", get(show_page))
            .route("/events", get(events))
            .merge(page::assets())
            .layer(middleware::from_fn(guard))
            .with_state(self)
    }

    fn health(self) -> Router {
        Router::new()
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .route("/metrics", get(show_metrics))
            .with_state(self)
    }

    fn page(&self) -> FleetPage {
        let view = Arc::clone(&self.view.borrow());
        FleetPage::new(&view, &self.scope, Timestamp::now(), Arc::clone(&self.cache))
    }

    /// Returns the pause between two announcements of changes.
    fn rest(&self) -> Duration {
        let took = Duration::from_millis(self.took.load(Ordering::Relaxed));
        (took * REST.1).clamp(REST.0, LONGEST_REST)
    }
}

/// Rejects requests for other hosts, since everyone who can connect sees the page, and adds security headers.
async fn guard(request: Request, next: Next) -> Response {
    page::secured(host::only_loopback(request, next).await)
}

async fn show_page(State(site): State<FleetSite>, UrlQuery(query): UrlQuery<PageQuery>) -> Response {
    // The semaphore is never closed.
    let _permit = site.permits.acquire().await;
    let page = site.page();
    match query.format.as_deref() {
        Some("json") => file("application/json", move |out| page.write_json(&query, out)).await,
        Some("csv") => file("text/csv; charset=utf-8", move |out| page.write_csv(&query, out)).await,
        _ => {
            let began = Instant::now();
            let html = spawn_blocking(move || page.html(&query)).await;
            let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            site.took.store(took, Ordering::Relaxed);
            html.map_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response(), |html| Html(html).into_response())
        }
    }
}

/// Returns a response that is written while the client reads it. What fails before the first byte is the response.
async fn file(
    content_type: &'static str,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()> + Send + 'static,
) -> Response {
    let (sender, mut chunks) = mpsc::channel(CHUNK.1);
    drop(spawn_blocking(move || {
        let mut out = io::BufWriter::with_capacity(CHUNK.0, ChunkWriter(sender.clone()));
        let written = write(&mut out).and_then(|()| io::Write::flush(&mut out));
        if let Err(error) = written {
            // What is buffered must not end the response as if it were whole.
            drop(out.into_parts());
            // The client may be gone.
            let _gone = sender.blocking_send(Err(error));
        }
    }));
    match chunks.recv().await {
        Some(Err(error)) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{error}\n")).into_response(),
        first => {
            let body = Body::from_stream(stream::iter(first).chain(ReceiverStream::new(chunks)));
            ([(header::CONTENT_TYPE, content_type)], body).into_response()
        }
    }
}

/// Sends what is written as chunks of a response.
struct ChunkWriter(mpsc::Sender<io::Result<Bytes>>);

impl io::Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends an event `changed` whenever there is news for open pages, and `alive` as long as NATS answers.
async fn events(
    State(site): State<FleetSite>,
    Extension(closing): Extension<ConnectionClosing>,
    headers: HeaderMap,
) -> Response {
    let view = site.view.clone();
    let alive = IntervalStream::new(interval(ALIVE)).filter_map(move |_| {
        let at = listed_lately(&view.borrow(), Timestamp::now());
        async move { at.map(page::alive) }
    });
    page::events(stream::select(Box::pin(changes(site, page::seen(&headers))), Box::pin(alive)), closing)
        .into_response()
}

/// Returns when NATS listed the buckets, if it answers.
fn listed_lately(view: &FleetView, now: Timestamp) -> Option<Timestamp> {
    let at = view.listed_at.filter(|_| view.problem.is_empty())?;
    (now.duration_since(at).unsigned_abs() < LISTED).then_some(at)
}

/// Returns an event for each change after what the page has seen, in which several changes may be together, and for new
/// heartbeats from time to time.
fn changes(site: FleetSite, seen: Option<u64>) -> impl Stream<Item = Event> {
    let shown = ShownRevisions { values: seen, all: 0, at: Instant::now(), is_first: true };
    stream::unfold((site, shown), |(mut site, mut shown)| async move {
        if !shown.is_first {
            sleep(site.rest()).await;
        }
        loop {
            let (values, all) = {
                let view = site.view.borrow_and_update();
                (view.values_revision, view.revision)
            };
            let has_heartbeats = all != shown.all && !shown.is_first && shown.at.elapsed() >= HEARTBEATS;
            if shown.values != Some(values) || has_heartbeats {
                shown = ShownRevisions { values: Some(values), all, at: Instant::now(), is_first: false };
                return Some((page::changed(values), (site, shown)));
            }
            shown.is_first = false;
            tokio::select! {
                changed = site.view.changed() => if changed.is_err() { return None },
                () = sleep_until(shown.at + HEARTBEATS), if all != shown.all => {}
            }
        }
    })
}

/// What an open page shows.
struct ShownRevisions {
    values: Option<u64>,
    all: u64,
    at: Instant,
    /// Whether nothing was announced yet.
    is_first: bool,
}

async fn livez(State(site): State<FleetSite>) -> Response {
    if site.view.has_changed().is_err() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the buckets are not read any more\n").into_response();
    }
    "ok\n".into_response()
}

async fn readyz(State(site): State<FleetSite>) -> Response {
    let view = Arc::clone(&site.view.borrow());
    if view.is_read() {
        return "[+]buckets read\n".into_response();
    }
    let read = view.clusters.values().filter(|cluster| cluster.is_read).count();
    let why = if view.problem.is_empty() { String::new() } else { format!(": {}", view.problem) };
    let body = format!("[-]buckets: {read} of {} read{why}\n", view.clusters.len());
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

async fn show_metrics(State(site): State<FleetSite>) -> Response {
    let all = Arc::clone(&site.view.borrow());
    let (view, missing) = (all.within(&site.scope), all.missing(&site.scope).count());
    match spawn_blocking(move || numbers(&view, missing, Timestamp::now()).encode()).await {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Returns the numbers of a view at a time.
fn numbers(view: &FleetView, missing: usize, now: Timestamp) -> FleetNumbers {
    let statuses: Vec<ClusterStatus> = view.clusters.values().map(|cluster| cluster.status(now)).collect();
    let clusters =
        ClusterStatus::WORDS.map(|word| (word, statuses.iter().filter(|status| status.word() == word).count()));
    let of_cluster = view.clusters.values().zip(&statuses).map(|(cluster, status)| ClusterNumbers {
        name: Arc::clone(&cluster.name),
        violations: Severity::ALL.map(Severity::word).into_iter().chain([""]).zip(cluster.violations()).collect(),
        heartbeat: cluster.heartbeat(),
        complete: *status == ClusterStatus::Live,
    });
    FleetNumbers {
        clusters: clusters.into_iter().chain([("missing", missing)]).collect(),
        of_cluster: of_cluster.collect(),
        connected: listed_lately(view, now).is_some(),
    }
}

#[cfg(test)]
mod tests;
