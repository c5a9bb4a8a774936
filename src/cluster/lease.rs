//! Leader election: decides which of several replicas records, with a Lease of `coordination.k8s.io`.
//!
//! The protocol is that of client-go's `leaderelection`. A candidate claims the Lease with an update that fails if
//! another candidate was faster; the leader renews it; a follower takes over when it has not seen the Lease change for
//! its whole duration. Only the candidate's own monotonic clock counts; the times in the Lease are informative.
//!
//! Invariant: at most one fence is open at a time. A leader's fence shuts some time (`deadline`) after it *sent* the
//! last renewal that succeeded; a follower claims the Lease a longer time (`duration`) after it *saw* that renewal.
//!
//! Each shard has its own Lease. While the number of shards changes, a namespace belongs to one shard by the old number
//! and one by the new, so no candidate becomes leader while a Lease of another shard count is held.

mod fence;
mod moment;
mod store;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tracing::{debug, info, warn};

use self::moment::Moment;
pub use self::{
    fence::Fence,
    store::{ClusterStore, LeaseStore},
};
use crate::cluster::error::describe;

/// The timeout of releasing the Lease.
const RELEASE: Duration = Duration::from_secs(3);

/// The durations of leader election, all derived from that of the Lease.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// `LeaseDuration` of client-go: followers wait this long after the last renewal that they saw.
    duration: Duration,
}

impl Times {
    /// Derives all durations from that of the Lease; for 15 s they are the defaults of client-go.
    pub fn lasting(duration: Duration) -> Self {
        Self { duration }
    }

    /// Returns `RenewDeadline`: a leader stops if it could not renew the Lease for this long.
    fn deadline(self) -> Duration {
        self.duration * 2 / 3
    }

    /// Returns `RetryPeriod`: a leader renews this often.
    fn renew_every(self) -> Duration {
        self.duration * 2 / 15
    }

    /// Returns how often a follower polls: twice as often as a leader renews, so that it soon notices a released Lease.
    fn poll_every(self) -> Duration {
        self.renew_every() / 2
    }

    /// Returns the timeout of one request, which leaves time for further attempts if a connection has died.
    fn request(self) -> Duration {
        self.deadline() / 3
    }
}

/// Returns a holder identity that is unique even for a restarted container of the same Pod, which must not consider the
/// Lease of an earlier process its own.
pub fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let random = RandomState::new().build_hasher().finish();
    format!("{}_{random:016x}", host.as_deref().unwrap_or("local"))
}

/// A replica that is or may become the leader.
pub struct Candidate<S> {
    store: S,
    identity: String,
    times: Times,
    /// The last state of the Lease, and when it was first seen.
    seen: Option<(Lease, Instant)>,
    /// The Leases of other shard counts, by name: their last state, and when it was first seen.
    rivals: BTreeMap<String, (Option<LeaseSpec>, Instant)>,
    /// When the last successful renewal was sent.
    renewed: Instant,
    fence: watch::Sender<Moment>,
    /// The last message that was logged, so that it is not repeated.
    logged: String,
}

impl<S: LeaseStore> Candidate<S> {
    /// Creates a follower; `identity` must be unique.
    pub fn new(store: S, identity: String, times: Times) -> Self {
        let now = Instant::now();
        Self {
            store,
            identity,
            times,
            seen: None,
            rivals: BTreeMap::new(),
            renewed: now,
            fence: watch::channel(Moment::now()).0,
            logged: String::new(),
        }
    }

    /// Returns a fence that is open while this candidate leads.
    pub fn fence(&self) -> Fence {
        Fence::new(self.fence.subscribe())
    }

    /// Waits until this candidate leads.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn acquire(&mut self) {
        loop {
            let wait = match timeout(self.times.request() * 2, self.claim()).await {
                Ok(Ok(None)) => return,
                Ok(Ok(Some(wait))) => wait.min(self.times.poll_every()),
                Ok(Err(error)) => {
                    self.log_failure(&error);
                    self.times.poll_every()
                }
                Err(_) => self.times.poll_every(),
            };
            sleep(wait).await;
        }
    }

    /// Renews the Lease. Returns when it is lost, with the fence shut.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn keep(&mut self) {
        let mut next = self.renewed + self.times.renew_every();
        loop {
            let until = *self.fence.borrow();
            sleep_until(next.min(until.instant)).await;
            // A process that was frozen wakes up late.
            if until.has_passed() {
                return self.shut();
            }
            next = Instant::now() + self.times.renew_every();
            match timeout_at(until.instant, timeout(self.times.request(), self.renew())).await {
                Ok(Ok(Ok(true))) => next = self.renewed + self.times.renew_every(),
                Ok(Ok(Ok(false))) => return self.shut(),
                Ok(Ok(Err(error))) => self.log_failure(&error),
                Ok(Err(_)) | Err(_) => debug!("Renewing the Lease timed out"),
            }
        }
    }

    /// Shuts the fence, and releases the Lease if this candidate holds it, so that the next leader need not wait until it
    /// expires.
    pub async fn release(&mut self) {
        self.shut();
        if timeout(RELEASE, self.clear_holder()).await.is_err() {
            debug!("The Lease could not be released in time");
        }
    }

    /// Removes this candidate as the holder of the Lease.
    async fn clear_holder(&mut self) {
        loop {
            let Ok(Some(mut lease)) = self.store.get().await else { return };
            if holder(lease.spec.as_ref()) != Some(&self.identity) {
                return;
            }
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = Some(String::new());
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            match self.store.replace(&lease).await {
                // A renewal that timed out here has succeeded in the meantime.
                Err(error) if is_conflict(&error) => {}
                Err(error) => return self.log_failure(&error),
                Ok(_) => return,
            }
        }
    }

    fn shut(&self) {
        self.fence.send_replace(Moment::now());
    }

    /// Takes the Lease if it is free. Returns `None` if this candidate holds it, otherwise how long to wait.
    async fn claim(&mut self) -> kube::Result<Option<Duration>> {
        let lease = self.store.get().await?;
        if let Some(lease) = &lease {
            let now = Instant::now();
            if self.seen.as_ref().is_none_or(|(seen, _)| seen.spec != lease.spec) {
                self.seen = Some((lease.clone(), now));
            }
            let since = self.seen.as_ref().map_or(now, |(_, since)| *since);
            // The holder may be this candidate, after a request that succeeded without a response.
            let free = since + self.lasts(lease.spec.as_ref());
            if holder(lease.spec.as_ref()).is_some_and(|holder| *holder != self.identity) && now < free {
                return Ok(Some(free - now));
            }
        }
        // Checked before taking the Lease, so that a waiting candidate disturbs no other, and after, so that of two
        // that claim their Leases at the same time one sees the other.
        let wait = Some(self.times.poll_every());
        if self.has_rivals().await? || !self.take(lease.unwrap_or_default()).await? {
            return Ok(wait);
        }
        if self.has_rivals().await? {
            self.shut();
            self.clear_holder().await;
            return Ok(wait);
        }
        Ok(None)
    }

    /// Whether a Lease of another shard count may be held.
    async fn has_rivals(&mut self) -> kube::Result<bool> {
        let (now, mut before) = (Instant::now(), std::mem::take(&mut self.rivals));
        for lease in self.store.rivals().await? {
            let name = lease.metadata.name.unwrap_or_default();
            let known = before.remove(&name).filter(|(spec, _)| *spec == lease.spec);
            self.rivals.insert(name, known.unwrap_or((lease.spec, now)));
        }
        let held = self
            .rivals
            .iter()
            .find(|(_, (spec, since))| holder(spec.as_ref()).is_some() && now < *since + self.lasts(spec.as_ref()));
        let Some((name, _)) = held else { return Ok(false) };
        if self.logged != *name {
            info!(lease = name, "Waiting until replicas with another shard count stop recording");
            self.logged.clone_from(name);
        }
        Ok(true)
    }

    /// Returns how long a Lease is held after it changed. Its holder may be configured with another duration.
    fn lasts(&self, spec: Option<&LeaseSpec>) -> Duration {
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        self.times.duration.max(Duration::from_secs(seconds.max(0).unsigned_abs().into()))
    }

    /// Writes this candidate's identity into the Lease that was read; returns whether that succeeded. If not, another
    /// candidate was faster.
    async fn take(&mut self, mut lease: Lease) -> kube::Result<bool> {
        let sent = Moment::now();
        let now = MicroTime(Timestamp::now());
        let before = lease.spec.take();
        let transitions = before.as_ref().map(|spec| spec.lease_transitions.unwrap_or_default().saturating_add(1));
        let seconds = self.times.duration.as_millis().div_ceil(1_000);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions.unwrap_or_default()),
            ..before.unwrap_or_default()
        });
        let written = if lease.metadata.name.is_none() {
            self.store.create(&lease).await
        } else {
            self.store.replace(&lease).await
        };
        match written {
            Ok(lease) => {
                self.won(lease, sent);
                Ok(true)
            }
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renews the Lease unless it was changed; returns whether this candidate still holds it.
    async fn renew(&mut self) -> kube::Result<bool> {
        let sent = Moment::now();
        let Some((mut lease, _)) = self.seen.clone() else { return Ok(false) };
        lease.spec.get_or_insert_default().renew_time = Some(MicroTime(Timestamp::now()));
        match self.store.replace(&lease).await {
            Ok(lease) => {
                self.won(lease, sent);
                Ok(true)
            }
            Err(error) if is_conflict(&error) || is_missing(&error) => {
                // Another candidate holds it, a user edited it, or a renewal of its own succeeded without a response.
                let lease = self.store.get().await?.filter(|lease| holder(lease.spec.as_ref()) == Some(&self.identity));
                self.seen = lease.map(|lease| (lease, Instant::now()));
                Ok(self.seen.is_some())
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the fence after a write of the Lease that was sent at `sent` and succeeded.
    fn won(&mut self, lease: Lease, sent: Moment) {
        self.logged.clear();
        self.renewed = sent.instant;
        self.seen = Some((lease, Instant::now()));
        self.fence.send_replace(sent + self.times.deadline());
    }

    fn log_failure(&mut self, error: &kube::Error) {
        let message = describe(error);
        if self.logged != message {
            warn!("The leader election Lease cannot be read or written: {message}");
            self.logged = message;
        }
    }
}

fn holder(spec: Option<&LeaseSpec>) -> Option<&String> {
    spec?.holder_identity.as_ref().filter(|holder| !holder.is_empty())
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

#[cfg(test)]
mod tests;
