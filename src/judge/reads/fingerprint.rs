//! Sharing keys: objects with the same values in all fields that policies read, except for their own name and
//! namespace, have the same fingerprint.

use std::sync::LazyLock;

use memchr::memmem;
use regorus::Value;
use siphasher::sip128::SipHasher13;

use super::tree::{ReadTree, Segment};
use crate::{
    model::object::ObjectKey,
    rego::value::{self, PartSelection},
};

/// Keyed for this process: users cannot construct two objects with the same fingerprint, and no fingerprint outlives
/// the process.
static HASHER: LazyLock<SipHasher13> = LazyLock::new(|| SipHasher13::new_with_key(&random().to_ne_bytes()));

/// The fields of an object that determine its fingerprint.
#[derive(Debug, Clone)]
pub(crate) struct SharingFields {
    /// See [`ReadTree::settle`].
    tree: ReadTree,
    /// Whether the namespace is one of them.
    namespace: bool,
    /// Whether the name of the volume with the Pod's token is replaced by a placeholder as well.
    token: bool,
}

/// The API server's prefix for the name of the volume with a Pod's token, followed by five generated characters.
pub(crate) const TOKEN_VOLUME: &str = "kube-api-access-";

/// The sharing key of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SharingKey {
    pub(crate) fingerprint: u128,
    /// The name of the token volume, if it is replaced by a placeholder.
    pub(crate) token: Option<String>,
}

impl SharingFields {
    /// Returns the fields of a tree, which must not contain the name, nor the name of the token volume if `token` is
    /// set.
    pub(crate) fn new(mut tree: ReadTree, token: bool) -> Self {
        for field in ["apiVersion", "kind"] {
            tree.insert(&[Segment::from(field)], true);
        }
        tree.settle();
        Self { namespace: tree.covers_scalar(&["metadata", "namespace"].map(Segment::from)), token, tree }
    }

    /// Whether the namespace is part of the fingerprint.
    pub(crate) fn has_namespace(&self) -> bool {
        self.namespace
    }

    /// Returns the sharing key of an object, given the values of at least these fields and of its names. Two objects
    /// have the same fingerprint only if they are of the same kind, equal in all these fields, and both namespaced or
    /// both cluster-scoped. The fingerprint differs from process to process.
    ///
    /// Returns `None` if the object's name and namespace are not those of the key or contain special characters, or if
    /// another field that is read contains the name of the token volume.
    pub(crate) fn sharing_key(&self, key: &ObjectKey, object: &Value) -> Option<SharingKey> {
        let namespace = key.namespace.as_deref();
        if !is_plain(&key.name) || !namespace.is_none_or(is_plain) {
            return None;
        }
        let own = |field: &str| value::text(&object["metadata"][field]).map(AsRef::as_ref);
        if own("name") != Some(&*key.name) || own("namespace") != namespace {
            return None;
        }
        let out = Vec::with_capacity(4 << 10);
        let mut writer = FingerprintWriter { out, key, fields: self, token: None };
        for text in [&key.kind.group, &key.kind.version, &key.kind.plural, &key.kind.kind] {
            writer.text(text);
        }
        writer.part(Some(&self.tree), ValuePosition::Root, object)?;
        Some(SharingKey { fingerprint: HASHER.hash(&writer.out).as_u128(), token: writer.token })
    }
}

/// Whether a name is written without escapes in JSON and in messages.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte))
}

/// The position of a value in an object, as far as it matters for names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuePosition {
    Root,
    Metadata,
    Name,
    Namespace,
    Spec,
    Volumes,
    Containers,
    Container,
    /// A volume, or a volume mount.
    Volume,
    VolumeName,
    Below,
}

impl ValuePosition {
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

/// Whether the text is a name that the API server generates for a token volume.
fn is_token_volume(name: &str) -> bool {
    let made_up = name.strip_prefix(TOKEN_VOLUME).unwrap_or_default().as_bytes();
    made_up.len() == 5 && made_up.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// The type of a value, which is written before it.
#[derive(Clone, Copy)]
enum FingerprintTag {
    Null,
    False,
    True,
    Number,
    /// A number that is not an integer, or too large and written with an exponent.
    Float,
    Text,
    Array,
    Object,
    End,
    /// A scalar whose value is not read, only the fact that it is one.
    Scalar,
    /// The object's name or namespace, or the name of its token volume.
    Name,
}

/// Writes the fields that are read, so that different values produce different bytes.
struct FingerprintWriter<'k> {
    out: Vec<u8>,
    key: &'k ObjectKey,
    fields: &'k SharingFields,
    /// The name of the token volume, once encountered, if it is replaced by a placeholder.
    token: Option<String>,
}

impl FingerprintWriter<'_> {
    fn tag(&mut self, tag: FingerprintTag) {
        self.out.push(tag as u8);
    }

    fn text(&mut self, text: &str) {
        self.bytes(FingerprintTag::Text, text.as_bytes());
    }

    fn bytes(&mut self, tag: FingerprintTag, bytes: &[u8]) {
        self.tag(tag);
        self.out.extend_from_slice(&(bytes.len() as u64).to_ne_bytes());
        self.out.extend_from_slice(bytes);
    }

    /// Writes the parts of a value that are in a tree, `None` if nothing is read; returns `None` if the object cannot
    /// have a fingerprint.
    fn part(&mut self, tree: Option<&ReadTree>, place: ValuePosition, value: &Value) -> Option<()> {
        let is_name = matches!(place, ValuePosition::Name | ValuePosition::Namespace);
        let is_read = tree.is_some_and(|tree| tree.whole || tree.seen);
        match value {
            Value::String(text) if is_read || is_name => return self.text_at(place, text).then_some(()),
            _ if is_name => return None,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) if !is_read => {
                self.tag(FingerprintTag::Scalar);
            }
            Value::Null => self.tag(FingerprintTag::Null),
            Value::Bool(is_true) => self.tag(if *is_true { FingerprintTag::True } else { FingerprintTag::False }),
            // A policy can distinguish `1e25` from a 1 followed by 25 zeros, although both are written the same way
            // here.
            Value::Number(number) => {
                let is_float = number.as_i64().is_none() && number.as_big().is_none();
                let tag = if is_float { FingerprintTag::Float } else { FingerprintTag::Number };
                self.bytes(tag, &serde_json::to_vec(value).ok()?);
            }
            Value::Array(items) => {
                self.tag(FingerprintTag::Array);
                if let Some(element) = tree.and_then(PartSelection::of_elements) {
                    items.iter().try_for_each(|item| self.part(Some(element), place.element(), item))?;
                }
                self.tag(FingerprintTag::End);
            }
            Value::Object(fields) => {
                self.tag(FingerprintTag::Object);
                fields.iter_sorted().try_for_each(|(key, value)| self.field(tree, place, key, value))?;
                self.tag(FingerprintTag::End);
            }
            Value::String(_) | Value::Set(_) | Value::Undefined => return None,
        }
        Some(())
    }

    /// Writes a field of an object, if some of it is read.
    fn field(&mut self, tree: Option<&ReadTree>, place: ValuePosition, key: &Value, value: &Value) -> Option<()> {
        let key = value::text(key)?;
        let (tree, place) = (tree.and_then(|tree| tree.of_field(key)), place.below(key));
        if tree.is_none() && !matches!(place, ValuePosition::Metadata | ValuePosition::Name | ValuePosition::Namespace)
        {
            return Some(());
        }
        if self.fields.token && has_token_volume(key) {
            return None;
        }
        self.text(key);
        self.part(tree, place, value)
    }

    /// Writes a string; returns whether it is valid at its position.
    fn text_at(&mut self, place: ValuePosition, text: &str) -> bool {
        let (open, right) = match place {
            ValuePosition::Name => (true, *text == *self.key.name),
            ValuePosition::Namespace => (!self.fields.namespace, self.key.namespace.as_deref() == Some(text)),
            _ if !self.fields.token => (false, true),
            ValuePosition::VolumeName if is_token_volume(text) => {
                (true, self.token.get_or_insert_with(|| text.to_owned()) == text)
            }
            _ => (false, !has_token_volume(text)),
        };
        if open {
            self.tag(FingerprintTag::Name);
        } else {
            self.text(text);
        }
        right
    }
}

/// Whether a text may contain the name of a token volume.
fn has_token_volume(text: &str) -> bool {
    static START: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(TOKEN_VOLUME));
    text.len() >= TOKEN_VOLUME.len() && START.find(text.as_bytes()).is_some()
}

/// Returns an unpredictable number, from the keys that `RandomState` gets from the system.
pub(crate) fn random() -> u128 {
    use std::hash::{BuildHasher as _, RandomState};
    let half = || u128::from(RandomState::new().hash_one(0));
    half() << 64 | half()
}
