//! The page over HTTP, from a result that is kept while somebody looks.
//!
//! A request costs the pipeline nothing: [`follow`] asks it for the result when that has changed, never while nobody looks,
//! and for a large one seldom. Who has the page open learns by server-sent events that there is a newer one.
//!
//! The page names objects and has the messages of violations. It is served on loopback only, to browsers that ask for
//! loopback: a name of another site that leads here (DNS rebinding) is refused.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Query as UrlQuery, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{
        Html, IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::get,
};
use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{admin::Server, connections};
use crate::{
    audit::{
        command::{Command, ResultQuery, Snapshot},
        overview::{Overview, Progress},
    },
    output::page::{About, Page, Query, SCRIPT, STYLE},
};

/// How long the result is kept up to date after the last request.
const INTEREST: Duration = Duration::from_secs(60);
/// The least time between two results, and how many times as long as making one takes.
const REST: (Duration, u32) = (Duration::from_millis(50), 4);
/// How often the page is made while lists are read or objects wait.
const UNSETTLED: Duration = Duration::from_millis(500);
/// How long the first result may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long events are sent over one connection, which is shorter than connections live.
const EVENTS: Duration = Duration::from_secs(50);
/// What a page may load and do: nothing from elsewhere, no inline script or style, no frame around it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action \
                      'self'; base-uri 'none'; frame-ancestors 'none'";

/// What the page is made from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Answers with the result.
    pub pipeline: mpsc::Sender<Command>,
    /// How far the initial sync is.
    pub progress: watch::Receiver<Progress>,
    /// Changes with the result; names the policies, and what is wrong with them.
    pub overview: watch::Receiver<Option<Arc<Overview>>>,
}

/// A page and the revision of its result.
type Kept = Option<(u64, Arc<Page>)>;

#[derive(Debug, Clone)]
struct Ui {
    kept: watch::Receiver<Kept>,
    /// When somebody asked last.
    asked: watch::Sender<Option<Instant>>,
}

/// Serves the page until `shutdown`.
pub async fn serve(server: Server, sources: Sources, shutdown: CancellationToken) {
    tracing::info!(address = %server.address, "Serving the page");
    let (keep, kept) = watch::channel(None);
    let (asked, interest) = watch::channel(None);
    let following = follow(sources, interest, keep);
    let serving = connections::serve(server.listener, router(Ui { kept, asked }), shutdown);
    tokio::select! {
        () = serving => {}
        () = following => {}
    }
}

fn router(ui: Ui) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .route("/style.css", get(|| async { ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE) }))
        .route("/script.js", get(|| async { ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT) }))
        .with_state(ui)
        .layer(middleware::from_fn(guard))
}

/// Refuses requests for other hosts, and has browsers keep to the page.
async fn guard(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_loopback) {
        let why = "This page is for http://localhost and http://127.0.0.1, for example by kubectl port-forward.\n";
        return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    let mut response = next.run(request).await;
    let rules = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    response.headers_mut().extend(rules.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

/// Whether a `Host` header names this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

async fn page(State(ui): State<Ui>, UrlQuery(query): UrlQuery<Query>) -> Response {
    let Some(page) = ui.latest().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the pipeline does not answer\n").into_response();
    };
    let answer = spawn_blocking(move || match query.format.as_deref() {
        Some("json") => match page.json(&query) {
            Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        },
        _ => Html(page.html(&query)).into_response(),
    });
    answer.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Says at once that there is another page than the one that the client has seen, and then whenever there is.
async fn events(State(ui): State<Ui>, headers: HeaderMap) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let seen: Option<u64> = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
    let changes = stream::unfold((ui, seen), |(ui, seen)| async move {
        let mut kept = ui.kept.clone();
        loop {
            ui.asked.send_replace(Some(Instant::now()));
            let newer = kept.wait_for(|kept| kept.as_ref().is_some_and(|(revision, _)| Some(*revision) != seen));
            match timeout(INTEREST / 2, newer).await {
                Ok(Ok(kept)) => {
                    let revision = kept.as_ref().map(|(revision, _)| *revision);
                    drop(kept);
                    let id = revision.unwrap_or_default().to_string();
                    let event = Event::default().event("changed").id(&id).data(&id).retry(Duration::from_millis(500));
                    return Some((Ok(event), (ui, revision)));
                }
                Ok(Err(_)) => return None,
                Err(_) => {}
            }
        }
    });
    Sse::new(changes.take_until(sleep(EVENTS))).keep_alive(KeepAlive::default())
}

impl Ui {
    /// Returns the newest page; `None` if there is none in time.
    async fn latest(&self) -> Option<Arc<Page>> {
        self.asked.send_replace(Some(Instant::now()));
        let mut kept = self.kept.clone();
        let kept = timeout(PATIENCE, kept.wait_for(Option::is_some)).await.ok()?.ok()?;
        kept.as_ref().map(|(_, page)| Arc::clone(page))
    }
}

/// Keeps the page up to date while somebody looks, until the pipeline is gone.
async fn follow(mut sources: Sources, mut interest: watch::Receiver<Option<Instant>>, keep: watch::Sender<Kept>) {
    let began = Timestamp::now();
    let mut known = None;
    loop {
        let looked_at = |asked: &Option<Instant>| asked.is_some_and(|at| at.elapsed() < INTEREST);
        if interest.wait_for(looked_at).await.is_err() {
            return;
        }
        let start = Instant::now();
        let settled = sources.progress.borrow().is_settled();
        sources.overview.mark_unchanged();
        // Until then what is left to do changes, and perhaps not the result.
        match sources.ask(known.filter(|_| settled)).await {
            Some(Some(snapshot)) => {
                let (revision, about) = (snapshot.revision, sources.about(began));
                let page = spawn_blocking(move || Page::new(&snapshot.result, about)).await;
                let Ok(page) = page else { return };
                known = settled.then_some(revision);
                keep.send_replace(Some((revision, Arc::new(page))));
            }
            Some(None) => {}
            None => return,
        }
        sleep((start.elapsed() * REST.1).max(REST.0)).await;
        let idle_at = interest.borrow().map_or(start, |at| at + INTEREST);
        tokio::select! {
            changed = sources.overview.changed() => if changed.is_err() { return },
            () = sleep(UNSETTLED), if !settled => {}
            () = sleep_until(idle_at) => if !interest.borrow().as_ref().is_some_and(|at| at.elapsed() < INTEREST) {
                known = None;
                keep.send_replace(None);
            },
        }
    }
}

impl Sources {
    /// Asks for what is newer than a revision.
    async fn ask(&self, known: Option<u64>) -> Option<Option<Snapshot>> {
        let (answer, received) = oneshot::channel();
        self.pipeline.send(Command::Result(ResultQuery { known, answer })).await.ok()?;
        received.await.ok()
    }

    fn about(&self, began: Timestamp) -> About {
        let Progress { open, scopes_done, scopes, queue, .. } = self.progress.borrow().clone();
        let overview = self.overview.borrow().clone();
        let mut about = About {
            at: Timestamp::now(),
            began,
            syncing: (!open).then_some((scopes_done, scopes)),
            waiting: queue,
            policies: String::new(),
            problems: Vec::new(),
        };
        if let Some(overview) = overview {
            about.policies = overview.policies.digest.to_string();
            let error = overview.policy_error.as_ref().map(|error| format!("newer policies are not in force: {error}"));
            let inventory = Some(&overview.inventory_error).filter(|error| !error.is_empty()).cloned();
            about.problems = error.into_iter().chain(inventory).collect();
        }
        about
    }
}
