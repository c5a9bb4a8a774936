//! The names of buckets and of the keys in them.

use std::{fmt, sync::Arc};

use crate::model::shard::Shard;

/// The prefix of the names of all buckets.
const PREFIX: &str = "kaudit-";
/// Names cluster-scoped objects in keys; no namespace has such a name.
const CLUSTER: &str = "_cluster";
/// The longest name of a cluster.
const LONGEST: usize = 100;

/// The key of the [identity](super::state::ClusterIdentity).
pub(crate) const IDENTITY: &str = "identity";

/// Returns the name of the bucket of a cluster.
pub(crate) fn bucket(cluster: &str) -> String {
    format!("{PREFIX}{cluster}")
}

/// Returns the name of the stream that is the bucket of a cluster, as NATS names it.
pub(crate) fn stream(cluster: &str) -> String {
    format!("KV_{PREFIX}{cluster}")
}

/// Returns the prefix of the subjects on which a cluster gets answers, so that no other cluster can read them.
pub(crate) fn inbox(cluster: &str) -> String {
    format!("_INBOX_{PREFIX}{cluster}")
}

/// Returns the cluster whose bucket is a stream; `None` for other streams.
pub(crate) fn cluster_of_stream(stream: &str) -> Option<&str> {
    stream.strip_prefix("KV_")?.strip_prefix(PREFIX).filter(|cluster| check_cluster(cluster).is_ok())
}

/// Checks that a cluster can have a bucket of its name.
///
/// # Errors
/// What the name must be.
pub(crate) fn check_cluster(name: &str) -> Result<(), String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() {
        return Err("needs a name of the cluster, such as prod-eu: set --cluster-name".into());
    }
    if name.len() > LONGEST || !name.chars().all(is_valid) {
        return Err(format!("needs a name of the cluster of at most {LONGEST} letters, digits, - and _, not {name:?}"));
    }
    Ok(())
}

/// A key of a shard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BucketKey {
    pub(crate) shard: Shard,
    pub(crate) item: BucketItem,
}

/// The kind of value at a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BucketItem {
    Heartbeat,
    State,
    Policies,
    Results(ResultsPart),
    /// Violations that were resolved; the time in microseconds since 1970.
    Ended(i64),
}

/// A part of the results in one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResultsPart {
    /// The namespace; `None` for cluster-scoped objects.
    pub(crate) place: Option<Arc<str>>,
    /// The number of parts of this place.
    pub(crate) parts: u32,
    /// This part, from 0.
    pub(crate) part: u32,
}

impl BucketKey {
    /// Parses a key; `None` for the [`IDENTITY`], and for keys of other versions of kaudit.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (shard, item) = text.split_once('.')?;
        let shard = Shard::parse(&shard.replacen('-', "/", 1), None).ok()?;
        let mut words = item.split('.');
        let item = match (words.next()?, words.next(), words.next(), words.next()) {
            ("heartbeat", None, None, None) => BucketItem::Heartbeat,
            ("state", None, None, None) => BucketItem::State,
            ("policies", None, None, None) => BucketItem::Policies,
            ("ended", Some(time), None, None) => BucketItem::Ended(time.parse().ok()?),
            ("results", Some(place), Some(parts), Some(part)) => BucketItem::Results(ResultsPart {
                place: (place != CLUSTER).then(|| place.into()),
                parts: parts.parse().ok()?,
                part: part.parse().ok()?,
            }),
            _ => return None,
        };
        let key = Self { shard, item };
        // Two texts must not be one key.
        (key.to_string() == text).then_some(key)
    }
}

/// Shows it as the bucket has it.
impl fmt::Display for BucketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.shard.to_string().replace('/', "-"))?;
        match &self.item {
            BucketItem::Heartbeat => f.write_str("heartbeat"),
            BucketItem::State => f.write_str("state"),
            BucketItem::Policies => f.write_str("policies"),
            BucketItem::Results(ResultsPart { place, parts, part }) => {
                write!(f, "results.{}.{parts}.{part}", place.as_deref().unwrap_or(CLUSTER))
            }
            BucketItem::Ended(time) => write!(f, "ended.{time}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let results =
            |place: Option<&str>| BucketItem::Results(ResultsPart { place: place.map(Arc::from), parts: 4, part: 3 });
        for item in [
            BucketItem::Heartbeat,
            BucketItem::State,
            BucketItem::Policies,
            BucketItem::Ended(5),
            results(None),
            results(Some("shop-1")),
        ] {
            let key = BucketKey { shard: Shard::WHOLE, item };
            assert_eq!(BucketKey::parse(&key.to_string()), Some(key));
        }
        for other in [
            IDENTITY,
            "0-1",
            "0-1.state.x",
            "0-1.results.shop.4",
            "0-1.ended.x",
            "0-1.results.a.b.c.d",
            "x.state",
            "1-1.state",
            "0-99999.state",
        ] {
            assert_eq!(BucketKey::parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_names_that_nats_takes_are_names_of_clusters() {
        assert_eq!(cluster_of_stream(&stream("prod-eu_1")), Some("prod-eu_1"));
        assert_eq!(cluster_of_stream("KV_other"), None);
        assert!(check_cluster("prod.eu").unwrap_err().contains("\"prod.eu\""));
        assert!(check_cluster("").is_err() && check_cluster(&"a".repeat(101)).is_err());
    }
}
