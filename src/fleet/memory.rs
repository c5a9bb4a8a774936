//! Buckets in memory, for tests and simulations.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use jiff::Timestamp;
use tokio::time::sleep;

use super::{
    bucket::{BucketServer, BucketWrite, ClusterBucket, Kept, WriteError},
    clusters::Cluster,
};
use crate::audit::result::AuditResult;

/// A server of buckets in memory, which can fail. Clones share the buckets.
#[derive(Debug, Clone, Default)]
pub struct MemoryServer {
    state: Arc<Mutex<MemoryState>>,
    /// How long a request takes.
    latency: Duration,
}

#[derive(Debug, Default)]
struct MemoryState {
    buckets: BTreeMap<String, BTreeMap<String, Kept>>,
    /// The sequence of the last write, in any bucket.
    sequence: u64,
    /// Keys that were written, in order.
    written: Vec<String>,
    is_down: bool,
    /// After how many writes the server stops, in the middle of a batch and without an answer.
    stops_after: Option<usize>,
    /// Keys that contain it cannot be written.
    refused: Option<String>,
}

impl MemoryServer {
    /// Makes a server whose requests take this long.
    pub fn with_latency(latency: Duration) -> Self {
        Self { latency, ..Self::default() }
    }

    /// Makes all requests fail, or succeed again.
    pub fn set_down(&self, is_down: bool) {
        let mut state = self.lock();
        (state.is_down, state.stops_after) = (is_down, None);
    }

    /// Makes the server stop after so many more writes.
    pub fn stop_after(&self, writes: usize) {
        self.lock().stops_after = Some(writes);
    }

    /// Refuses to write keys that contain a text, as a full server may.
    pub fn refuse(&self, text: &str) {
        self.lock().refused = Some(text.to_owned());
    }

    /// Loses a bucket.
    pub fn lose(&self, cluster: &str) {
        self.lock().buckets.remove(cluster);
    }

    /// Returns the values in the bucket of a cluster.
    pub fn bucket(&self, cluster: &str) -> BTreeMap<String, Kept> {
        self.lock().buckets.get(cluster).cloned().unwrap_or_default()
    }

    /// Returns the results that a view reads from the bucket of a cluster; `None` if no shard has written its state.
    ///
    /// # Errors
    /// Which value cannot be read, and why.
    pub fn result(&self, cluster: &str) -> Result<Option<AuditResult>, String> {
        Cluster::read(&cluster.into(), &self.bucket(cluster))?.result(Timestamp::now())
    }

    /// Returns the keys that were written since the last call, in order.
    pub fn take_written(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().written)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a request after the latency.
    async fn answer<T>(&self, request: impl FnOnce(&mut MemoryState) -> T) -> Result<T, String> {
        sleep(self.latency).await;
        let mut state = self.lock();
        if state.is_down { Err("the server is down".into()) } else { Ok(request(&mut state)) }
    }
}

impl BucketServer for MemoryServer {
    fn open<'s>(&'s self, cluster: &'s str) -> BoxFuture<'s, Result<Box<dyn ClusterBucket>, String>> {
        let open = async move {
            self.answer(|state| {
                state.buckets.entry(cluster.to_owned()).or_default();
            })
            .await?;
            Ok(Box::new(MemoryBucket { server: self.clone(), cluster: cluster.to_owned() }) as Box<dyn ClusterBucket>)
        };
        open.boxed()
    }
}

struct MemoryBucket {
    server: MemoryServer,
    cluster: String,
}

impl ClusterBucket for MemoryBucket {
    fn values(&self) -> BoxFuture<'_, Result<BTreeMap<String, Kept>, String>> {
        let values = async {
            let values = self.server.answer(|state| state.buckets.get(&self.cluster).cloned()).await?;
            values.ok_or_else(|| "the bucket was deleted".to_owned())
        };
        values.boxed()
    }

    fn value<'s>(&'s self, key: &'s str) -> BoxFuture<'s, Result<Option<Kept>, String>> {
        async move { Ok(self.values().await?.remove(key)) }.boxed()
    }

    fn write<'s>(&'s self, writes: &'s [BucketWrite]) -> BoxFuture<'s, Result<Vec<u64>, WriteError>> {
        let write = async move {
            let mut sequences = Vec::new();
            for write in writes {
                let stored = self.server.answer(|state| state.write(&self.cluster, write)).await;
                sequences.push(stored.map_err(WriteError::Failed)??);
            }
            Ok(sequences)
        };
        write.boxed()
    }
}

impl MemoryState {
    fn write(&mut self, cluster: &str, write: &BucketWrite) -> Result<u64, WriteError> {
        if self.refused.as_ref().is_some_and(|text| write.key.contains(text)) {
            return Err(WriteError::Failed("the bucket is full".into()));
        }
        let bucket = self.buckets.get_mut(cluster);
        let bucket = bucket.ok_or_else(|| WriteError::Failed("the bucket was deleted".into()))?;
        let known = bucket.get(&write.key).map_or(0, |kept| kept.sequence);
        if write.replaces.is_some_and(|replaces| replaces != known) {
            return Err(WriteError::Replaced);
        }
        self.sequence += 1;
        match &write.value {
            Some(value) => {
                let value = value.clone().into();
                bucket.insert(write.key.clone(), Kept { sequence: self.sequence, value, at: Timestamp::now() });
            }
            None => drop(bucket.remove(&write.key)),
        }
        self.written.push(write.key.clone());
        self.stops_after = self.stops_after.map(|left| left.saturating_sub(1));
        if self.stops_after == Some(0) {
            (self.is_down, self.stops_after) = (true, None);
            // The client does not learn that it was stored.
            return Err(WriteError::Failed("the server stopped".into()));
        }
        Ok(self.sequence)
    }
}
