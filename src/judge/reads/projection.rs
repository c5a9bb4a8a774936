//! Extracts the fields that are read directly from an object's JSON: as a hash, and as a value for evaluation.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::LazyLock,
};

use regorus::Value;
use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};

use super::tree::{ReadTree, Segment};
use crate::rego::value::{self, Selection, Skipped};

/// The fields of an object that policies can read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Projection {
    /// In the form that is displayed.
    tree: ReadTree,
    /// With the reads of any field merged into the named fields, see [`ReadTree::settle`].
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
    /// How often this thread has parsed the JSON of objects.
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

    /// Returns a hash of the fields that are read, from the JSON of an object: different values have different hashes,
    /// and the order of keys is ignored. The hash differs from process to process.
    ///
    /// Returns `None` if the JSON is invalid, or has a duplicate key in an object: then only evaluation can decide.
    pub fn hash(&self, json: &[u8]) -> Option<u64> {
        #[cfg(test)]
        VISITS.set(VISITS.get() + 1);
        let mut reader = serde_json::Deserializer::from_slice(json);
        let hash = HashedParts(&self.settled).deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        Some(hash)
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

impl Selection for &ReadTree {
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

/// Hashes the parts of a value that are in a tree.
struct HashedParts<'t>(&'t ReadTree);

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

impl<'de> DeserializeSeed<'de> for HashedParts<'_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for HashedParts<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<u64, E> {
        Ok(scalar(HashTag::Null, 0))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<u64, E> {
        Ok(scalar(if value { HashTag::True } else { HashTag::False }, 0))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(scalar(HashTag::Unsigned, value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        Ok(scalar(HashTag::Signed, value.cast_unsigned()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<u64, E> {
        Ok(scalar(HashTag::Float, value.to_bits()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<u64, E> {
        Ok(text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<u64, A::Error> {
        let mut hasher = hasher(HashTag::Array);
        match self.0.of_elements() {
            Some(element) => {
                let mut length = 0;
                while let Some(hash) = items.next_element_seed(HashedParts(element))? {
                    hasher.write_u64(hash);
                    length += 1;
                }
                hasher.write_u64(length);
            }
            None => while items.next_element::<Skipped>()?.is_some() {},
        }
        Ok(hasher.finish())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let mut entries: Vec<(u64, u64)> = Vec::new();
        while let Some(field) = map.next_key_seed(HashedField(self.0))? {
            match field {
                Some((key, tree)) => entries.push((key, map.next_value_seed(HashedParts(tree))?)),
                None => {
                    map.next_value::<Skipped>()?;
                }
            }
        }
        entries.sort_unstable();
        if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(A::Error::custom("duplicate key"));
        }
        let mut hasher = hasher(HashTag::Object);
        for (key, value) in entries {
            hasher.write_u64(key);
            hasher.write_u64(value);
        }
        Ok(hasher.finish())
    }
}

/// The hash of a field's key with the tree for its value, if anything of it is read.
struct HashedField<'t>(&'t ReadTree);

impl<'de, 't> DeserializeSeed<'de> for HashedField<'t> {
    type Value = Option<(u64, &'t ReadTree)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'t> Visitor<'_> for HashedField<'t> {
    type Value = Option<(u64, &'t ReadTree)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.of_field(key).map(|child| (text(key), child)))
    }
}
