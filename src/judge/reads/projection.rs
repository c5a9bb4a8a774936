//! Extracts the fields that are read directly from an object's JSON: as a hash, and as a value for evaluation.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::LazyLock,
};

use regorus::Value;
use serde::de::Error;

use super::tree::{ReadTree, Segment};
use crate::rego::value::{self, JsonFold, JsonScalar, PartSelection};

/// The fields of an object that policies can read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Projection {
    /// The tree that is displayed.
    tree: ReadTree,
    /// The tree with the reads of any field merged into the named fields, see [`ReadTree::settle`].
    settled: ReadTree,
    /// `settled` with the identifying fields, which are the same in all states of an object.
    named: ReadTree,
}

/// The identifying fields of an object.
const NAME: [&[&str]; 6] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "generateName"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
];

/// `SipHash` with a key of this process: users cannot construct two objects with the same hash, and no hash outlives
/// the process.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

#[cfg(test)]
thread_local! {
    /// The number of times that this thread has parsed the JSON of objects.
    pub(crate) static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Projection {
    pub(crate) fn new(tree: ReadTree) -> Self {
        let mut settled = tree.clone();
        settled.settle();
        let mut named = tree.clone();
        for path in NAME {
            named.insert(&path.iter().copied().map(Segment::from).collect::<Vec<_>>(), true);
        }
        named.settle();
        Self { tree, settled, named }
    }

    /// Adds paths that are read completely.
    pub(crate) fn with(&self, paths: &[[&'static str; 2]]) -> Self {
        let mut tree = self.tree.clone();
        for path in paths {
            tree.insert(&path.map(Segment::from), true);
        }
        Self::new(tree)
    }

    /// Adds the paths of a tree.
    pub(crate) fn and(&self, other: &ReadTree) -> Self {
        let mut tree = self.tree.clone();
        tree.merge(other);
        Self::new(tree)
    }

    /// Returns a hash of the fields that are read, from the JSON of an object: different values have different hashes,
    /// and the order of keys is ignored. The hash differs from process to process.
    ///
    /// Returns `None` if the JSON is invalid, or has a duplicate key in an object: then only evaluation can decide.
    pub fn hash(&self, json: &[u8]) -> Option<u64> {
        #[cfg(test)]
        VISITS.set(VISITS.get() + 1);
        value::fold(json, &self.settled, HashFold).ok()
    }

    /// Returns the fields of an object that are read, and the identifying ones: verdicts are the same as for the whole
    /// object, and most of a typical object is skipped.
    ///
    /// # Errors
    /// If the JSON is invalid, as for [`value::from_json`].
    pub(crate) fn read(&self, json: &[u8]) -> Result<Value, serde_json::Error> {
        #[cfg(test)]
        VISITS.set(VISITS.get() + 1);
        value::from_json_parts(json, &self.named)
    }

    /// Returns the paths that are read, sorted; `path?` if only existence is read (and the value if it is a scalar),
    /// `*` for the whole object.
    pub fn paths(&self) -> Vec<String> {
        self.tree.paths()
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.fmt(f)
    }
}

impl PartSelection for &ReadTree {
    fn of_elements(self) -> Option<Self> {
        if self.whole { Some(self) } else { self.any.as_deref() }
    }

    fn of_field(self, key: &str) -> Option<Self> {
        if self.whole { Some(self) } else { self.fields.get(key).or(self.any.as_ref()).map(AsRef::as_ref) }
    }
}

/// The type of a value, which is hashed first.
#[derive(Clone, Copy)]
enum HashTag {
    Null,
    False,
    True,
    Unsigned,
    Signed,
    Float,
    Text,
    Array,
    Object,
}

fn hasher(tag: HashTag) -> impl Hasher {
    let mut hasher = KEY.build_hasher();
    hasher.write_u8(tag as u8);
    hasher
}

fn scalar(tag: HashTag, bits: u64) -> u64 {
    let mut hasher = hasher(tag);
    hasher.write_u64(bits);
    hasher.finish()
}

fn text(text: &str) -> u64 {
    let mut hasher = hasher(HashTag::Text);
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// Folds JSON into hashes.
#[derive(Clone, Copy)]
struct HashFold;

impl JsonFold for HashFold {
    type FoldedValue = u64;

    fn scalar(self, scalar: JsonScalar<'_>) -> u64 {
        match scalar {
            JsonScalar::Null => self::scalar(HashTag::Null, 0),
            JsonScalar::Bool(false) => self::scalar(HashTag::False, 0),
            JsonScalar::Bool(true) => self::scalar(HashTag::True, 0),
            JsonScalar::Unsigned(number) => self::scalar(HashTag::Unsigned, number),
            JsonScalar::Signed(number) => self::scalar(HashTag::Signed, number.cast_unsigned()),
            JsonScalar::Float(number) => self::scalar(HashTag::Float, number.to_bits()),
            JsonScalar::Text(text) => self::text(text),
        }
    }

    fn key(self, key: &str) -> u64 {
        text(key)
    }

    fn array<E: Error>(self, elements: impl Iterator<Item = Result<u64, E>>) -> Result<u64, E> {
        let (mut hasher, mut length) = (hasher(HashTag::Array), 0);
        for hash in elements {
            hasher.write_u64(hash?);
            length += 1;
        }
        hasher.write_u64(length);
        Ok(hasher.finish())
    }

    fn object<E: Error>(self, fields: impl Iterator<Item = Result<(u64, u64), E>>) -> Result<u64, E> {
        let mut fields = fields.collect::<Result<Vec<_>, E>>()?;
        fields.sort_unstable();
        if fields.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(E::custom("duplicate key"));
        }
        let mut hasher = hasher(HashTag::Object);
        for (key, value) in fields {
            hasher.write_u64(key);
            hasher.write_u64(value);
        }
        Ok(hasher.finish())
    }
}
