//! The state of clusters in key-value buckets of `JetStream`, one bucket for each cluster.
//!
//! A kaudit that runs in a cluster [mirrors](crate::record::mirror) its results into the bucket of the cluster, and
//! `kaudit fleet` [follows](follow) all buckets. The server of NATS keeps the state; neither side has any other.
//!
//! The keys of a bucket, where `I-N` is shard I of N:
//!
//! | key | value |
//! |---|---|
//! | `identity` | which cluster writes the bucket ([`ClusterIdentity`]) |
//! | `I-N.heartbeat` | shows that the shard is running: written each minute ([`Heartbeat`]) |
//! | `I-N.state` | coverage, counts, exceptions ([`ClusterState`]) |
//! | `I-N.policies` | the policies in force |
//! | `I-N.results.PLACE.PARTS.PART` | a part of the results in a namespace, or in `_cluster` ([`part`]) |
//! | `I-N.ended.MICROSECONDS` | violations that were resolved until then; deleted by the server after a week |
//!
//! Values are JSON; all but the first two are compressed with zstd.

pub mod bucket;
pub(crate) mod clusters;
pub(crate) mod follow;
pub(crate) mod keys;
pub mod memory;
pub(crate) mod names;
mod nats_bucket;
pub(crate) mod packed;
pub(crate) mod part;
pub(crate) mod result;
#[cfg(test)]
pub(crate) mod samples;
pub(crate) mod scope;
pub(crate) mod state;
pub(crate) mod view;
