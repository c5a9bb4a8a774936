//! The dynamic informer: one list and watch per kind in scope, started and ended as kinds come and go.
//!
//! In: discovery and the API server's streams. Out: [`Change`]s, in order within a watch scope. Nothing is evaluated or
//! kept here; each object is read from the response's bytes to its [`Object`](crate::model::object::Object) in one
//! pass.
//!
//! A single discovery response that lacks a known kind is not trusted: behind one address there may be API servers of
//! different versions, and one that has just started does not serve its CRDs yet. A kind is removed after a 404 for its
//! own list or watch, or when the passes of discovery lack it for [`ABSENT`].

mod failure;
mod follower;
mod list_slot;
mod reader;
mod shared;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinError, JoinSet},
    time::{Instant, sleep, sleep_until},
};
use tracing::{debug, error, info, warn};

pub use self::shared::ReadOptions;
use self::{
    follower::{announces_kinds, follow},
    shared::{InformerShared, Note},
};
use crate::{
    cluster::{client::Clients, error::describe, identity::is_exception},
    judge::set::PolicySet,
    model::{coverage::State, object::Kind},
    source::{
        change::{Change, Discovered, Unreadable, Unserved, WatchScope},
        discovery::{Discovery, Served},
        selection::Selection,
    },
};

/// Interval of discovery while no CRD or APIService changes.
const REDISCOVER: Duration = Duration::from_secs(30);
/// Interval of discovery where CRDs are not watched.
const REDISCOVER_BLIND: Duration = Duration::from_secs(4);
/// Delays of discovery after a CRD or APIService changed: an aggregated API answers some time after it is registered.
const REDISCOVER_SOON: [Duration; 3] = [Duration::from_millis(250), Duration::from_secs(2), Duration::from_secs(5)];
/// How long after its first pass discovery is provisional: a missing kind may be one that a server which has just
/// started does not serve yet.
const SETTLED: Duration = Duration::from_secs(5);
/// Delay after which a changed result of discovery is confirmed.
const CONFIRM: Duration = Duration::from_secs(1);
/// A kind that discovery lacks for this long is removed, although the server still answers for its objects.
const ABSENT: Duration = Duration::from_mins(1);
/// Delay after which a scope is read again when its task has panicked.
const RESTART: Duration = Duration::from_secs(5);

/// Lists and watches the kinds of a cluster that a selection includes.
pub struct Informer {
    shared: Arc<InformerShared>,
    notes: mpsc::UnboundedReceiver<(WatchScope, Note)>,
    selection: Selection,
    /// The policies in force, on which the selection depends.
    policies: Option<watch::Receiver<Arc<PolicySet>>>,
    discovery: Discovery,
    /// When the first pass of discovery was received.
    began: Option<Instant>,
    /// The watch scopes that the last pass of discovery yields.
    wanted: BTreeSet<WatchScope>,
    /// The last known kinds of each group version: a stale version may be served without them.
    by_version: BTreeMap<(String, String), Vec<Arc<Kind>>>,
    scopes: BTreeMap<WatchScope, Followed>,
    /// The kinds that are served but excluded, with the reason, and when a pass of discovery last had them.
    excluded: BTreeMap<Arc<Kind>, (String, Instant)>,
    tasks: JoinSet<()>,
    /// When discovery is repeated earlier than usual.
    due: BTreeSet<Instant>,
}

/// A watch scope that is read.
struct Followed {
    task: AbortHandle,
    /// Whether its first list is complete.
    listed: bool,
    /// Whether the server answered 404 to its last request.
    not_found: bool,
    /// Since when discovery lacks it; `None` while discovery names it.
    absent: Option<Instant>,
}

impl Informer {
    /// Creates an informer that sends to `changes`.
    pub fn new(clients: Clients, selection: Selection, options: ReadOptions, changes: mpsc::Sender<Change>) -> Self {
        let (note, notes) = mpsc::unbounded_channel();
        let discovery = Discovery::new(clients.plain.clone());
        let policies = options.policies.clone();
        let shared = Arc::new(InformerShared::new(clients, selection.shard, options, changes, note));
        Self {
            shared,
            notes,
            selection,
            policies,
            discovery,
            began: None,
            wanted: BTreeSet::new(),
            by_version: BTreeMap::new(),
            scopes: BTreeMap::new(),
            excluded: BTreeMap::new(),
            tasks: JoinSet::new(),
            due: BTreeSet::new(),
        }
    }

    /// Reads until the receiver of the changes is closed, or with `once` until everything is read. `served` is the
    /// first pass of discovery, which the caller has made to find out whether the cluster answers.
    pub async fn run(mut self, served: Served) {
        self.follow_discovery(served).await;
        if self.shared.options.once {
            return self.run_once().await;
        }
        self.rediscover(&[SETTLED]);
        loop {
            let usual = if self.scopes.keys().any(announces_kinds) { REDISCOVER } else { REDISCOVER_BLIND };
            let next = self.due.first().copied().unwrap_or_else(|| Instant::now() + usual);
            tokio::select! {
                policies = other_policies(&mut self.policies, self.selection.policies.first()) => {
                    self.selection.policies = vec![policies];
                    self.rediscover(&[Duration::ZERO]);
                }
                () = self.shared.rediscover.notified() => self.rediscover(&REDISCOVER_SOON),
                Some((scope, note)) = self.notes.recv() => self.noted(&scope, note).await,
                () = sleep_until(next) => {
                    self.due.retain(|at| *at > next);
                    self.discover().await;
                }
                () = self.shared.changes.closed() => return,
                Some(ended) = self.tasks.join_next() => self.ended(ended).await,
            }
        }
    }

    /// Reads until every list has ended. Also returns when the receiver closes, so that it need not wait for the second
    /// pass of discovery.
    async fn run_once(mut self) {
        let settled = sleep(SETTLED);
        tokio::pin!(settled);
        let mut confirms = self.shared.options.confirms;
        while confirms || !self.tasks.is_empty() {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => self.ended(ended).await,
                () = &mut settled, if confirms => {
                    confirms = false;
                    self.discover().await;
                }
                () = self.shared.changes.closed() => return,
            }
        }
    }

    async fn discover(&mut self) {
        match self.discovery.discover().await {
            Ok(served) => self.follow_discovery(served).await,
            Err(error) => {
                warn!(error = describe(&error), "Discovery failed; the kinds discovered before are still watched");
            }
        }
    }

    /// Schedules discovery after about these delays; a pass that is already due at about that time counts.
    fn rediscover(&mut self, after: &[Duration]) {
        let now = Instant::now();
        for delay in after {
            if self.due.range(now + *delay / 2..=now + *delay * 3 / 2).next().is_none() {
                self.due.insert(now + *delay);
            }
        }
    }

    /// Starts to read new watch scopes, and ends those that are gone.
    async fn follow_discovery(&mut self, served: Served) {
        let age = self.began.get_or_insert_with(Instant::now).elapsed();
        let provisional = age < SETTLED;
        let may_lack_former_kinds = provisional || !self.shared.options.once && age < ABSENT;
        let may_lack_exceptions = provisional
            && self.shared.options.expects_exceptions
            && !served.kinds.iter().any(|kind| is_exception(kind));
        let mut wanted = BTreeSet::new();
        for kind in &served.kinds {
            match self.selection.excludes(kind) {
                Some(why) => drop(self.excluded.insert(kind.clone(), (why, Instant::now()))),
                None => wanted.extend(self.scopes_of(kind)),
            }
        }
        self.excluded.retain(|kind, (_, seen)| {
            let is_replaced = served.kinds.iter().any(|other| other != kind && other.is_version_of(kind));
            !is_replaced && seen.elapsed() < ABSENT && self.selection.excludes(kind).is_some()
        });
        let before = std::mem::replace(&mut self.wanted, wanted);
        // While a group's server is down, its kinds are not listed, but they still exist.
        let stale = |scope: &WatchScope| {
            served.stale.iter().any(|stale| stale.group == scope.kind.group && stale.version == scope.kind.version)
        };
        let deselected = |scope: &WatchScope| self.excluded.keys().any(|kind| scope.kind.is_version_of(kind));
        // Its CRD was replaced by one with the other scope, so its list and watch return objects of the new kind.
        let rescoped = |scope: &WatchScope| self.wanted.iter().any(|new| new.kind.has_other_scope_than(&scope.kind));
        for (scope, followed) in &mut self.scopes {
            let is_named = stale(scope) || self.wanted.iter().any(|other| other == scope || scope.is_version_of(other));
            followed.absent = if is_named { None } else { followed.absent.or_else(|| Some(Instant::now())) };
        }
        let gone = |(scope, followed): &(&WatchScope, &Followed)| {
            let is_absent = followed.absent.is_some_and(|since| since.elapsed() >= ABSENT);
            followed.absent.is_some() && (is_absent || followed.not_found || deselected(scope) || rescoped(scope))
        };
        let gone: Vec<_> = self.scopes.iter().filter(gone).map(|(scope, _)| scope.clone()).collect();
        for scope in gone {
            self.end(&scope, "No longer served").await;
        }
        let known = |scope: &WatchScope| self.scopes.keys().any(|known| known.is_version_of(scope));
        let new = |scope: &&WatchScope| !self.scopes.contains_key(scope) && (!known(scope) || before.contains(scope));
        let new: Vec<_> = self.wanted.iter().filter(new).cloned().collect();
        for scope in &new {
            self.shared.send(Change::Appeared(scope.clone())).await;
            if let Some(old) = self.scopes.keys().find(|old| old.is_version_of(scope)) {
                self.shared.send(Change::Succeeds(scope.clone(), old.clone())).await;
            }
        }
        for scope in new {
            debug!(%scope, "Reading");
            self.start(scope, Duration::ZERO);
        }
        self.end_superseded().await;
        if self.wanted != before && !before.is_empty() {
            self.rediscover(&[CONFIRM]);
        }
        let unserved = self.unserved(served);
        let excluded = self.excluded.iter().map(|(kind, (why, _))| (Arc::clone(kind), why.clone())).collect();
        self.shared
            .send(Change::Discovered(Discovered {
                unserved,
                excluded,
                provisional,
                may_lack_former_kinds,
                may_lack_exceptions,
            }))
            .await;
    }

    /// Returns the stale group versions that may have audited kinds which are not followed. A version whose kinds are
    /// all followed, in whichever version, is not unserved: if its own server is needed, reading them fails.
    fn unserved(&mut self, served: Served) -> Vec<Unserved> {
        let Served { kinds, stale, by_version } = served;
        let before = std::mem::replace(&mut self.by_version, by_version);
        for ((group, version), kinds) in before {
            if stale.iter().any(|stale| stale.group == group && stale.version == version) {
                self.by_version.entry((group, version)).or_insert(kinds);
            }
        }
        let followed = |kind: &Arc<Kind>| {
            kinds.iter().any(|served| served.is_version_of(kind))
                || self.scopes.keys().any(|scope| scope.kind.is_version_of(kind))
                || self.selection.excludes(kind).is_some()
        };
        let missing = |stale: &Unserved| {
            let kinds = self.by_version.get(&(stale.group.clone(), stale.version.clone()));
            self.selection.may_audit_group(&stale.group) && !kinds.is_some_and(|kinds| kinds.iter().all(followed))
        };
        stale.into_iter().filter(missing).collect()
    }

    /// Ends scopes in a version that is no longer wanted once the list in the wanted version is complete: until then
    /// the old scope delivers the changes.
    async fn end_superseded(&mut self) {
        let listed = |scope: &WatchScope| self.scopes.get(scope).is_some_and(|followed| followed.listed);
        let successor = |scope: &WatchScope| self.wanted.iter().any(|new| new.is_version_of(scope) && listed(new));
        let superseded = |scope: &&WatchScope| !self.wanted.contains(scope) && successor(scope);
        let superseded: Vec<_> = self.scopes.keys().filter(superseded).cloned().collect();
        for scope in superseded {
            self.end(&scope, "Now watched in another API version").await;
        }
    }

    /// Starts to read a scope after a delay.
    fn start(&mut self, scope: WatchScope, after: Duration) {
        let (shared, following) = (self.shared.clone(), scope.clone());
        let task = self.tasks.spawn(async move {
            tokio::time::sleep(after).await;
            Box::pin(follow(shared, following)).await;
        });
        self.scopes.insert(scope, Followed { task, listed: false, not_found: false, absent: None });
    }

    async fn end(&mut self, scope: &WatchScope, why: &str) {
        if let Some(followed) = self.scopes.remove(scope) {
            followed.task.abort();
        }
        info!(%scope, version = scope.kind.version, "{why}");
        self.shared.send(Change::Vanished(scope.clone())).await;
    }

    async fn noted(&mut self, scope: &WatchScope, note: Note) {
        let Some(followed) = self.scopes.get_mut(scope) else { return };
        followed.not_found = note == Note::NotFound;
        match note {
            Note::Listed => {
                followed.listed = true;
                self.end_superseded().await;
            }
            Note::NotFound => self.rediscover(&REDISCOVER_SOON),
        }
    }

    /// Restarts a scope whose task has panicked.
    async fn ended(&mut self, ended: Result<(), JoinError>) {
        let Some(failed) = ended.err().filter(JoinError::is_panic) else { return };
        let Some(scope) = self.scopes.iter().find(|(_, followed)| followed.task.id() == failed.id()) else { return };
        let scope = scope.0.clone();
        let message = format!("kaudit panicked while reading this kind; please report this bug: {failed}");
        error!(%scope, "{message}");
        self.shared.send(Change::Unreadable(scope.clone(), Unreadable { state: State::Failed, message })).await;
        if !self.shared.options.once {
            self.start(scope, RESTART);
        }
    }

    fn scopes_of(&self, kind: &Arc<Kind>) -> Vec<WatchScope> {
        if self.selection.namespaces.is_empty() {
            return vec![WatchScope { kind: kind.clone(), namespace: None }];
        }
        let namespaces = self.selection.namespaces.iter().filter(|name| self.shared.shard.owns(Some(name)));
        namespaces.map(|name| WatchScope { kind: kind.clone(), namespace: Some(name.as_str().into()) }).collect()
    }
}

/// Waits until policies other than `known` are in force.
///
/// # Cancel safety
/// A missed change is seen by the next call.
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

#[cfg(test)]
mod tests;
