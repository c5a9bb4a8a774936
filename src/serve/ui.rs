//! Serves the page, with a result that is kept up to date while the page is used.
//!
//! Requests do not query the pipeline: [`follow`] fetches the result when it has changed, immediately after a quiet
//! period, less often if it is large, and never while the page is not used. Server-sent events announce newer versions
//! to open pages.
//!
//! The page names objects and contains the messages of violations. Readers must [authenticate](PageAccess), or the page
//! is served on loopback only, to requests that name a loopback host: others could come from a website whose name
//! resolves to loopback (DNS rebinding).

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{Query as UrlQuery, Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{Html, IntoResponse, Response, sse::Event},
    routing::get,
};
use futures::Stream;
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, interval, sleep, sleep_until, timeout},
};
use tokio_stream::{StreamExt as _, wrappers::WatchStream};
use tokio_util::sync::CancellationToken;

use super::{
    access::{AccessSettings, Denied, PageAccess, PageReader},
    admin::Server,
    connections::{self, ConnectionClosing},
    host, page,
    session::{self, Sessions},
};
use crate::{
    audit::{
        command::{Command, ask},
        history::History,
        overview::{Overview, Progress},
    },
    blocking::spawn_blocking,
    output::page::{Page, PageContext, PageQuery},
};

/// How long the result is kept up to date after the last request.
const INTEREST: Duration = Duration::from_mins(1);
/// The pause between two results: at least the first, and a multiple of the time that the last one took.
const REST: (Duration, u32) = (Duration::from_millis(50), 4);
/// The longest such pause: the pipeline may have answered late because it was busy.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// How long to wait after a change for related ones, for example when a violation moves from one Pod to another.
const TOGETHER: Duration = Duration::from_millis(20);
/// How often the page is updated during the initial sync and while objects wait for evaluation.
const UNSETTLED: Duration = Duration::from_millis(500);
/// How often the pipeline is asked whether the page is current; a page that does not learn of it counts as lost.
const HEARTBEAT: Duration = Duration::from_secs(4);
/// Timeout for the first result.
const PATIENCE: Duration = Duration::from_secs(10);
/// The data sources of the page.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The name of the cluster; empty if it has none.
    pub cluster: Arc<str>,
    /// The pipeline, which returns the result.
    pub pipeline: mpsc::Sender<Command>,
    /// Progress of the initial sync.
    pub progress: watch::Receiver<Progress>,
    /// The policies and their problems; changes, with a delay, on every change of the result.
    pub overview: watch::Receiver<Option<Arc<Overview>>>,
    /// The counts of each day.
    pub history: watch::Receiver<Arc<History>>,
    /// Notifies as soon as a violation is new or resolved.
    pub delta_recorded: watch::Receiver<()>,
}

/// The current page and the revision of its result.
type KeptPage = Option<(u64, Arc<Page>)>;

#[derive(Clone)]
struct Ui {
    kept: watch::Receiver<KeptPage>,
    /// When the pipeline confirmed that the page is current.
    confirmed: watch::Receiver<Timestamp>,
    /// When the last request arrived.
    viewed: watch::Sender<Option<Instant>>,
    /// Access control; without it everyone sees everything.
    access: Option<Arc<PageAccess>>,
    sessions: Arc<Sessions>,
}

/// Serves the page until `shutdown`, to everyone or to those whom `access` allows.
pub async fn serve(server: Server, sources: Sources, access: Option<AccessSettings>, shutdown: CancellationToken) {
    tracing::info!(address = %server.address, "Serving the page");
    let (keep, kept) = watch::channel(None);
    let (viewed, interest) = watch::channel(None);
    let (confirm, confirmed) = watch::channel(Timestamp::now());
    let following = follow(sources, interest, keep, confirm);
    let access = access.map(|settings| Arc::new(PageAccess::new(settings)));
    let Some(sessions) = Sessions::new().map(Arc::new) else {
        tracing::error!("The page is not served: the system has no random numbers");
        return;
    };
    let serving =
        connections::serve(server.listener, router(Ui { kept, confirmed, viewed, access, sessions }), shutdown);
    tokio::select! {
        () = serving => {}
        () = following => {}
    }
}

fn router(ui: Ui) -> Router {
    Router::new()
        .route("/", get(show_page))
        .route("/events", get(events))
        .merge(page::assets())
        .merge(session::routes(ui.access.clone(), Arc::clone(&ui.sessions)))
        .layer(middleware::from_fn_with_state(ui.clone(), guard))
        .with_state(ui)
}

/// Rejects requests for other hosts if there is no access control, and adds security headers.
async fn guard(State(ui): State<Ui>, request: Request, next: Next) -> Response {
    if ui.access.is_none() && !host::names_loopback(request.headers()) {
        return host::misdirected();
    }
    page::secured(next.run(request).await)
}

async fn show_page(State(ui): State<Ui>, UrlQuery(query): UrlQuery<PageQuery>, headers: HeaderMap) -> Response {
    // A fleet has clusters; this is one.
    let query = PageQuery { cluster: None, label: None, ..query };
    let reader = match ui.reader(&headers).await {
        Ok(reader) => reader,
        Err(denied) => return session::refuse(&denied, &query),
    };
    let Some(page) = ui.latest().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the pipeline does not respond\n").into_response();
    };
    let seen = match (&ui.access, &reader) {
        (Some(access), Some(reader)) => access.visible(reader, page.places()).await,
        _ => Ok(None),
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(denied) => return session::refuse(&denied, &query),
    };
    let answer = spawn_blocking(move || {
        let page = match seen {
            Some(seen) => Arc::new(page.restricted_to(&seen)),
            None => page,
        };
        match query.format.as_deref() {
            Some("json") => match page.json(&query) {
                Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
            },
            Some(format @ ("csv" | "history")) => {
                match if format == "csv" { page.csv(&query) } else { page.history_csv() } {
                    Ok(csv) => ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], csv).into_response(),
                    Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
                }
            }
            _ => Html(page.html(&query, reader.as_deref().map(PageReader::name))).into_response(),
        }
    });
    answer.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Sends an event `changed` if the page is newer than the one that the client has seen, and then on each update; and an event
/// `alive` with the time whenever the pipeline confirms that the page is current.
async fn events(
    State(ui): State<Ui>,
    Extension(closing): Extension<ConnectionClosing>,
    headers: HeaderMap,
) -> Response {
    match ui.reader(&headers).await {
        Ok(_) => page::events(changes(ui, &headers), closing).into_response(),
        Err(denied) => session::refuse(&denied, &PageQuery::default()),
    }
}

fn changes(ui: Ui, headers: &HeaderMap) -> impl Stream<Item = Event> + use<> {
    let seen = page::seen(headers);
    let newer = WatchStream::new(ui.kept.clone())
        .filter_map(|kept| kept.map(|(revision, _)| revision))
        .skip_while(move |revision| Some(*revision) == seen);
    // While the stream is open, the page is viewed.
    let events = newer.timeout_repeating(interval(INTEREST / 2)).filter_map(move |revision| {
        ui.viewed.send_replace(Some(Instant::now()));
        Some(page::changed(revision.ok()?))
    });
    events.merge(WatchStream::from_changes(ui.confirmed.clone()).map(page::alive))
}

impl Ui {
    /// Returns the authenticated reader; `None` without access control.
    async fn reader(&self, headers: &HeaderMap) -> Result<Option<Arc<PageReader>>, Denied> {
        let Some(access) = &self.access else { return Ok(None) };
        let token = self.sessions.token(headers).ok_or(Denied::Unknown)?;
        access.reader(&token).await.map(Some)
    }

    /// Returns the current page; `None` if there is none in time.
    async fn latest(&self) -> Option<Arc<Page>> {
        self.viewed.send_replace(Some(Instant::now()));
        let mut kept = self.kept.clone();
        let kept = timeout(PATIENCE, kept.wait_for(Option::is_some)).await.ok()?.ok()?;
        kept.as_ref().map(|(_, page)| Arc::clone(page))
    }
}

/// Keeps the page up to date while it is used, until the pipeline stops.
async fn follow(
    mut sources: Sources,
    mut interest: watch::Receiver<Option<Instant>>,
    keep: watch::Sender<KeptPage>,
    confirm: watch::Sender<Timestamp>,
) {
    let began = Timestamp::now();
    let mut known = None;
    loop {
        let is_used = |viewed: &Option<Instant>| viewed.is_some_and(|at| at.elapsed() < INTEREST);
        if !is_used(&interest.borrow()) {
            known = None;
            keep.send_replace(None);
        }
        if interest.wait_for(is_used).await.is_err() {
            return;
        }
        let start = Instant::now();
        let settled = sources.progress.borrow().is_settled();
        sources.overview.mark_unchanged();
        sources.delta_recorded.mark_unchanged();
        // Until the run is settled, the progress changes even if the result does not.
        match ask(&sources.pipeline, known.filter(|_| settled)).await {
            Some(Some(snapshot)) => {
                let (revision, context) = (snapshot.revision, sources.context(began, snapshot.changed));
                let page = spawn_blocking(move || Page::new(snapshot.result, context)).await;
                let Ok(page) = page else { return };
                known = settled.then_some(revision);
                keep.send_replace(Some((revision, Arc::new(page))));
            }
            Some(None) => {}
            None => return,
        }
        confirm.send_replace(Timestamp::now());
        sleep((start.elapsed() * REST.1).clamp(REST.0, LONGEST_REST)).await;
        let idle_at = interest.borrow().map_or(start, |at| at + INTEREST);
        tokio::select! {
            changed = sources.delta_recorded.changed() => {
                if changed.is_err() {
                    return;
                }
                sleep(TOGETHER).await;
            }
            changed = sources.overview.changed() => if changed.is_err() { return },
            () = sleep(UNSETTLED), if !settled => {}
            () = sleep(HEARTBEAT) => {}
            () = sleep_until(idle_at) => {}
        }
    }
}

impl Sources {
    fn context(&self, began: Timestamp, changed: Option<Timestamp>) -> PageContext {
        let Progress { open, scopes_done, scopes, queue, .. } = self.progress.borrow().clone();
        let overview = self.overview.borrow().clone();
        let mut context = PageContext {
            cluster: Arc::clone(&self.cluster),
            at: Timestamp::now(),
            began,
            changed,
            syncing: (!open).then_some((scopes_done, scopes)),
            waiting: queue,
            policies: String::new(),
            policies_since: None,
            outdated: None,
            history: Arc::clone(&self.history.borrow()),
            problems: Vec::new(),
        };
        if let Some(overview) = overview {
            // Objects whose evaluation has begun do not wait any more.
            context.waiting = context.waiting.max(usize::from(!overview.evaluated));
            context.policies = overview.policies.digest.to_string();
            context.policies_since = overview.policies_since;
            let error = overview.policy_error.as_ref().map(|error| format!("newer policies are not in force: {error}"));
            let inventory = Some(&overview.inventory_error).filter(|error| !error.is_empty()).cloned();
            context.problems = error.into_iter().chain(inventory).collect();
        }
        context
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt as _;
    use tokio::{task::JoinHandle, time::advance};
    use tower::ServiceExt as _;

    use super::*;
    use crate::audit::{
        command::{ResultQuery, Snapshot},
        result::AuditResult,
    };

    /// A pipeline whose number of evaluated objects equals its number of queries that found a newer result.
    struct QueriedPipeline {
        progress: watch::Sender<Progress>,
        overview: watch::Sender<Option<Arc<Overview>>>,
        delta_recorded: watch::Sender<()>,
        queries: watch::Receiver<usize>,
        _answering: JoinHandle<()>,
    }

    fn pipeline() -> (QueriedPipeline, Sources) {
        busy_pipeline(Duration::ZERO)
    }

    /// Starts a pipeline that answers each query after this time.
    fn busy_pipeline(busy: Duration) -> (QueriedPipeline, Sources) {
        let (sender, mut commands) = mpsc::channel(1);
        let progress = watch::Sender::new(Progress { open: true, ..Progress::default() });
        let (overview, delta_recorded) = (watch::Sender::new(None), watch::Sender::default());
        let (count, queries) = watch::channel(0);
        let (mut overview_changed, mut delta_changed) = (overview.subscribe(), delta_recorded.subscribe());
        let answering = tokio::spawn(async move {
            while let Some(Command::Result(ResultQuery { known, answer })) = commands.recv().await {
                sleep(busy).await;
                let is_new = overview_changed.has_changed().is_ok_and(|new| new)
                    | delta_changed.has_changed().is_ok_and(|new| new);
                overview_changed.mark_unchanged();
                delta_changed.mark_unchanged();
                if known.is_some() && !is_new {
                    assert!(answer.send(None).is_ok());
                    continue;
                }
                count.send_modify(|queries| *queries += 1);
                let objects = *count.borrow();
                let revision = objects as u64;
                assert_ne!(known, Some(revision));
                let result = AuditResult::sample(objects);
                assert!(answer.send(Some(Snapshot { revision, changed: None, result })).is_ok());
            }
        });
        let (progress_of, overview_of, delta_recorded_of) =
            (progress.subscribe(), overview.subscribe(), delta_recorded.subscribe());
        let sources = Sources {
            cluster: "prod".into(),
            pipeline: sender,
            progress: progress_of,
            overview: overview_of,
            history: watch::channel(Arc::default()).1,
            delta_recorded: delta_recorded_of,
        };
        (QueriedPipeline { progress, overview, delta_recorded, queries, _answering: answering }, sources)
    }

    /// Starts the page's state and its updates.
    fn ui(sources: Sources) -> (Ui, JoinHandle<()>) {
        let (keep, kept) = watch::channel(None);
        let (viewed, interest) = watch::channel(None);
        let (confirm, confirmed) = watch::channel(Timestamp::UNIX_EPOCH);
        let sessions = Arc::new(Sessions::new().unwrap());
        let following = tokio::spawn(follow(sources, interest, keep, confirm));
        (Ui { kept, confirmed, viewed, access: None, sessions }, following)
    }

    async fn ask(ui: &Ui, host: &str, path: &str) -> (StatusCode, HeaderMap, String) {
        let request = Request::builder().uri(path).header(header::HOST, host).body(Body::empty()).unwrap();
        let (head, body) = router(ui.clone()).oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn requests_do_not_query_the_pipeline() {
        let (pipeline, sources) = pipeline();
        let (ui, _following) = ui(sources);
        for _ in 0..20 {
            let (status, headers, html) = ask(&ui, "localhost:8082", "/").await;
            assert!(status == StatusCode::OK && html.contains("in 1 object</span>"), "{html}");
            assert_eq!(headers[header::CONTENT_SECURITY_POLICY], page::POLICY);
        }
        assert_eq!(*pipeline.queries.borrow(), 1);
        // A form sends all its fields, including empty ones.
        for path in ["/style.css", "/script.js", "/?format=json&q=&namespace="] {
            assert_eq!(ask(&ui, "127.0.0.1", path).await.0, StatusCode::OK, "{path}");
        }
        assert_eq!(ask(&ui, "127.0.0.1", "/status").await.0, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn only_requests_for_loopback_hosts_are_answered() {
        let (_pipeline, sources) = pipeline();
        let (ui, _following) = ui(sources);
        for host in ["localhost", "localhost:8082", "127.0.0.1:1", "[::1]:8082", "[::1]"] {
            assert_eq!(ask(&ui, host, "/").await.0, StatusCode::OK, "{host}");
        }
        for host in ["kaudit.example.com", "localhost.example.com:80", "127.0.0.1.example.com", "10.0.0.1:8082", ""] {
            assert_eq!(ask(&ui, host, "/").await.0, StatusCode::MISDIRECTED_REQUEST, "{host}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_page_is_not_updated_without_requests() {
        let (mut pipeline, sources) = pipeline();
        let (ui, following) = ui(sources);
        pipeline.overview.send_replace(None);
        advance(INTEREST).await;
        assert_eq!(*pipeline.queries.borrow_and_update(), 0);
        assert!(ui.latest().await.is_some());
        // Each change of the result updates the page.
        for queries in 2..5 {
            pipeline.overview.send_replace(None);
            assert_eq!(*pipeline.queries.wait_for(|count| *count == queries).await.unwrap(), queries);
        }
        let mut kept = ui.kept.clone();
        kept.wait_for(Option::is_none).await.unwrap();
        pipeline.overview.send_replace(None);
        advance(INTEREST).await;
        assert_eq!(*pipeline.queries.borrow(), 4);
        assert!(ui.latest().await.is_some(), "the page is used again");
        drop(pipeline);
        drop(ui);
        following.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_change_after_a_quiet_period_shows_at_once_and_bursts_together() {
        let (mut pipeline, sources) = pipeline();
        let (ui, _following) = ui(sources);
        let mut kept = ui.kept.clone();
        let is = |queries: u64| move |kept: &KeptPage| kept.as_ref().is_some_and(|(revision, _)| *revision == queries);
        assert!(ui.latest().await.is_some());
        for queries in 2..5 {
            advance(Duration::from_secs(1)).await;
            let changed = Instant::now();
            pipeline.delta_recorded.send_replace(());
            kept.wait_for(is(queries)).await.unwrap();
            assert!(changed.elapsed() <= TOGETHER * 2, "{:?}", changed.elapsed());
        }
        for _ in 0..10 {
            pipeline.delta_recorded.send_replace(());
            advance(TOGETHER / 20).await;
        }
        kept.wait_for(is(5)).await.unwrap();
        advance(REST.0 * 2).await;
        assert_eq!(*pipeline.queries.borrow_and_update(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_after_a_late_answer_shows_soon() {
        let busy = Duration::from_secs(3);
        let (pipeline, sources) = busy_pipeline(busy);
        let (ui, _following) = ui(sources);
        assert!(ui.latest().await.is_some());
        let (mut kept, changed) = (ui.kept.clone(), Instant::now());
        pipeline.delta_recorded.send_replace(());
        kept.wait_for(|kept| kept.as_ref().is_some_and(|(revision, _)| *revision == 2)).await.unwrap();
        assert!(changed.elapsed() <= LONGEST_REST + TOGETHER * 2 + busy, "{:?}", changed.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn remaining_work_is_shown() {
        let (mut pipeline, sources) = pipeline();
        pipeline.progress.send_replace(Progress { open: true, queue: 3, ..Progress::default() });
        let (ui, _following) = ui(sources);
        assert!(ui.latest().await.unwrap().html(&PageQuery::default(), None).contains("checking: 3 objects to go"));
        pipeline.progress.send_replace(Progress { open: true, ..Progress::default() });
        // Without a change of the result.
        pipeline.queries.wait_for(|queries| *queries > 1).await.unwrap();
        let mut kept = ui.kept.clone();
        kept.wait_for(|kept| kept.as_ref().is_some_and(|(revision, _)| *revision > 1)).await.unwrap();
        assert!(ui.latest().await.unwrap().html(&PageQuery::default(), None).contains("live · everything checked"));
    }

    #[tokio::test(start_paused = true)]
    async fn events_announce_newer_pages() {
        let (pipeline, sources) = pipeline();
        let (ui, _following) = ui(sources);
        assert!(ui.latest().await.is_some());
        let request = Request::builder().uri("/events").header(header::HOST, "localhost").header("last-event-id", "1");
        let closing = ConnectionClosing::default();
        let router = router(ui).layer(Extension(closing.clone()));
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let mut body = response.into_body();
        pipeline.overview.send_replace(None);
        let event = loop {
            let text = body.frame().await.unwrap().unwrap().into_data().unwrap();
            // Comments keep the connection alive, and `alive` confirms that the page is current.
            if text.starts_with(b"event: changed") {
                break String::from_utf8(text.to_vec()).unwrap();
            }
        };
        assert_eq!(event, "event: changed\nid: 2\ndata: 2\nretry: 500\n\n");
        closing.0.cancel();
        while body.frame().await.is_some() {}
    }
}
