//! Follows the buckets of all clusters.
//!
//! A consumer for each bucket in scope delivers what it has and every change. The list of all buckets, read again and again,
//! shows which are new, gone, or were created again, and whether a consumer has fallen behind without an error. After each
//! new connection all are read again: the server may have been restored from a backup meanwhile, and a consumer goes on after
//! the last message that it has delivered.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_nats::jetstream::kv::Operation;
use futures::{StreamExt as _, TryStreamExt as _};
use hyper::body::Bytes;
use jiff::Timestamp;
use tokio::{
    sync::{Semaphore, mpsc},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{
    keys::{self, BucketKey},
    scope::FleetScope,
};
use crate::{
    bus::nats::{NatsConnection, NatsServers, jetstream_reasons},
    cluster::backoff::Backoff,
};

/// How often the list of buckets is read.
const LIST_EVERY: Duration = Duration::from_secs(10);
/// How many buckets are read from the start at a time.
const AT_ONCE: usize = 16;
/// Delays after failures.
const RETRY: Backoff = Backoff::SHORT;
/// The longest silence of a bucket that is read from the start.
const SILENCE: Duration = Duration::from_secs(20);

/// News of a fleet.
#[derive(Debug)]
pub(crate) enum FleetUpdate {
    /// The clusters that have buckets; all others are gone.
    Clusters(BTreeSet<Arc<str>>),
    /// The servers cannot be reached, or the list of buckets cannot be read; empty if they can.
    Connection(String),
    /// The value of a key, and when the server stored it; `None` if it was deleted.
    Value(Arc<str>, BucketKey, Option<(Bytes, Timestamp)>),
    /// A bucket was read to its end; it has these keys and no others.
    Read(Arc<str>, BTreeSet<BucketKey>),
    /// A bucket cannot be read.
    Failed(Arc<str>, String),
}

impl FleetUpdate {
    /// Returns the cluster that it is about, if it is about one.
    pub(super) fn cluster(&self) -> Option<&Arc<str>> {
        match self {
            Self::Value(cluster, ..) | Self::Read(cluster, _) | Self::Failed(cluster, _) => Some(cluster),
            Self::Clusters(_) | Self::Connection(_) => None,
        }
    }
}

/// A bucket that is followed.
struct FollowedBucket {
    /// When the server created it.
    created: i128,
    /// The sequence of the last message that was received.
    received: Arc<AtomicU64>,
    /// The sequence of the last message that the bucket had when it was listed last.
    listed: u64,
    task: AbortHandle,
}

/// Sends news of all buckets in scope until the receiver is dropped.
pub(crate) async fn follow(servers: NatsServers, scope: FleetScope, updates: mpsc::Sender<FleetUpdate>) {
    let mut failures = 0;
    loop {
        let why = match servers.connect().await {
            Ok(connection) => {
                failures = 0;
                Follower::new(connection, &servers, &scope, &updates).run().await
            }
            Err(why) => format!("NATS {why}"),
        };
        failures += 1;
        if updates.send(FleetUpdate::Connection(why)).await.is_err() {
            return;
        }
        sleep(RETRY.with_jitter(failures)).await;
    }
}

struct Follower<'f> {
    connection: Arc<NatsConnection>,
    servers: &'f NatsServers,
    scope: &'f FleetScope,
    updates: &'f mpsc::Sender<FleetUpdate>,
    buckets: BTreeMap<Arc<str>, FollowedBucket>,
    tasks: JoinSet<()>,
    permits: Arc<Semaphore>,
}

impl<'f> Follower<'f> {
    fn new(
        connection: NatsConnection,
        servers: &'f NatsServers,
        scope: &'f FleetScope,
        updates: &'f mpsc::Sender<FleetUpdate>,
    ) -> Self {
        let (connection, permits) = (Arc::new(connection), Arc::new(Semaphore::new(AT_ONCE)));
        Self { connection, servers, scope, updates, buckets: BTreeMap::new(), tasks: JoinSet::new(), permits }
    }

    /// Follows until the servers cannot be reached; returns why.
    async fn run(mut self) -> String {
        let mut connects = self.connection.connects();
        loop {
            let listed = timeout(self.servers.timeout, self.list()).await;
            let buckets = match listed.unwrap_or_else(|_| Err("NATS did not list the buckets in time".to_owned())) {
                Ok(buckets) => buckets,
                Err(why) => {
                    let reported = self.connection.take_reported().map(|what| format!(": the server reported {what}"));
                    return self.connection.redact(&format!("{why}{}", reported.unwrap_or_default()));
                }
            };
            let clusters = FleetUpdate::Clusters(buckets.keys().cloned().collect());
            for update in [clusters, FleetUpdate::Connection(String::new())] {
                if self.updates.send(update).await.is_err() {
                    return String::new();
                }
            }
            let connected = self.connection.connects();
            if std::mem::replace(&mut connects, connected) != connected {
                self.buckets.values().for_each(|followed| followed.task.abort());
                self.buckets.clear();
            }
            // Only now: a view drops what it receives of a cluster that it does not know.
            self.take(buckets);
            tokio::select! {
                () = sleep(LIST_EVERY) => {}
                () = self.updates.closed() => return String::new(),
            }
            while self.tasks.try_join_next().is_some() {}
        }
    }

    /// Returns the buckets of clusters in scope: when each was created, and the sequence of its last message.
    async fn list(&self) -> Result<BTreeMap<Arc<str>, (i128, u64)>, String> {
        let streams = self.connection.context.streams();
        let buckets = streams.try_filter_map(|stream| async move {
            let created = stream.created.unix_timestamp_nanos();
            let cluster = keys::cluster_of_stream(&stream.config.name).filter(|cluster| self.scope.reads(cluster));
            Ok(cluster.map(|cluster| (Arc::from(cluster), (created, stream.state.last_sequence))))
        });
        buckets
            .try_collect()
            .await
            .map_err(|error| format!("NATS did not list the buckets: {}", jetstream_reasons(&error)))
    }

    /// Follows new buckets, and from the start again those that were created again or restored from a backup, and those whose
    /// consumer delivers nothing.
    fn take(&mut self, listed: BTreeMap<Arc<str>, (i128, u64)>) {
        self.buckets.retain(|cluster, followed| {
            let now = listed.get(cluster);
            let is_current = now.is_some_and(|(created, last)| {
                let is_behind = followed.received.load(Ordering::Relaxed) < followed.listed.min(*last);
                *created == followed.created && *last >= followed.listed && !is_behind
            });
            if !is_current {
                followed.task.abort();
            }
            is_current
        });
        for (cluster, (created, last)) in listed {
            if let Some(followed) = self.buckets.get_mut(&cluster) {
                followed.listed = last;
                continue;
            }
            // Until it is read, it cannot be behind.
            let received = Arc::new(AtomicU64::new(u64::MAX));
            let reader = BucketReader {
                connection: Arc::clone(&self.connection),
                cluster: Arc::clone(&cluster),
                updates: self.updates.clone(),
                received: Arc::clone(&received),
                permits: Arc::clone(&self.permits),
            };
            let task = self.tasks.spawn(reader.run());
            self.buckets.insert(cluster, FollowedBucket { created, received, listed: last, task });
        }
    }
}

/// Reads one bucket, from the start again after each failure.
struct BucketReader {
    connection: Arc<NatsConnection>,
    cluster: Arc<str>,
    updates: mpsc::Sender<FleetUpdate>,
    received: Arc<AtomicU64>,
    permits: Arc<Semaphore>,
}

impl BucketReader {
    async fn run(self) {
        let mut failures = 0;
        loop {
            self.received.store(u64::MAX, Ordering::Relaxed);
            let Err(why) = self.read().await else { return };
            failures += 1;
            let why = self.connection.redact(&why);
            if self.updates.send(FleetUpdate::Failed(Arc::clone(&self.cluster), why)).await.is_err() {
                return;
            }
            sleep(RETRY.with_jitter(failures)).await;
        }
    }

    /// Reads the bucket and all changes; ends without an error if the receiver is dropped.
    async fn read(&self) -> Result<(), String> {
        let mut permit = Some(self.permits.acquire().await.map_err(|error| error.to_string())?);
        let opened = timeout(SILENCE, async {
            let bucket = self.connection.context.get_key_value(keys::bucket(&self.cluster)).await;
            let bucket = bucket.map_err(|error| format!("cannot be opened: {}", jetstream_reasons(&error)))?;
            // Messages up to it are delivered at the start, unless they have expired or were deleted.
            let last = bucket.stream.cached_info().state.last_sequence;
            let watch = bucket.watch_with_history(">").await;
            let status =
                bucket.status().await.map_err(|error| format!("cannot be opened: {}", jetstream_reasons(&error)))?;
            Ok::<_, String>((
                watch.map_err(|error| format!("cannot be read: {}", jetstream_reasons(&error)))?,
                status.values(),
                last,
            ))
        });
        let (mut watch, values, last) =
            opened.await.map_err(|_| "cannot be opened: the server did not answer in time")??;
        let (mut seen, mut is_read) = (BTreeSet::new(), values == 0);
        if is_read {
            self.received.store(last, Ordering::Relaxed);
            permit = None;
            if self.send(FleetUpdate::Read(Arc::clone(&self.cluster), BTreeSet::new())).await.is_err() {
                return Ok(());
            }
        }
        loop {
            let next = async { if is_read { Ok(watch.next().await) } else { timeout(SILENCE, watch.next()).await } };
            let next = next.await.map_err(|_| "cannot be read: the server sent nothing for a while")?;
            let entry = next.ok_or("cannot be read: the consumer ended")?;
            let entry = entry.map_err(|error| format!("cannot be read: {}", jetstream_reasons(&error)))?;
            let (revision, is_last) = (entry.revision, entry.seen_current);
            if let Some(key) = BucketKey::parse(&entry.key) {
                let at = Timestamp::from_second(entry.created.unix_timestamp()).unwrap_or_default();
                let value = (entry.operation == Operation::Put).then_some((entry.value, at));
                if !is_read && value.is_some() {
                    seen.insert(key.clone());
                } else if !is_read {
                    seen.remove(&key);
                }
                if self.send(FleetUpdate::Value(Arc::clone(&self.cluster), key, value)).await.is_err() {
                    return Ok(());
                }
            }
            if is_read {
                self.received.store(revision, Ordering::Relaxed);
            } else if is_last {
                (is_read, permit) = (true, None);
                self.received.store(revision.max(last), Ordering::Relaxed);
                if self.send(FleetUpdate::Read(Arc::clone(&self.cluster), std::mem::take(&mut seen))).await.is_err() {
                    return Ok(());
                }
            }
            drop(permit.take_if(|_| is_read));
        }
    }

    async fn send(&self, update: FleetUpdate) -> Result<(), mpsc::error::SendError<FleetUpdate>> {
        self.updates.send(update).await
    }
}
