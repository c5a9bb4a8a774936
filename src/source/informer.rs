//! The dynamic informer: one list and watch for every kind in scope, coming and going with the kinds themselves.
//!
//! In: discovery and the API server's streams. Out: [`Change`]s, in order within a watch scope. Nothing is judged or
//! kept here; each object goes from the response's bytes to its [`Object`](crate::model::object::Object) in one pass.

mod failure;
mod follower;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep_until},
};
use tracing::{debug, info, warn};

use self::follower::{Shared, announces_kinds, follow};
use crate::{
    cluster::{client::Clients, error::describe},
    judge::set::PolicySet,
    model::object::Kind,
    source::{
        change::{Change, Discovered, WatchScope},
        discovery::{Served, discover},
        received::Secrets,
        selection::Selection,
    },
};

/// How often discovery is repeated although no CRD or APIService changed.
const REDISCOVER: Duration = Duration::from_secs(30);
/// The same where CRDs are not watched.
const REDISCOVER_BLIND: Duration = Duration::from_secs(4);
/// When discovery is repeated after a CRD or APIService changed: an aggregated API answers some time after it is known.
const REDISCOVER_SOON: [Duration; 3] = [Duration::from_millis(250), Duration::from_secs(2), Duration::from_secs(5)];
/// Lists and watches what a selection has of a cluster.
pub struct Informer {
    shared: Arc<Shared>,
    selection: Selection,
    /// The policies in force, for a selection that depends on them.
    policies: Option<watch::Receiver<Arc<PolicySet>>>,
    scopes: BTreeMap<WatchScope, AbortHandle>,
    tasks: JoinSet<()>,
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
        let shared = Arc::new(Shared::new(clients, selection.shard, secrets, once, changes));
        Self { shared, selection, policies: None, scopes: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Follows the policies in force, if the selection depends on them.
    #[must_use]
    pub fn following(mut self, policies: watch::Receiver<Arc<PolicySet>>) -> Self {
        self.policies = self.selection.judged_by.is_some().then_some(policies);
        self
    }

    /// Reads until the receiver of the changes is gone, or with `once` until everything is read. `served` is a first
    /// pass of discovery, which the caller has made to find out whether the cluster answers.
    pub async fn run(mut self, served: Served) {
        self.follow_discovery(served).await;
        if self.shared.once {
            while self.tasks.join_next().await.is_some() {}
            return;
        }
        let mut due: Vec<Instant> = Vec::new();
        loop {
            let usual = if self.scopes.keys().any(announces_kinds) { REDISCOVER } else { REDISCOVER_BLIND };
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

    /// Starts to follow what is new, and ends what is gone.
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

/// Waits until other policies than `known` are in force.
///
/// # Cancel safety
/// A change that was missed is seen by the next call.
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
