//! Leader election: which of several replicas records, by a Lease of `coordination.k8s.io`.
//!
//! The protocol is that of client-go's `leaderelection`. A candidate claims the Lease by a replace that fails when
//! somebody was faster; the leader renews it; a follower takes over when it has not seen the Lease change for its whole
//! duration. Only the own monotonic clock counts: the times in the Lease are for people.
//!
//! Invariant: no two fences are open at a time. A leader's shuts some time (`deadline`) after it *sent* the last
//! renewal that succeeded; a follower claims the Lease a longer time (`duration`) after it *saw* that renewal.
//!
//! Shards have a Lease each. While the number of shards changes, a namespace belongs to one shard of the old number and
//! one of the new, so nobody begins while a Lease of another number is held.

mod fence;
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

pub use self::{
    fence::Fence,
    store::{ClusterStore, Store},
};
use crate::cluster::error::describe;

/// How long giving the Lease back may take.
const RELEASE: Duration = Duration::from_secs(3);

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Followers wait this long after the last change that they saw.
    duration: Duration,
}

impl Times {
    /// Derives all times from how long a Lease lasts; for 15 s they are those of client-go.
    pub fn lasting(duration: Duration) -> Self {
        Self { duration }
    }

    /// A leader stops when it could not renew for this long.
    fn deadline(self) -> Duration {
        self.duration * 2 / 3
    }

    /// A leader renews this often.
    fn renew_every(self) -> Duration {
        self.duration * 2 / 15
    }

    /// A follower looks twice while a leader renews once, so that it sees that the leader is gone not much later than it can.
    fn look_every(self) -> Duration {
        self.renew_every() / 2
    }

    /// One request takes no longer, so that a connection that fell silent leaves time for others.
    fn request(self) -> Duration {
        self.deadline() / 3
    }
}

/// Returns a name that no other process has, nor a later one in the same place: what was held by a process before is
/// not this one's.
pub fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let random = RandomState::new().build_hasher().finish();
    format!("{}_{random:016x}", host.as_deref().unwrap_or("local"))
}

/// One that would lead.
pub struct Candidate<S> {
    store: S,
    me: String,
    times: Times,
    /// The Lease as it was seen last, and when that state was first seen.
    seen: Option<(Lease, Instant)>,
    /// The same of the Leases of another number of shards.
    rivals: BTreeMap<String, (Option<LeaseSpec>, Instant)>,
    /// When the last renewal that succeeded was sent.
    renewed: Instant,
    fence: watch::Sender<Instant>,
    /// The trouble that was told last.
    told: String,
}

impl<S: Store> Candidate<S> {
    /// Makes a follower with a name of its own.
    pub fn new(store: S, me: String, times: Times) -> Self {
        let now = Instant::now();
        Self {
            store,
            me,
            times,
            seen: None,
            rivals: BTreeMap::new(),
            renewed: now,
            fence: watch::channel(now).0,
            told: String::new(),
        }
    }

    /// Returns a fence that is open while this candidate leads.
    pub fn fence(&self) -> Fence {
        Fence::new(self.fence.subscribe())
    }

    /// Returns when this candidate leads. May be dropped at any time.
    pub async fn acquire(&mut self) {
        loop {
            let wait = match timeout(self.times.request() * 2, self.claim()).await {
                Ok(Ok(None)) => return,
                Ok(Ok(Some(wait))) => wait.min(self.times.look_every()),
                Ok(Err(error)) => {
                    self.failed(&error);
                    self.times.look_every()
                }
                Err(_) => self.times.look_every(),
            };
            sleep(wait).await;
        }
    }

    /// Renews the Lease. Returns when it is lost, and the fence shut. May be dropped at any time.
    pub async fn keep(&mut self) {
        let mut next = self.renewed + self.times.renew_every();
        loop {
            let until = *self.fence.borrow();
            sleep_until(next.min(until)).await;
            // A process that was frozen wakes up late.
            if Instant::now() >= until {
                return self.shut();
            }
            next = Instant::now() + self.times.renew_every();
            match timeout_at(until, timeout(self.times.request(), self.renew())).await {
                Ok(Ok(Ok(true))) => next = self.renewed + self.times.renew_every(),
                Ok(Ok(Ok(false))) => return self.shut(),
                Ok(Ok(Err(error))) => self.failed(&error),
                Ok(Err(_)) | Err(_) => debug!("No answer in time to a renewal of the Lease"),
            }
        }
    }

    /// Shuts the fence and gives the Lease back, if it is this candidate's, so that nobody has to wait for its end.
    pub async fn release(&mut self) {
        self.shut();
        if timeout(RELEASE, self.give_back()).await.is_err() {
            debug!("The Lease could not be given back in time");
        }
    }

    async fn give_back(&mut self) {
        loop {
            let Ok(Some(mut lease)) = self.store.get().await else { return };
            if holder(lease.spec.as_ref()) != Some(&self.me) {
                return;
            }
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = Some(String::new());
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            match self.store.replace(&lease).await {
                // A renewal that nobody waited for has come between.
                Err(error) if is_conflict(&error) => {}
                Err(error) => return self.failed(&error),
                Ok(_) => return,
            }
        }
    }

    fn shut(&self) {
        self.fence.send_replace(Instant::now());
    }

    /// Takes the Lease if it is free; returns how long it may not be, or `None` when it is taken.
    async fn claim(&mut self) -> kube::Result<Option<Duration>> {
        let lease = self.store.get().await?;
        if let Some(lease) = &lease {
            let now = Instant::now();
            if self.seen.as_ref().is_none_or(|(seen, _)| seen.spec != lease.spec) {
                self.seen = Some((lease.clone(), now));
            }
            let since = self.seen.as_ref().map_or(now, |(_, since)| *since);
            // Its own name is there when a request of its own was not answered.
            let free = since + self.lasts(lease.spec.as_ref());
            if holder(lease.spec.as_ref()).is_some_and(|holder| *holder != self.me) && now < free {
                return Ok(Some(free - now));
            }
        }
        // Looked at before, so that those who wait leave others in peace, and after, so that of two who claim their Leases
        // at the same time one sees the other.
        let wait = Some(self.times.look_every());
        if self.has_rivals().await? || !self.take(lease.unwrap_or_default()).await? {
            return Ok(wait);
        }
        if self.has_rivals().await? {
            self.shut();
            self.give_back().await;
            return Ok(wait);
        }
        Ok(None)
    }

    /// Whether a Lease of another number of shards may be held.
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
        if self.told != *name {
            info!(lease = name, "Waiting for the end of shards of another number, which still record");
            self.told.clone_from(name);
        }
        Ok(true)
    }

    /// How long a Lease is held after it changed. Its holder may have been told another duration.
    fn lasts(&self, spec: Option<&LeaseSpec>) -> Duration {
        let told = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        self.times.duration.max(Duration::from_secs(told.max(0).unsigned_abs().into()))
    }

    /// Writes this candidate's name into the Lease as it was read; returns whether nobody was faster.
    async fn take(&mut self, mut lease: Lease) -> kube::Result<bool> {
        let sent = Instant::now();
        let now = MicroTime(Timestamp::now());
        let before = lease.spec.take();
        let transitions = before.as_ref().map(|spec| spec.lease_transitions.unwrap_or_default().saturating_add(1));
        let seconds = self.times.duration.as_millis().div_ceil(1_000);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.me.clone()),
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

    /// Renews the Lease, unless its version has become another; returns whether it is still this candidate's.
    async fn renew(&mut self) -> kube::Result<bool> {
        let sent = Instant::now();
        let Some((mut lease, _)) = self.seen.clone() else { return Ok(false) };
        lease.spec.get_or_insert_default().renew_time = Some(MicroTime(Timestamp::now()));
        match self.store.replace(&lease).await {
            Ok(lease) => {
                self.won(lease, sent);
                Ok(true)
            }
            Err(error) if is_conflict(&error) || is_missing(&error) => {
                // Somebody else has it or edited it, or a renewal of its own was not answered.
                let lease = self.store.get().await?.filter(|lease| holder(lease.spec.as_ref()) == Some(&self.me));
                self.seen = lease.map(|lease| (lease, Instant::now()));
                Ok(self.seen.is_some())
            }
            Err(error) => Err(error),
        }
    }

    fn won(&mut self, lease: Lease, sent: Instant) {
        self.told.clear();
        self.renewed = sent;
        self.seen = Some((lease, Instant::now()));
        self.fence.send_replace(sent + self.times.deadline());
    }

    fn failed(&mut self, error: &kube::Error) {
        let what = describe(error);
        if self.told != what {
            warn!("The Lease that decides who records cannot be read or written: {what}");
            self.told = what;
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
