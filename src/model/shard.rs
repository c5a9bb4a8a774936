//! Shards: several processes that share the namespaces of one cluster.
//!
//! A namespace belongs to the shard given by jump consistent hashing (Lamping and Veach 2014, as in kube-state-metrics)
//! of its name, so that going from N to N + 1 shards moves one in N + 1 namespaces, and only to the new shard.
//! Cluster-scoped objects belong to shard 0.
//!
//! Each shard receives all objects, and of those that it does not own it parses only the namespace. Servers since
//! Kubernetes 1.36 can omit such objects (alpha): lists and watches take
//! `shardSelector=shardRange(object.metadata.namespace,'0x…','0x…')` over FNV-1a 64 of the namespace, and
//! `metadata.shardInfo` of a list confirms that the server has done so. To use this, a shard would have to be a range of
//! that hash, which moves more namespaces when the number of shards changes, and responses without `shardInfo` would
//! have to be filtered as today.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest, Sha256};

use crate::model::object::Kind;

/// The maximum number of shards; each has its own Lease, and its own objects with the shard's index in their names.
const MOST: u32 = 1_000;

/// One of several shards, or the only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    index: u32,
    of: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Shard {
    /// The only shard, which owns everything.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Parses `I/N`, with I from 0, or `auto/N`, with I the ordinal at the end of `host`, as in pods of a
    /// `StatefulSet`.
    ///
    /// # Errors
    /// Describes the expected form.
    pub fn parse(text: &str, host: Option<&str>) -> Result<Self, String> {
        let form = || "expected I/N such as 0/3, or auto/3 in a pod of a StatefulSet".to_owned();
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let (index, of) = text.trim().split_once('/').ok_or_else(form)?;
        let of: u32 = number(of).ok_or_else(form)?;
        let index: u32 = if index == "auto" {
            let ordinal = host.and_then(|host| number(host.rsplit_once('-')?.1));
            ordinal.ok_or("auto requires a HOSTNAME that ends with a number, such as kaudit-2")?
        } else {
            number(index).ok_or_else(form)?
        };
        if of == 0 || of > MOST {
            return Err(format!("there can be 1 to {MOST} shards"));
        }
        if index >= of {
            return Err(format!("the index must be from 0 to {} for {of} shards, not {index}", of - 1));
        }
        Ok(Self { index, of })
    }

    /// Whether it is the only shard, which owns everything.
    pub fn is_whole(self) -> bool {
        self.of == 1
    }

    /// Returns the number of shards.
    pub fn count(self) -> u32 {
        self.of
    }

    /// Whether the objects of a namespace are evaluated and recorded by this shard; `None` for cluster-scoped objects.
    pub fn owns(self, namespace: Option<&str>) -> bool {
        match namespace {
            _ if self.is_whole() => true,
            None => self.index == 0,
            Some(name) => jump(key(name), self.of) == self.index,
        }
    }

    /// Whether this shard reads objects of a kind in a namespace. All shards read Namespaces, because the evaluation of
    /// objects depends on their Namespace.
    pub fn reads(self, kind: &Kind, namespace: Option<&str>) -> bool {
        kind.is("", "Namespace") || self.owns(namespace)
    }

    /// Returns all shards, including this one.
    pub fn all(self) -> impl Iterator<Item = Self> {
        (0..self.of).map(move |index| Self { index, ..self })
    }

    /// Returns the name of an object that each shard has: `base`, followed by the index if there are several shards.
    pub fn name(self, base: &str) -> String {
        if self.is_whole() { base.to_owned() } else { format!("{base}-{}", self.index) }
    }
}

/// Serialized as `I/N`.
impl Serialize for Shard {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Shard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?, None).map_err(D::Error::custom)
    }
}

/// Shows `I/N`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// Returns the first eight bytes of the name's SHA-256: the same in every version, and evenly distributed even for
/// numbered names.
fn key(name: &str) -> u64 {
    let digest = Sha256::digest(name);
    digest.iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte))
}

/// Returns the result of jump consistent hashing: a bucket below `buckets`, which is not 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as in the paper: positive, and cut to the bucket below"
)]
fn jump(mut key: u64, buckets: u32) -> u32 {
    let (mut bucket, mut next) = (0, 0.0);
    while next < f64::from(buckets) {
        bucket = next as u32;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        // 31 bits are left, which a float can represent.
        next = f64::from(bucket + 1) * (f64::from(1_u32 << 31) / f64::from((key >> 33) as u32 + 1));
    }
    bucket
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(text: &str) -> Shard {
        Shard::parse(text, None).unwrap()
    }

    fn owner(name: &str, of: u32) -> u32 {
        let owners: Vec<_> = (0..of).filter(|index| shard(&format!("{index}/{of}")).owns(Some(name))).collect();
        let [owner] = owners[..] else { panic!("{name} belongs to {owners:?} of {of}") };
        owner
    }

    #[test]
    fn each_namespace_has_one_owner_for_ever() {
        // The values when this was written: other results would move namespaces between shards at an upgrade.
        let names = ["default", "kube-system", "shop", "billing", "team-1", "team-2"];
        let owners = [2, 3, 5].map(|of| names.map(|name| owner(name, of)));
        assert_eq!(owners, [[1, 0, 1, 0, 0, 1], [2, 2, 1, 0, 2, 1], [2, 2, 1, 0, 2, 1]]);
    }

    #[test]
    fn jump_hashing_matches_the_paper() {
        // Known results of other implementations.
        for (key, buckets, bucket) in
            [(1, 1, 0), (42, 57, 43), (0xDEAD_10CC, 1, 0), (0xDEAD_10CC, 666, 361), (256, 1_024, 520)]
        {
            assert_eq!(jump(key, buckets), bucket, "{key} {buckets}");
        }
    }

    #[test]
    fn an_additional_shard_takes_only_its_part() {
        let names: Vec<_> = (0..2_000).map(|number| format!("team-{number}")).collect();
        let part = |of: u32, index: u32| names.iter().filter(|name| owner(name, of) == index).count();
        for of in [2, 3, 7] {
            for index in 0..of {
                let (fair, part) = (names.len() / of as usize, part(of, index));
                assert!(part > fair * 8 / 10 && part < fair * 12 / 10, "{part} of {fair}");
            }
            let moved: Vec<_> = names.iter().filter(|name| owner(name, of) != owner(name, of + 1)).collect();
            assert!(moved.iter().all(|name| owner(name, of + 1) == of), "only to the new one");
            assert!(moved.len() < names.len() * 12 / 10 / (of as usize + 1));
        }
    }

    #[test]
    fn cluster_scoped_objects_belong_to_the_first_shard() {
        assert!(Shard::WHOLE.owns(None) && shard("0/3").owns(None) && !shard("1/3").owns(None));
        let kind = |name: &str| Kind { namespaced: false, ..Kind::clone(&Kind::sample("", "", name)) };
        assert!(shard("1/3").reads(&kind("Namespace"), None) && !shard("1/3").reads(&kind("Node"), None));
        assert_eq!((Shard::WHOLE.name("kaudit"), shard("1/3").name("kaudit")), ("kaudit".into(), "kaudit-1".into()));
    }

    #[test]
    fn shards_are_written_as_index_and_count() {
        assert_eq!(Shard::parse("auto/3", Some("kaudit-2")), Ok(shard("2/3")));
        assert_eq!(shard("0/1"), Shard::WHOLE);
        for text in ["", "1", "3/3", "0/0", "a/2", "0/a", "-1/2", "+1/2", "auto/2", "0/5000", "0/99999999999"] {
            assert!(Shard::parse(text, None).is_err(), "{text:?}");
        }
        for host in ["kaudit", "kaudit-", "kaudit-x", "kaudit-3"] {
            assert!(Shard::parse("auto/3", Some(host)).is_err(), "{host}");
        }
    }
}
