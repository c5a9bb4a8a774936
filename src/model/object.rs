//! Kinds and objects: what a source delivers, and references to them.
//!
//! An [`Object`] holds its JSON as compact bytes, never as a parsed tree: most objects are looked at once, so a
//! value exists only while it is judged.

use std::{
    cmp::Ordering,
    fmt,
    hash::{self, Hasher as _},
    num::NonZeroU64,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{body::Body, digest::Digest};

/// One (group, version, plural) that is served with list and watch, or met in a manifest.
///
/// Two are equal when group, plural, version and scope are: a CRD that only gets another short name stays the same
/// kind, and nothing is listed again.
#[derive(Debug, Clone)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// The version that kaudit reads, e.g. `v1`.
    pub version: String,
    /// Plural resource name, as in the URL: `deployments`.
    pub plural: String,
    /// The kind's name: `Deployment`.
    pub kind: String,
    /// Singular resource name; may be empty.
    pub singular: String,
    /// Short names, e.g. `deploy`.
    pub short_names: Vec<String>,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
}

impl Kind {
    /// Returns `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether this is `kind` of `group`, in any version.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    /// Whether both are the same kind, perhaps in different versions.
    pub fn is_version_of(&self, other: &Self) -> bool {
        (&self.group, &self.plural, self.namespaced) == (&other.group, &other.plural, other.namespaced)
    }

    /// Whether one is namespaced and the other is not, and both have the same name: both cannot be served.
    pub fn has_other_scope_than(&self, other: &Self) -> bool {
        (&self.group, &self.plural, !self.namespaced) == (&other.group, &other.plural, other.namespaced)
    }

    /// A namespaced kind `v1`, for tests.
    #[cfg(test)]
    pub(crate) fn sample(group: &str, plural: &str, kind: &str) -> Arc<Self> {
        Arc::new(Self {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            namespaced: true,
        })
    }

    fn identity(&self) -> (&str, &str, &str, bool) {
        (&self.group, &self.plural, &self.version, self.namespaced)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Kind {}

impl hash::Hash for Kind {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.plural.hash(state);
        self.group.hash(state);
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Shows `plural` or `plural.group`, the way kubectl names a resource.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// Names one object for as long as kaudit runs. The uid is not part of it: delete and create under one name is seen
/// as a change of the uid below one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its kind, in the version that is read.
    pub kind: Arc<Kind>,
    /// Its namespace; `None` for cluster-scoped objects (and manifests that name none).
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
    /// Distinguishes manifests that repeat one name (overlays, generated names); always 0 for objects of a cluster.
    pub copy: u32,
}

impl ObjectKey {
    /// Returns its kind with the scope that the object shows: manifests do not declare that of a kind.
    pub fn as_placed(&self) -> Kind {
        Kind { namespaced: self.namespace.is_some(), ..Kind::clone(&self.kind) }
    }

    /// Returns the namespace that it is in or, of a Namespace, its own name.
    pub fn own_namespace(&self) -> Option<&str> {
        let own = || self.kind.is("", "Namespace").then_some(&*self.name);
        self.namespace.as_deref().or_else(own)
    }

    /// Returns `namespace/name`, or the name alone.
    pub fn path(&self) -> String {
        self.namespace.as_ref().map_or_else(|| self.name.to_string(), |namespace| format!("{namespace}/{}", self.name))
    }
}

/// Shows `Kind namespace/name`.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// A reference to one object, as results and records name it: the fields of Kubernetes' `ObjectReference` that say which
/// object it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// The cluster that it is in, in an audit of several; `None` in others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Arc<str>>,
    /// `group/version`, or `version` for the core group.
    #[serde(default)]
    pub api_version: String,
    /// Kind, such as `Deployment`.
    #[serde(default)]
    pub kind: String,
    /// `None` for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// `metadata.name`.
    #[serde(default)]
    pub name: Arc<str>,
    /// `metadata.uid`; empty for manifests, and for objects of odd aggregated APIs.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub uid: Arc<str>,
}

/// An object in whatever version: its kind with the group (`Deployment.apps`), and `namespace/name`.
pub type ObjectName = (String, String);

/// How people read that an object is in no namespace.
pub const NO_NAMESPACE: &str = "(no namespace)";

/// Returns a namespace of one of several clusters as people read it: `staging: shop`.
pub fn place(cluster: &str, namespace: Option<&str>) -> Arc<str> {
    format!("{cluster}: {}", namespace.unwrap_or(NO_NAMESPACE)).into()
}

impl ObjectRef {
    /// Refers to the object that has this key and uid.
    pub fn new(key: &ObjectKey, uid: &Arc<str>) -> Self {
        Self {
            cluster: None,
            api_version: key.kind.api_version(),
            kind: key.kind.kind.clone(),
            // A manifest may have an empty one.
            namespace: key.namespace.clone().filter(|namespace| !namespace.is_empty()),
            name: Arc::clone(&key.name),
            uid: Arc::clone(uid),
        }
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the kind, with its group if it has one: `Deployment.apps`.
    pub fn kind_with_group(&self) -> String {
        let group = self.group();
        if group.is_empty() { self.kind.clone() } else { format!("{}.{group}", self.kind) }
    }

    /// Returns its namespace as people read it, with the cluster if there are several: `shop`, or `staging: shop`. `None` is
    /// what is in no namespace of the only cluster.
    pub fn place(&self) -> Option<Arc<str>> {
        match &self.cluster {
            Some(cluster) => Some(place(cluster, self.namespace.as_deref())),
            None => self.namespace.clone(),
        }
    }

    /// Returns it by name.
    pub fn as_name(&self) -> ObjectName {
        let namespace = self.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace}/"));
        (self.kind_with_group(), format!("{}{namespace}{}", self.cluster_prefix(), self.name))
    }

    /// Returns the prefix of names where there are several clusters, such as `staging: `; else nothing.
    pub fn cluster_prefix(&self) -> String {
        self.cluster.as_ref().map_or(String::new(), |cluster| format!("{cluster}: "))
    }

    /// Returns the uid, or for an object without one its kind and name. Not every object has another: see [`Self::identity`].
    pub fn uid_or_name(&self) -> String {
        if !self.uid.is_empty() {
            return self.uid.to_string();
        }
        format!("{}/{}/{}/{}", self.group(), self.kind, self.namespace.as_deref().unwrap_or_default(), self.name)
    }

    /// Returns what identifies the object in whatever version it is read: its kind and its uid, if it has one. Some API servers
    /// serve one object as two kinds, with one uid.
    pub fn identity(&self) -> String {
        if self.uid.is_empty() {
            return self.uid_or_name();
        }
        format!("{}/{}/{}", self.group(), self.kind, self.uid)
    }
}

/// Owners of owners that are looked for. A Job of a `CronJob` is one of two, operators have some more.
pub(crate) const MOST_OWNERS: usize = 16;

/// The controller of an object: the one of `metadata.ownerReferences` that manages it, such as the Job of a Pod.
#[derive(Debug, PartialEq, Eq)]
pub struct Controller {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// Kind, such as `ReplicaSet`.
    pub kind: Box<str>,
    /// `metadata.name`. Its namespace is that of the object, if it has one.
    pub name: Arc<str>,
    /// `metadata.uid`; never empty.
    pub uid: Arc<str>,
}

/// Where a manifest was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The file as the user named it; `-` for standard input.
    pub file: Arc<str>,
    /// First line of the object, from 1.
    pub line: usize,
}

/// Tells one state of an object from its others by its `resourceVersion`, as clients may only compare those for equality:
/// the number that it is (etcd's revision), or a hash of any other text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(NonZeroU64);

impl State {
    /// Returns the state of a `resourceVersion`; `None` for manifests, and for objects of odd aggregated APIs, which have
    /// none.
    pub fn of(resource_version: &str) -> Option<Self> {
        if resource_version.is_empty() {
            return None;
        }
        // Numbers are odd, hashes even: no number equals a hash.
        let bits = plain_number(resource_version).map_or_else(
            || {
                let mut hasher = hash::DefaultHasher::new();
                hasher.write(resource_version.as_bytes());
                hasher.finish() << 1
            },
            |number| number << 1 | 1,
        );
        Some(Self(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MAX)))
    }

    /// A state, for tests.
    #[cfg(test)]
    pub(crate) const fn sample(number: u64) -> Self {
        match NonZeroU64::new(number) {
            Some(number) => Self(number),
            None => Self(NonZeroU64::MIN),
        }
    }
}

/// A hash of what a set of policies can read of an object: as long as it stays the same, so do its verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Projected {
    /// The set.
    pub policies: Digest,
    /// The hash; it differs from process to process.
    pub hash: NonZeroU64,
}

/// Returns the number that a text is the usual notation of; `None` if it needs more than 63 bits.
fn plain_number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|number| plain && *number <= u64::MAX >> 1)
}

/// A `metadata.resourceVersion`, as far as clients may look at it; that of manifests is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceVersion(Option<State>);

impl ResourceVersion {
    /// Returns which state of its object it names; `None` if it is empty.
    pub fn state(self) -> Option<State> {
        self.0
    }
}

impl<T: AsRef<str>> From<T> for ResourceVersion {
    fn from(text: T) -> Self {
        Self(State::of(text.as_ref()))
    }
}

/// A `metadata.uid` in few bytes: nearly all are UUIDs, of which the notation need not be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uid {
    /// One in the notation that API servers use: lower case, with hyphens.
    Uuid([u8; 16]),
    /// Any other text; empty for manifests without one.
    Text(Arc<str>),
}

/// The places of the hyphens in a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    /// Returns the text.
    pub fn text(&self) -> Arc<str> {
        let bytes = match self {
            Self::Uuid(bytes) => bytes,
            Self::Text(text) => return Arc::clone(text),
        };
        let mut text = String::with_capacity(36);
        for byte in bytes {
            if HYPHENS.contains(&text.len()) {
                text.push('-');
            }
            text.extend([byte >> 4, byte & 0xf].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default()));
        }
        text.into()
    }
}

impl From<&Arc<str>> for Uid {
    fn from(text: &Arc<str>) -> Self {
        uuid(text).map_or_else(|| Self::Text(Arc::clone(text)), Self::Uuid)
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, text: &str) -> bool {
        match self {
            Self::Uuid(bytes) => uuid(text) == Some(*bytes),
            Self::Text(known) => **known == *text,
        }
    }
}

/// Returns the bytes of a UUID in the notation of [`Uid::Uuid`].
fn uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens = text.bytes().enumerate().filter(|(_, byte)| *byte == b'-').map(|(place, _)| place);
    if text.len() != 36 || !hyphens.eq(HYPHENS) {
        return None;
    }
    let mut digits = text.bytes().filter(|byte| *byte != b'-').map(|byte| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    });
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    Some(bytes)
}

/// One object in one state.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its kind, namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`; empty for manifests without one.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`; empty for manifests.
    pub resource_version: ResourceVersion,
    /// The JSON of the object with `apiVersion` and `kind`, without most of `managedFields`, Secret values taken out.
    pub body: Body,
    /// For manifests only.
    pub location: Option<Location>,
    /// What manages it, if it says so.
    pub controller: Option<Arc<Controller>>,
    /// Whether it is over and stays only as a record: see [`source::inactive`](crate::source::inactive).
    pub inactive: bool,
    /// What its reader has found out for the pipeline.
    pub projected: Option<Projected>,
}

impl Object {
    /// Returns which state this is, as [`State::of`] does.
    pub fn state(&self) -> Option<State> {
        self.resource_version.state()
    }

    /// One with this body (JSON) and nothing else known of it, for tests.
    #[cfg(test)]
    pub(crate) fn sample(key: ObjectKey, body: &[u8]) -> Self {
        Self {
            key,
            uid: "".into(),
            resource_version: "".into(),
            body: Body::plain(body),
            location: None,
            controller: None,
            inactive: false,
            projected: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn states_are_equal_when_their_versions_are() {
        let versions = ["1", "01", "10", "", "a", "9223372036854775807", "9223372036854775808", "+1", "1 ", "0", "00"];
        for (place, version) in versions.iter().enumerate() {
            for (other_place, other) in versions.iter().enumerate() {
                assert_eq!(State::of(version) == State::of(other), place == other_place, "{version} and {other}");
            }
        }
        assert_eq!(State::of(""), None);
        assert_eq!(ResourceVersion::from("7".to_owned()).state(), State::of("7"));
    }

    #[test]
    fn a_uid_takes_few_bytes() {
        assert!(size_of::<Uid>() <= 24 && size_of::<ResourceVersion>() == 8);
        let uuid: Arc<str> = "0b9f6a1c-7e1f-4a2b-9c3d-00ff10e2a9d4".into();
        assert!(matches!(Uid::from(&uuid), Uid::Uuid(_)));
    }

    proptest! {
        #[test]
        fn a_uid_is_the_text_that_it_was(
            text in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-fA-F-]{30,40}|\\PC*",
            other in "[0-9a-fA-F-]{36}",
        ) {
            let (text, other): (Arc<str>, Arc<str>) = (text.into(), other.into());
            let uid = Uid::from(&text);
            prop_assert_eq!(uid.text(), Arc::clone(&text));
            prop_assert!(uid == *text);
            prop_assert_eq!(uid == *other, text == other);
            prop_assert_eq!(uid == Uid::from(&other), text == other);
        }
    }
}
