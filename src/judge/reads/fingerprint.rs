//! What objects have in common that look the same to policies: the parts that are read, directly from the JSON, with the
//! object's own name and namespace left open.

use std::{fmt, sync::LazyLock};

use memchr::memmem;
use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use siphasher::sip128::SipHasher13;

use super::tree::{Segment, Tree};
use crate::{
    model::object::ObjectKey,
    rego::value::{Selection, Skipped},
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

    /// Returns the fingerprint of an object, given its JSON: that of others is the same only if they are of the same kind
    /// and the same in all parts, and both have a namespace or none. It differs from process to process.
    ///
    /// `None` if the JSON cannot be read, or does not hold the name and the namespace of the key as plain texts; or if
    /// something else that is read has the name of the token's volume in it.
    pub(crate) fn look(&self, key: &ObjectKey, json: &[u8]) -> Option<Look> {
        let namespace = key.namespace.as_deref();
        if !is_plain(&key.name) || !namespace.is_none_or(is_plain) {
            return None;
        }
        let out = Vec::with_capacity(4 << 10);
        let mut writer = Writer { out, key, likeness: self, met: [0; 3], token: None };
        for text in [&key.kind.group, &key.kind.version, &key.kind.plural, &key.kind.kind] {
            writer.text(text);
        }
        let mut reader = serde_json::Deserializer::from_slice(json);
        Part { tree: Some(&self.tree), place: Place::Root, writer: &mut writer }.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        let fingerprint = HASHER.hash(&writer.out).as_u128();
        let named = writer.met == [1, 1, u8::from(namespace.is_some())];
        named.then_some(Look { fingerprint, token: writer.token })
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
    Unsigned,
    Signed,
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
    /// How often metadata, the name and the namespace were met.
    met: [u8; 3],
    /// The name of the token's volume once it was met, if that is left open.
    token: Option<String>,
}

impl Writer<'_> {
    fn tag(&mut self, tag: Tag) {
        self.out.push(tag as u8);
    }

    fn bits(&mut self, tag: Tag, bits: u64) {
        self.tag(tag);
        self.out.extend_from_slice(&bits.to_ne_bytes());
    }

    fn text(&mut self, text: &str) {
        self.bits(Tag::Text, text.len() as u64);
        self.out.extend_from_slice(text.as_bytes());
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

/// Writes the parts of a value that are in a tree.
struct Part<'w, 'k, 't> {
    /// `None` if nothing is read of it.
    tree: Option<&'t Tree>,
    place: Place,
    writer: &'w mut Writer<'k>,
}

impl Part<'_, '_, '_> {
    /// Writes a scalar that is no text, if its value is read.
    fn scalar<E: Error>(self, write: impl FnOnce(&mut Writer<'_>)) -> Result<(), E> {
        self.is_no_name()?;
        if self.is_read() {
            write(self.writer);
        } else {
            self.writer.tag(Tag::Scalar);
        }
        Ok(())
    }

    fn is_read(&self) -> bool {
        self.tree.is_some_and(|tree| tree.whole || tree.seen)
    }

    fn is_no_name<E: Error>(&self) -> Result<(), E> {
        let name = matches!(self.place, Place::Name | Place::Namespace);
        if name { Err(E::custom("a name that is no text")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar(|writer| writer.tag(Tag::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(|writer| writer.tag(if value { Tag::True } else { Tag::False }))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(|writer| writer.bits(Tag::Unsigned, value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(|writer| writer.bits(Tag::Signed, value.cast_unsigned()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(|writer| writer.bits(Tag::Float, value.to_bits()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        if !self.is_read() && !matches!(self.place, Place::Name | Place::Namespace) {
            self.writer.tag(Tag::Scalar);
        } else if !self.writer.text_at(self.place, value) {
            return Err(E::custom("another name"));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.is_no_name()?;
        self.writer.tag(Tag::Array);
        match self.tree.and_then(Selection::of_elements) {
            Some(element) => loop {
                let place = self.place.element();
                let part = Part { tree: Some(element), place, writer: &mut *self.writer };
                if items.next_element_seed(part)?.is_none() {
                    break;
                }
            },
            None => while items.next_element::<Skipped>()?.is_some() {},
        }
        self.writer.tag(Tag::End);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.is_no_name()?;
        let Self { tree, place, writer } = self;
        writer.tag(Tag::Object);
        while let Some(field) = map.next_key_seed(Field { tree, place, writer: &mut *writer })? {
            match field {
                Some((tree, place)) => map.next_value_seed(Part { tree, place, writer: &mut *writer })?,
                None => {
                    map.next_value::<Skipped>()?;
                }
            }
        }
        writer.tag(Tag::End);
        Ok(())
    }
}

/// Writes the key of a field, if something of it is read, and returns what.
struct Field<'w, 'k, 't> {
    tree: Option<&'t Tree>,
    place: Place,
    writer: &'w mut Writer<'k>,
}

impl<'de, 't> DeserializeSeed<'de> for Field<'_, '_, 't> {
    type Value = Option<(Option<&'t Tree>, Place)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'t> Visitor<'_> for Field<'_, '_, 't> {
    type Value = Option<(Option<&'t Tree>, Place)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        let tree = self.tree.and_then(|tree| tree.of_field(key));
        let place = self.place.below(key);
        let met = match place {
            Place::Metadata => Some(0),
            Place::Name => Some(1),
            Place::Namespace => Some(2),
            _ => None,
        };
        if let Some(met) = met {
            self.writer.met[met] = self.writer.met[met].saturating_add(1);
        } else if tree.is_none() {
            return Ok(None);
        }
        if self.writer.likeness.token && has_token_volume(key) {
            return Err(E::custom("the name of a token's volume"));
        }
        self.writer.text(key);
        Ok(Some((tree, place)))
    }
}

/// A number that nobody can guess: of the key that `RandomState` has from the system.
pub(crate) fn random() -> u128 {
    use std::hash::{BuildHasher as _, RandomState};
    let half = || u128::from(RandomState::new().hash_one(0));
    half() << 64 | half()
}
