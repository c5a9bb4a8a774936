//! The dynamic informer: one list and watch for every kind in scope, coming and going with the kinds themselves.
//!
//! In: discovery and the API server's streams. Out: [`Change`]s, in order within a watch scope. Nothing is judged or
//! kept here; each object goes from the response's bytes to its [`Object`] in one pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt};
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use crate::{
    cluster::{client::Clients, error::describe},
    judge::set::PolicySet,
    model::{
        coverage::State,
        object::{Kind, Object},
        shard::Shard,
    },
    source::{
        change::{Change, Discovered, Unreadable, WatchScope},
        discovery::{Served, discover},
        received::{Received, Secrets},
        selection::Selection,
    },
};

/// Initial lists under way at a time: more only makes the API server work on all of them at once.
const LISTS_AT_A_TIME: usize = 8;
/// Objects that are asked for at a time. A page is held as a whole, and more at once is not faster.
const PAGE: u32 = 200;
/// The server ends a watch after this many seconds; what was revoked meanwhile shows at the next start.
const WATCH_SECONDS: u32 = 120;
/// Discovery is repeated this often although nothing says that a kind came or went.
const REDISCOVER: Duration = Duration::from_secs(30);
/// The same where CRDs are not read, and so cannot say it.
const REDISCOVER_BLIND: Duration = Duration::from_secs(4);
/// After a CRD or APIService changed; the later ones because an aggregated API answers some time after it is known.
const REDISCOVER_SOON: [Duration; 3] = [Duration::from_millis(250), Duration::from_secs(2), Duration::from_secs(5)];
/// A watch that was in trouble and is silent this long has been connected again: every failure shows within the
/// connect timeout.
const RECOVERED: Duration = Duration::from_secs(15);
/// Failures in a row, other than clear refusals, after which a watch scope counts as failed.
const FAILURES: u32 = 3;

/// Reads a cluster.
pub struct Informer {
    shared: Arc<Shared>,
    selection: Selection,
    /// The policies in force, for a selection that depends on them.
    policies: Option<watch::Receiver<Arc<PolicySet>>>,
    scopes: BTreeMap<WatchScope, AbortHandle>,
    tasks: JoinSet<()>,
}

struct Shared {
    clients: Clients,
    secrets: Secrets,
    shard: Shard,
    /// Only the first lists: for `--once`.
    once: bool,
    changes: mpsc::Sender<Change>,
    lists: Semaphore,
    rediscover: Notify,
}

impl Informer {
    /// Makes an informer that delivers into `changes`; with `once` it ends after each kind's first list.
    pub fn new(
        clients: Clients,
        selection: Selection,
        secrets: Secrets,
        once: bool,
        changes: mpsc::Sender<Change>,
    ) -> Self {
        let (lists, rediscover) = (Semaphore::new(LISTS_AT_A_TIME), Notify::new());
        let shared = Arc::new(Shared { clients, secrets, shard: selection.shard, once, changes, lists, rediscover });
        Self { shared, selection, policies: None, scopes: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Reads what is to be read by the policies that are in force, if the selection depends on them.
    #[must_use]
    pub fn following(mut self, policies: watch::Receiver<Arc<PolicySet>>) -> Self {
        self.policies = self.selection.judged_by.is_some().then_some(policies);
        self
    }

    /// Reads until the receiver of the changes is gone, or with `once` until everything is read. `served` is a first
    /// pass of discovery, so that the caller could already tell an unreachable cluster from an empty one.
    pub async fn run(mut self, served: Served) {
        self.follow_discovery(served).await;
        if self.shared.once {
            while self.tasks.join_next().await.is_some() {}
            return;
        }
        let mut due: Vec<Instant> = Vec::new();
        loop {
            let usual = if self.scopes.keys().any(announces) { REDISCOVER } else { REDISCOVER_BLIND };
            let next = due.first().copied().unwrap_or_else(|| Instant::now() + usual);
            tokio::select! {
                policies = other_policies(&mut self.policies, self.selection.judged_by.as_ref()) => {
                    self.selection.judged_by = Some(policies);
                    due.insert(0, Instant::now());
                }
                () = self.shared.rediscover.notified() => {
                    due = REDISCOVER_SOON.iter().map(|after| Instant::now() + *after).collect();
                }
                () = sleep_until(next) => {
                    due.retain(|at| *at > next);
                    match discover(&self.shared.clients.plain).await {
                        Ok(served) => self.follow_discovery(served).await,
                        Err(error) => warn!(error = describe(&error), "Discovery failed; the kinds known so far stay"),
                    }
                }
                () = self.shared.changes.closed() => return,
                // A task that ended frees its place in the set.
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    /// Starts what is new, ends what is gone.
    async fn follow_discovery(&mut self, served: Served) {
        let mut wanted = BTreeSet::new();
        let mut excluded = Vec::new();
        for kind in &served.kinds {
            match self.selection.excludes(kind) {
                Some(why) => excluded.push((kind.clone(), why)),
                None => wanted.extend(self.scopes_of(kind)),
            }
        }
        // While a group's server is down its kinds are not listed, but they are not gone.
        let stale = |scope: &WatchScope| {
            served.stale.iter().any(|stale| stale.group == scope.kind.group && stale.version == scope.kind.version)
        };
        let gone: Vec<_> =
            self.scopes.keys().filter(|scope| !wanted.contains(scope) && !stale(scope)).cloned().collect();
        for scope in gone {
            if let Some(task) = self.scopes.remove(&scope) {
                task.abort();
            }
            info!(feed = %scope, "No longer served");
            self.shared.send(Change::Vanished(scope)).await;
        }
        let new: Vec<_> = wanted.into_iter().filter(|scope| !self.scopes.contains_key(scope)).collect();
        for scope in &new {
            self.shared.send(Change::Appeared(scope.clone())).await;
        }
        for scope in new {
            debug!(feed = %scope, "Reading");
            let task = self.tasks.spawn(Box::pin(follow(self.shared.clone(), scope.clone())));
            self.scopes.insert(scope, task);
        }
        let known = |group: &str| self.scopes.keys().any(|scope| scope.kind.group == group);
        let missing = |group: &str| !known(group) && self.selection.may_audit_group(group);
        let unserved = served.stale.into_iter().filter(|stale| missing(&stale.group)).collect();
        self.shared.send(Change::Discovered(Discovered { unserved, excluded })).await;
    }

    fn scopes_of(&self, kind: &Arc<Kind>) -> Vec<WatchScope> {
        if self.selection.namespaces.is_empty() {
            return vec![WatchScope { kind: kind.clone(), namespace: None }];
        }
        let namespaces = self.selection.namespaces.iter().filter(|name| self.shared.shard.owns(Some(name)));
        namespaces.map(|name| WatchScope { kind: kind.clone(), namespace: Some(name.as_str().into()) }).collect()
    }
}

/// Waits until other policies than `known` are in force. Cancel safe: what was not taken is seen the next time.
async fn other_policies(
    policies: &mut Option<watch::Receiver<Arc<PolicySet>>>,
    known: Option<&Arc<PolicySet>>,
) -> Arc<PolicySet> {
    let other = |now: &Arc<PolicySet>| known.is_none_or(|known| known.digest != now.digest);
    if let Some(policies) = policies
        && let Ok(now) = policies.wait_for(other).await
    {
        return Arc::clone(&now);
    }
    std::future::pending().await
}

/// How a stream ended.
#[derive(Debug)]
enum End {
    /// Everything wanted was read, or nobody listens any more.
    Done,
    /// It is to begin again from a new list after this long.
    Again(Duration),
}

/// Lists and watches one scope, for ever or once.
async fn follow(shared: Arc<Shared>, scope: WatchScope) {
    let client = shared.clients.reading.clone();
    let api: Api<Received> = match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &scope.kind),
        None => Api::all_with(client, &scope.kind),
    };
    let mut follower = Follower::new(shared, scope);
    loop {
        let config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE);
        match follower.stream(watcher(api.clone(), config)).await {
            End::Done => return,
            End::Again(after) => sleep(after).await,
        }
    }
}

struct Follower {
    shared: Arc<Shared>,
    scope: WatchScope,
    delay: Delay,
    /// Failures since something last worked.
    failures: u32,
    /// A list is under way.
    listing: bool,
    /// What was said last is that everything is known.
    synced: bool,
    /// The watch failed, and has not shown since that it is back.
    troubled: bool,
}

impl Follower {
    fn new(shared: Arc<Shared>, scope: WatchScope) -> Self {
        Self { shared, scope, delay: Delay::default(), failures: 0, listing: true, synced: false, troubled: false }
    }

    async fn stream(&mut self, stream: impl Stream<Item = watcher::Result<Event<Received>>>) -> End {
        let shared = self.shared.clone();
        // Held for the list only. Not a reason to end: the semaphore is never closed.
        let mut permit = shared.lists.acquire().await.ok();
        let mut stream = pin!(stream);
        self.listing = true;
        loop {
            let next = if self.troubled && !self.listing {
                let Ok(next) = timeout(RECOVERED, stream.next()).await else {
                    self.recovered().await;
                    continue;
                };
                next
            } else {
                stream.next().await
            };
            if shared.changes.is_closed() {
                return End::Done;
            }
            match next {
                None => return End::Again(self.delay.next(0)),
                Some(Ok(Event::Init)) => {
                    // What the list does not name is gone, which only its end can tell.
                    (self.listing, self.synced) = (true, false);
                    shared.send(Change::Listing(self.scope.clone())).await;
                }
                Some(Ok(Event::InitApply(received))) => self.seen(received).await,
                Some(Ok(Event::InitDone)) => {
                    drop(permit.take());
                    self.listing = false;
                    self.recovered().await;
                    if shared.once {
                        return End::Done;
                    }
                }
                Some(Ok(Event::Apply(received))) => {
                    self.delay = Delay::default();
                    self.recovered().await;
                    self.seen(received).await;
                    self.announce();
                }
                Some(Ok(Event::Delete(received))) => {
                    self.delay = Delay::default();
                    self.recovered().await;
                    self.gone(received).await;
                    self.announce();
                }
                Some(Err(error)) => {
                    if let Some(end) = self.failed(&error).await {
                        return end;
                    }
                }
            }
        }
    }

    /// Notes a failure; returns how to go on, unless the stream itself tries again.
    async fn failed(&mut self, error: &watcher::Error) -> Option<End> {
        let (code, reason) = classify(error);
        let message = describe_watch(error);
        debug!(feed = %self.scope, code, message, "Reading failed");
        self.failures += 1;
        let refused = matches!(code, 401 | 403 | 404 | 405);
        // The list is too old: not a failure as long as it does not happen again and again.
        let expired = code == 410;
        if !expired && (refused || self.failures >= FAILURES) {
            let state = if matches!(code, 401 | 403) { State::Forbidden } else { State::Failed };
            self.synced = false;
            self.shared.send(Change::Unreadable(self.scope.clone(), Unreadable { state, message })).await;
            if self.shared.once {
                return Some(End::Done);
            }
        }
        self.shared.send(Change::Restarted(self.scope.clone(), reason)).await;
        if code == 404 {
            self.shared.rediscover.notify_one();
        }
        let after = if expired && self.failures == 1 { Duration::ZERO } else { self.delay.next(code) };
        let at_start_of_watch = matches!(error, watcher::Error::WatchStartFailed(_));
        if self.listing || (expired && at_start_of_watch) {
            // kube would ask for the same expired version for ever.
            return Some(End::Again(after));
        }
        self.troubled = !expired;
        sleep(after).await;
        None
    }

    /// Notes that the watch scope is complete and watched.
    async fn recovered(&mut self) {
        self.failures = 0;
        self.troubled = false;
        if !std::mem::replace(&mut self.synced, true) {
            self.shared.send(Change::Synced(self.scope.clone())).await;
        }
    }

    /// Whether an object is to be read by this shard; the others are thrown away before anything is made of them.
    fn reads(&self, received: &Received) -> bool {
        self.shared.shard.reads(&self.scope.kind, received.namespace())
    }

    async fn seen(&self, received: Received) {
        if !self.reads(&received) {
            return;
        }
        let name = received.name();
        let change = match received.into_object(&self.scope.kind, self.shared.secrets, 0) {
            Ok(object) if is_own_event(&object) => return,
            Ok(object) => Change::Seen(self.scope.clone(), object),
            Err(why) => Change::Skipped(self.scope.clone(), name, why),
        };
        self.shared.send(change).await;
    }

    async fn gone(&self, received: Received) {
        if !self.reads(&received) {
            return;
        }
        if let Ok(object) = received.into_object(&self.scope.kind, self.shared.secrets, 0) {
            self.shared.send(Change::Gone(self.scope.clone(), object)).await;
        }
    }

    /// Has discovery repeated when a kind may have come or gone.
    fn announce(&self) {
        if announces(&self.scope) {
            self.shared.rediscover.notify_one();
        }
    }
}

/// Whether changes of a watch scope may mean that kinds come or go.
fn announces(scope: &WatchScope) -> bool {
    scope.kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
        || scope.kind.is("apiregistration.k8s.io", "APIService")
}

impl Shared {
    async fn send(&self, change: Change) {
        // Nobody listens any more when the pipeline has ended; the stream notices by itself.
        let _ended = self.changes.send(change).await;
    }
}

/// Whether an object is an Event that kaudit wrote, which only `--include events` brings here.
fn is_own_event(object: &Object) -> bool {
    object.key.kind.kind == "Event"
        && object.body.json().is_ok_and(|json| {
            serde_json::from_slice::<serde_json::Value>(&json).is_ok_and(|event| {
                ["reportingController", "reportingComponent"]
                    .iter()
                    .any(|field| event[field] == crate::cluster::identity::CONTROLLER)
            })
        })
}

/// A growing delay between attempts. kube's own starts anew with each attempt to list.
#[derive(Debug, Default)]
struct Delay {
    attempts: u32,
}

impl Delay {
    /// Half a second to half a minute for what may pass soon, five seconds to five minutes for a clear refusal. A token
    /// file is read anew within a minute: what it was refused for is worth another look right after.
    fn next(&mut self, code: u16) -> Duration {
        let (first, last) = match code {
            401 => (500, 10_000),
            403..=405 => (5_000, 300_000),
            _ => (500, 30_000),
        };
        let delay = Duration::from_millis((first << self.attempts.min(10)).min(last));
        self.attempts += 1;
        delay
    }
}

/// Returns the HTTP code of an error (0 if there is none) and a word for metrics.
fn classify(error: &watcher::Error) -> (u16, &'static str) {
    let code = match error {
        watcher::Error::WatchError(status) => status.code,
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => status.code,
            _ => 0,
        },
        watcher::Error::NoResourceVersion => 0,
    };
    let reason = match code {
        410 => "expired",
        401 | 403 => "forbidden",
        404 => "not_found",
        429 => "throttled",
        500.. => "server_error",
        _ => "connection",
    };
    (code, reason)
}

fn describe_watch(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error) => describe(error),
        watcher::Error::WatchStartFailed(error) => format!("watch: {}", describe(error)),
        watcher::Error::WatchFailed(error) => format!("watch broken: {}", describe(error)),
        watcher::Error::WatchError(status) => format!("watch: {} ({})", status.message, status.code),
        watcher::Error::NoResourceVersion => "the server sends objects without resourceVersion".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use kube::{Client, core::Status};

    use super::*;

    fn received(name: &str) -> Received {
        Received::read(&format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"1"}}}}"#))
    }

    fn status(code: u16) -> Status {
        Status { code, message: format!("code {code}"), ..Status::default() }
    }

    fn api_error(code: u16) -> kube::Error {
        kube::Error::Api(status(code).boxed())
    }

    /// Plays a stream to a follower; returns how it ended and what it said.
    async fn play(once: bool, events: Vec<watcher::Result<Event<Received>>>) -> (End, Vec<String>) {
        let (sender, mut receiver) = mpsc::channel(100);
        let client = Client::new(
            tower::service_fn(|_: http::Request<kube::client::Body>| async {
                Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is there"))
            }),
            "default",
        );
        let config = kube::Config::new("http://127.0.0.1".parse().unwrap());
        let clients = Clients { reading: client.clone(), plain: client, url: String::new(), config };
        let informer = Informer::new(clients, Selection::default(), Secrets::Redact, once, sender);
        let scope = WatchScope { kind: Kind::sample("", "pods", "Pod"), namespace: None };
        let mut follower = Follower::new(informer.shared, scope);
        let end = follower.stream(stream::iter(events)).await;
        drop(follower);
        let mut said = Vec::new();
        while let Some(change) = receiver.recv().await {
            said.push(match change {
                Change::Listing(_) => "listing".to_owned(),
                Change::Seen(_, object) => format!("seen {}", object.key.name),
                Change::Gone(_, object) => format!("gone {}", object.key.name),
                Change::Skipped(_, name, _) => format!("skipped {name}"),
                Change::Synced(_) => "synced".to_owned(),
                Change::Unreadable(_, why) => format!("{} {}", why.state.as_str(), why.message),
                Change::Restarted(_, why) => format!("restarted {why}"),
                other => format!("{other:?}"),
            });
        }
        (end, said)
    }

    #[tokio::test(start_paused = true)]
    async fn every_relist_is_compared_and_ends_synced() {
        let events = vec![
            Ok(Event::Init),
            Ok(Event::InitApply(received("a"))),
            Ok(Event::InitApply(received("b"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(received("c"))),
            Err(watcher::Error::WatchError(status(410).boxed())),
            Ok(Event::Init),
            Ok(Event::InitApply(received("a"))),
            Ok(Event::InitDone),
        ];
        let (_, said) = play(false, events).await;
        let wanted =
            ["listing", "seen a", "seen b", "synced", "seen c", "restarted expired", "listing", "seen a", "synced"];
        assert_eq!(said, wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_in_trouble_is_told_and_so_is_its_recovery() {
        let broken = || Err(watcher::Error::WatchStartFailed(api_error(500)));
        let events = vec![
            Ok(Event::Init),
            Ok(Event::InitDone),
            broken(),
            broken(),
            broken(),
            Ok(Event::Delete(received("a"))),
            Ok(Event::Apply(received("b"))),
        ];
        let (_, said) = play(false, events).await;
        let restarted = "restarted server_error";
        let wanted = [
            "listing",
            "synced",
            restarted,
            restarted,
            "failed watch: code 500",
            restarted,
            "synced",
            "gone a",
            "seen b",
        ];
        assert_eq!(said, wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_said_at_once_and_tried_again_later() {
        let events = || vec![Ok(Event::Init), Err(watcher::Error::InitialListFailed(api_error(403)))];
        let (end, said) = play(false, events()).await;
        assert!(matches!(end, End::Again(after) if after >= Duration::from_secs(5)), "{end:?}");
        assert_eq!(said, ["listing", "forbidden code 403", "restarted forbidden"]);
        let (end, said) = play(true, events()).await;
        assert!(matches!(end, End::Done), "{end:?}");
        assert_eq!(said, ["listing", "forbidden code 403"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_expired_before_the_watch_is_listed_anew() {
        let events = vec![Ok(Event::Init), Ok(Event::InitDone), Err(watcher::Error::WatchStartFailed(api_error(410)))];
        let (end, _) = play(false, events).await;
        assert!(matches!(end, End::Again(Duration::ZERO)), "{end:?}");
    }

    #[test]
    fn delays_grow_and_are_never_nothing() {
        let seconds = |code| {
            let mut delay = Delay::default();
            (0..8).map(|_| delay.next(code).as_secs_f64()).collect::<Vec<_>>()
        };
        assert_eq!(seconds(0), [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(seconds(401), [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]);
        assert_eq!(seconds(403), [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]);
    }
}
