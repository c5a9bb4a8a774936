//! What objects have in common that look the same to policies: the parts that are read, with the object's own name and
//! namespace left open.

use std::sync::LazyLock;

use memchr::memmem;
use regorus::Value;
use siphasher::sip128::SipHasher13;

use super::tree::{Segment, Tree};
use crate::{
    model::object::ObjectKey,
    rego::value::{self, Selection},
};

/// Keyed for this process: nobody can make two objects whose fingerprints are the same, and none outlives it.
static HASHER: LazyLock<SipHasher13> = LazyLock::new(|| SipHasher13::new_with_key(&random().to_ne_bytes()));

/// The parts of an object that make its fingerprint.
#[derive(Debug, Clone)]
pub(crate) struct Likeness {
    /// See [`Tree::settle`].
    tree: Tree,
    /// Whether the namespace is one of them.
    namespace: bool,
    /// Whether the name of the volume with the Pod's token is left open, too.
    token: bool,
}

/// What the API server calls the volume with a Pod's token, before five characters that it makes up.
pub(crate) const TOKEN_VOLUME: &str = "kube-api-access-";

/// An object as others may look, too.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) fingerprint: u128,
    /// The name of the volume with its token, if that is left open.
    pub(crate) token: Option<String>,
}

impl Likeness {
    /// Of these parts, which must not have the name in them, nor that of the token's volume if that is left open.
    pub(crate) fn new(mut tree: Tree, token: bool) -> Self {
        for field in ["apiVersion", "kind"] {
            tree.insert(&[Segment::from(field)], true);
        }
        tree.settle();
        Self { namespace: tree.covers_scalar(&["metadata", "namespace"].map(Segment::from)), token, tree }
    }

    /// Whether the namespace is a part of it.
    pub(crate) fn has_namespace(&self) -> bool {
        self.namespace
    }

    /// Returns the fingerprint of an object, given the value of at least these parts and its names: that of others is the same
    /// only if they are of the same kind and the same in all parts, and both have a namespace or none. It differs from process
    /// to process.
    ///
    /// `None` if the object does not have the name and the namespace of the key as plain texts; or if something else that is
    /// read has the name of the token's volume in it.
    pub(crate) fn look(&self, key: &ObjectKey, object: &Value) -> Option<Look> {
        let namespace = key.namespace.as_deref();
        if !is_plain(&key.name) || !namespace.is_none_or(is_plain) {
            return None;
        }
        let own = |field: &str| value::text(&object["metadata"][field]).map(AsRef::as_ref);
        if own("name") != Some(&*key.name) || own("namespace") != namespace {
            return None;
        }
        let out = Vec::with_capacity(4 << 10);
        let mut writer = Writer { out, key, likeness: self, token: None };
        for text in [&key.kind.group, &key.kind.version, &key.kind.plural, &key.kind.kind] {
            writer.text(text);
        }
        writer.part(Some(&self.tree), Place::Root, object)?;
        Some(Look { fingerprint: HASHER.hash(&writer.out).as_u128(), token: writer.token })
    }
}

/// Whether a name is written the same everywhere, in JSON and in messages.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte))
}

/// Where in an object a value is, as far as it matters to its names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Metadata,
    Name,
    Namespace,
    Spec,
    Volumes,
    Containers,
    Container,
    /// A volume, or where one is mounted.
    Volume,
    VolumeName,
    Below,
}

impl Place {
    fn below(self, key: &str) -> Self {
        match (self, key) {
            (Self::Root, "metadata") => Self::Metadata,
            (Self::Root, "spec") => Self::Spec,
            (Self::Metadata, "name") => Self::Name,
            (Self::Metadata, "namespace") => Self::Namespace,
            (Self::Spec, "volumes") | (Self::Container, "volumeMounts") => Self::Volumes,
            (Self::Spec, "containers" | "initContainers" | "ephemeralContainers") => Self::Containers,
            (Self::Volume, "name") => Self::VolumeName,
            _ => Self::Below,
        }
    }

    fn element(self) -> Self {
        match self {
            Self::Volumes => Self::Volume,
            Self::Containers => Self::Container,
            _ => Self::Below,
        }
    }
}

/// Whether it is the name that the API server gives to the volume of a token.
fn is_token_volume(name: &str) -> bool {
    let made_up = name.strip_prefix(TOKEN_VOLUME).unwrap_or_default().as_bytes();
    made_up.len() == 5 && made_up.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// What a value is, which is written before it.
#[derive(Clone, Copy)]
enum Tag {
    Null,
    False,
    True,
    Number,
    /// A number that is not a whole one, or too large and written with an exponent.
    Float,
    Text,
    Array,
    Object,
    End,
    /// A scalar of which nobody reads more than that it has no parts.
    Scalar,
    /// The object's name or namespace, or that of its token's volume.
    Name,
}

/// Writes what is read, so that different parts are different bytes.
struct Writer<'k> {
    out: Vec<u8>,
    key: &'k ObjectKey,
    likeness: &'k Likeness,
    /// The name of the token's volume once it was met, if that is left open.
    token: Option<String>,
}

impl Writer<'_> {
    fn tag(&mut self, tag: Tag) {
        self.out.push(tag as u8);
    }

    fn text(&mut self, text: &str) {
        self.bytes(Tag::Text, text.as_bytes());
    }

    fn bytes(&mut self, tag: Tag, bytes: &[u8]) {
        self.tag(tag);
        self.out.extend_from_slice(&(bytes.len() as u64).to_ne_bytes());
        self.out.extend_from_slice(bytes);
    }

    /// Writes the parts of a value that are in a tree, which is `None` if nothing is read of it; `None` if the object cannot
    /// have a fingerprint.
    fn part(&mut self, tree: Option<&Tree>, place: Place, value: &Value) -> Option<()> {
        let is_name = matches!(place, Place::Name | Place::Namespace);
        let is_read = tree.is_some_and(|tree| tree.whole || tree.seen);
        match value {
            Value::String(text) if is_read || is_name => return self.text_at(place, text).then_some(()),
            _ if is_name => return None,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) if !is_read => self.tag(Tag::Scalar),
            Value::Null => self.tag(Tag::Null),
            Value::Bool(is_true) => self.tag(if *is_true { Tag::True } else { Tag::False }),
            // A policy can tell `1e25` from a one with 25 zeros, though both are the same text here.
            Value::Number(number) => {
                let is_float = number.as_i64().is_none() && number.as_big().is_none();
                let tag = if is_float { Tag::Float } else { Tag::Number };
                self.bytes(tag, &serde_json::to_vec(value).ok()?);
            }
            Value::Array(items) => {
                self.tag(Tag::Array);
                if let Some(element) = tree.and_then(Selection::of_elements) {
                    items.iter().try_for_each(|item| self.part(Some(element), place.element(), item))?;
                }
                self.tag(Tag::End);
            }
            Value::Object(fields) => {
                self.tag(Tag::Object);
                fields.iter_sorted().try_for_each(|(key, value)| self.field(tree, place, key, value))?;
                self.tag(Tag::End);
            }
            Value::String(_) | Value::Set(_) | Value::Undefined => return None,
        }
        Some(())
    }

    /// Writes the field of an object, if something of it is read.
    fn field(&mut self, tree: Option<&Tree>, place: Place, key: &Value, value: &Value) -> Option<()> {
        let key = value::text(key)?;
        let (tree, place) = (tree.and_then(|tree| tree.of_field(key)), place.below(key));
        if tree.is_none() && !matches!(place, Place::Metadata | Place::Name | Place::Namespace) {
            return Some(());
        }
        if self.likeness.token && has_token_volume(key) {
            return None;
        }
        self.text(key);
        self.part(tree, place, value)
    }

    /// Writes a text that is read; whether it is what it has to be at its place.
    fn text_at(&mut self, place: Place, text: &str) -> bool {
        let (open, right) = match place {
            Place::Name => (true, *text == *self.key.name),
            Place::Namespace => (!self.likeness.namespace, self.key.namespace.as_deref() == Some(text)),
            _ if !self.likeness.token => (false, true),
            Place::VolumeName if is_token_volume(text) => {
                (true, self.token.get_or_insert_with(|| text.to_owned()) == text)
            }
            _ => (false, !has_token_volume(text)),
        };
        if open {
            self.tag(Tag::Name);
        } else {
            self.text(text);
        }
        right
    }
}

/// Whether the name of a token's volume may be in a text.
fn has_token_volume(text: &str) -> bool {
    static START: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(TOKEN_VOLUME));
    text.len() >= TOKEN_VOLUME.len() && START.find(text.as_bytes()).is_some()
}

/// A number that nobody can guess: of the key that `RandomState` has from the system.
pub(crate) fn random() -> u128 {
    use std::hash::{BuildHasher as _, RandomState};
    let half = || u128::from(RandomState::new().hash_one(0));
    half() << 64 | half()
}
