//! One watch scope: when to list, when to watch, and how to react when either fails.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::debug;

use super::{
    failure::{Delay, ReadFailure, jittered},
    reader::{EventType, ScopeReader},
    shared::{InformerShared, Note},
};
use crate::{
    model::coverage::State,
    source::change::{Change, Unreadable, WatchScope},
};

/// Seconds after which the server ends a watch; the next one shows whether a right was revoked. Each watch draws a
/// value from client-go's range, so that the watches of all kinds do not restart in step.
const WATCH_SECONDS: RangeInclusive<u32> = 300..=600;
/// A watch that has been silent for this long works: a failure would have shown within the connect timeout.
const PROVEN: Duration = Duration::from_secs(15);
/// A watch that ends sooner without an event has failed, as in client-go. After one that ends sooner with events, the
/// next starts only when this time has passed.
const SHORT: Duration = Duration::from_secs(1);
/// Objects in a page of a list, as client-go requests them.
const PAGE: u32 = 500;
/// Consecutive failures, other than clear refusals, after which a watch scope counts as failed.
const FAILURES: u32 = 3;

/// Lists and watches one scope, for ever or once.
pub(super) async fn follow(shared: Arc<InformerShared>, scope: WatchScope) {
    let mut follower = ScopeFollower::new(Arc::clone(&shared), scope);
    let following = async {
        while let Some(after) = follower.list_and_watch().await {
            sleep(jittered(after)).await;
        }
    };
    tokio::select! {
        () = following => {}
        () = shared.changes.closed() => {}
    }
}

struct ScopeFollower {
    shared: Arc<InformerShared>,
    scope: WatchScope,
    reader: Arc<ScopeReader>,
    /// Reset only when a watch works: a list that succeeds before each watch that fails would be a loop, too.
    delay: Delay,
    /// Failures since the last success.
    failures: u32,
    /// Whether [`Change::Synced`] was sent and still holds.
    synced: bool,
    /// Whether the watch has not yet shown that it works.
    unproven: bool,
    /// Whether the last list expired, so that the next one is requested as a single page.
    expired: bool,
}

impl ScopeFollower {
    fn new(shared: Arc<InformerShared>, scope: WatchScope) -> Self {
        let reader = Arc::new(ScopeReader::new(Arc::clone(&shared), scope.clone()));
        Self {
            shared,
            scope,
            reader,
            delay: Delay::default(),
            failures: 0,
            synced: false,
            unproven: true,
            expired: false,
        }
    }

    /// Lists, then watches until a new list is needed. Returns the delay before it; `None` if no further attempt is
    /// made.
    async fn list_and_watch(&mut self) -> Option<Duration> {
        // Objects missing from the list were deleted, which only the end of the list shows.
        self.synced = false;
        let mut version = match self.reader.list(if self.expired { None } else { Some(PAGE) }).await {
            Ok(version) => version,
            Err(failure) => {
                self.expired = failure.code() == 410;
                return self.failed(&failure).await;
            }
        };
        self.expired = false;
        self.unproven = true;
        self.readable().await;
        self.shared.note(&self.scope, Note::Listed);
        if self.shared.options.once {
            return None;
        }
        let mut just_listed = true;
        loop {
            let began = Instant::now();
            let Err(failure) = self.watch(&mut version, std::mem::take(&mut just_listed)).await else {
                sleep_until(began + SHORT).await;
                continue;
            };
            let after = self.failed(&failure).await?;
            if failure.needs_list() {
                return Some(after);
            }
            self.unproven = true;
            sleep(jittered(after)).await;
        }
    }

    /// Watches from a version, which may be that of a list that has just ended, until the server ends the watch.
    /// Updates `version` with each event.
    async fn watch(&mut self, version: &mut String, just_listed: bool) -> Result<(), ReadFailure> {
        let mut watch = self.reader.watch(version, fastrand::u32(WATCH_SECONDS)).await?;
        // Checked only between watches: etcd is not restored under a running server, and a watch ends when its server
        // is replaced.
        if !just_listed && self.reader.is_behind(version).await {
            return Err(ReadFailure::WentBack);
        }
        self.shared.send(Change::Quiet(self.scope.clone())).await;
        let began = Instant::now();
        let mut came = false;
        loop {
            let event = if self.unproven {
                let Ok(event) = timeout(PROVEN, watch.next()).await else {
                    self.proven().await;
                    continue;
                };
                event
            } else {
                watch.next().await
            };
            let Some(event) = event.transpose()? else {
                return if came || began.elapsed() > SHORT { Ok(()) } else { Err(ReadFailure::WatchShort) };
            };
            came = true;
            let newer = event.object.resource_version().filter(|version| !version.is_empty());
            newer.ok_or(ReadFailure::NoResourceVersion)?.clone_into(version);
            self.proven().await;
            match event.what {
                EventType::Applied => self.reader.changed(event.object).await,
                EventType::Deleted => self.reader.gone(event.object).await,
                EventType::Bookmark => {
                    self.shared.send(Change::Quiet(self.scope.clone())).await;
                    continue;
                }
            }
            self.announce();
        }
    }

    /// Reports a failure. Returns the delay before the next attempt; `None` if there is none.
    async fn failed(&mut self, failure: &ReadFailure) -> Option<Duration> {
        let (code, reason, message) = (failure.code(), failure.reason(), failure.to_string());
        debug!(scope = %self.scope, code, message, "Reading failed");
        self.failures += 1;
        let refused = matches!(code, 401 | 403 | 404 | 405);
        if refused || self.failures >= FAILURES {
            let state = if matches!(code, 401 | 403) { State::Forbidden } else { State::Failed };
            self.synced = false;
            self.shared.send(Change::Unreadable(self.scope.clone(), Unreadable { state, message })).await;
            if self.shared.options.once {
                return None;
            }
        }
        self.shared.send(Change::Restarted(self.scope.clone(), reason)).await;
        if code == 404 {
            self.shared.note(&self.scope, Note::NotFound);
        }
        Some(self.delay.next(code))
    }

    /// Notes that the watch works.
    async fn proven(&mut self) {
        self.delay = Delay::default();
        self.unproven = false;
        self.readable().await;
    }

    /// Notes that the watch scope can be read and is known completely.
    async fn readable(&mut self) {
        self.failures = 0;
        if !std::mem::replace(&mut self.synced, true) {
            self.shared.send(Change::Synced(self.scope.clone())).await;
        }
    }

    /// Requests discovery if a kind may have been added or removed.
    fn announce(&self) {
        if announces_kinds(&self.scope) {
            self.shared.rediscover.notify_one();
        }
    }
}

/// Whether changes in a watch scope may mean that kinds are added or removed.
pub(super) fn announces_kinds(scope: &WatchScope) -> bool {
    scope.kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
        || scope.kind.is("apiregistration.k8s.io", "APIService")
}

#[cfg(test)]
mod tests;
