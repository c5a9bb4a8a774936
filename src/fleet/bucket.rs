//! A bucket, as the cluster that owns it reads and writes it.

use std::{collections::BTreeMap, fmt, time::Duration};

use futures::future::BoxFuture;
use hyper::body::Bytes;
use jiff::Timestamp;

/// How long the server keeps the mark of a deleted key, which tells followers of it.
pub const MARKS: Duration = Duration::from_hours(1);

/// A value, the sequence of its message, and when the server stored it, by its clock.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Grows with each write into the bucket.
    pub sequence: u64,
    /// The value.
    pub value: Bytes,
    /// When the server stored it.
    pub at: Timestamp,
}

/// One write.
#[derive(Debug, Clone)]
pub struct BucketWrite {
    /// The key.
    pub key: String,
    /// `None` deletes the key.
    pub value: Option<Vec<u8>>,
    /// The sequence of the value that is replaced, if no other may be; 0 is none.
    pub replaces: Option<u64>,
    /// After which time the server deletes it.
    pub expires: Option<Duration>,
}

/// Why a write failed.
#[derive(Debug)]
pub enum WriteError {
    /// Another value was written before.
    Replaced,
    /// Something else, in words.
    Failed(String),
}

/// Where buckets are.
pub trait BucketServer: fmt::Debug + Send + Sync {
    /// Opens the bucket of a cluster, and creates it if there is none. Fails with what to do.
    fn open<'s>(&'s self, cluster: &'s str) -> BoxFuture<'s, Result<Box<dyn ClusterBucket>, String>>;
}

/// The bucket of a cluster. Errors say what failed.
pub trait ClusterBucket: Send + Sync {
    /// Returns all values.
    fn values(&self) -> BoxFuture<'_, Result<BTreeMap<String, Kept>, String>>;

    /// Returns the value of a key; `None` if there is none.
    fn value<'s>(&'s self, key: &'s str) -> BoxFuture<'s, Result<Option<Kept>, String>>;

    /// Writes values, and returns the sequence of each, in order, once the server has stored all of them. After a failure,
    /// any of them may have been written.
    fn write<'s>(&'s self, writes: &'s [BucketWrite]) -> BoxFuture<'s, Result<Vec<u64>, WriteError>>;
}

impl BucketWrite {
    /// Replaces the value of a key.
    pub fn put(key: impl fmt::Display, value: Vec<u8>) -> Self {
        Self { key: key.to_string(), value: Some(value), replaces: None, expires: None }
    }

    /// Deletes a key.
    pub fn delete(key: impl fmt::Display) -> Self {
        Self { key: key.to_string(), value: None, replaces: None, expires: Some(MARKS) }
    }
}
