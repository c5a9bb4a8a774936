//! Kinds and objects as delivered by sources, and references to them.
//!
//! An [`Object`] stores its JSON as compact bytes, never as a parsed tree: most objects are evaluated once, so a parsed
//! value exists only during evaluation.

use std::{
    cmp::Ordering,
    fmt,
    hash::{self, Hasher as _},
    num::NonZeroU64,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{body::Body, digest::Digest};

/// A kind in one version, which is served with list and watch or found in a manifest.
///
/// Two kinds are equal if their group, plural, version and scope are: a CRD that only gets another short name remains
/// the same kind, and its objects are not listed again.
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

    /// Whether both have the same group and plural, but only one is namespaced: no server can serve both.
    pub fn has_other_scope_than(&self, other: &Self) -> bool {
        (&self.group, &self.plural, !self.namespaced) == (&other.group, &other.plural, other.namespaced)
    }

    /// Returns a namespaced kind in version `v1`, for tests.
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

/// Identifies one object for as long as kaudit runs. The uid is not part of it: an object that is deleted and created
/// again under its name keeps its key and gets another uid.
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
    /// Returns its kind, namespaced if and only if the object is: manifests do not declare the scope of a kind.
    pub fn as_placed(&self) -> Kind {
        Kind { namespaced: self.namespace.is_some(), ..Kind::clone(&self.kind) }
    }

    /// Returns its namespace, or for a Namespace its name.
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

/// A reference to one object in results and records: the fields of Kubernetes' `ObjectReference` that identify an
/// object. Where the pipeline keeps an object is its [`ObjectKey`].
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// The cluster of the object, in an audit of several clusters; `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Arc<str>>,
    /// `group/version`, or `version` for the core group.
    #[serde(default)]
    pub api_version: String,
    /// Kind, for example `Deployment`.
    #[serde(default)]
    pub kind: String,
    /// `None` for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// `metadata.name`.
    #[serde(default)]
    pub name: Arc<str>,
    /// `metadata.uid`; empty for manifests, and for objects of some aggregated APIs.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub uid: Arc<str>,
}

/// An object in any version: its kind with the group (`Deployment.apps`), and `namespace/name`.
pub type ObjectName = (String, String);

/// Displayed instead of a namespace for cluster-scoped objects.
pub const NO_NAMESPACE: &str = "(no namespace)";

/// Returns the displayed name of a namespace in one of several clusters: `staging: shop`.
pub fn place(cluster: &str, namespace: Option<&str>) -> Arc<str> {
    format!("{cluster}: {}", namespace.unwrap_or(NO_NAMESPACE)).into()
}

impl ObjectRef {
    /// Creates a reference to the object with this key and uid.
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

    /// Returns a Deployment, for tests.
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self {
            cluster: None,
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".into()),
            name: "api".into(),
            uid: "u".into(),
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

    /// Returns the displayed name of its namespace, with the cluster if there are several: `shop`, or `staging: shop`.
    /// `None` for cluster-scoped objects of the only cluster.
    pub fn place(&self) -> Option<Arc<str>> {
        match &self.cluster {
            Some(cluster) => Some(place(cluster, self.namespace.as_deref())),
            None => self.namespace.clone(),
        }
    }

    /// Returns `namespace/name`, or the name alone.
    pub fn path(&self) -> String {
        let namespace = self.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        namespace.map_or_else(|| self.name.to_string(), |namespace| format!("{namespace}/{}", self.name))
    }

    /// Returns its kind and its name, the latter with the cluster if there are several.
    pub fn as_name(&self) -> ObjectName {
        (self.kind_with_group(), self.cluster_prefix() + &self.path())
    }

    /// Returns the prefix of names if there are several clusters, for example `staging: `; otherwise the empty string.
    pub fn cluster_prefix(&self) -> String {
        self.cluster.as_ref().map_or(String::new(), |cluster| format!("{cluster}: "))
    }

    /// Returns the uid, or for an object without one its kind and name. It is not unique for every object: see
    /// [`Self::identity`].
    pub fn uid_or_name(&self) -> String {
        if !self.uid.is_empty() {
            return self.uid.to_string();
        }
        format!("{}/{}/{}/{}", self.group(), self.kind, self.namespace.as_deref().unwrap_or_default(), self.name)
    }

    /// Returns the identity of the object in any version: its kind and its uid, if it has one. Some API servers serve
    /// one object as two kinds, with the same uid.
    pub fn identity(&self) -> String {
        if self.uid.is_empty() {
            return self.uid_or_name();
        }
        format!("{}/{}/{}", self.group(), self.kind, self.uid)
    }
}

/// Shows `Kind namespace/name`.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.path())
    }
}

/// The maximum number of owners above an object: the Pod of a `CronJob` has two, those of operators a few more.
pub(crate) const MOST_OWNERS: usize = 16;

/// The controller of an object: the owner in `metadata.ownerReferences` that manages it, for example the Job of a Pod.
#[derive(Debug, PartialEq, Eq)]
pub struct Controller {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// Kind, for example `ReplicaSet`.
    pub kind: Box<str>,
    /// `metadata.name`. Its namespace is that of the object, if it has one.
    pub name: Arc<str>,
    /// `metadata.uid`; never empty.
    pub uid: Arc<str>,
}

/// The location of an object in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The file as the user named it; `-` for standard input.
    pub file: Arc<str>,
    /// First line of the object, from 1.
    pub line: usize,
}

/// Identifies a state of an object by its `resourceVersion`, which clients may only compare for equality: the number if
/// it is one (etcd's revision), or a hash of any other text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectVersion(NonZeroU64);

impl ObjectVersion {
    /// Returns the state of a `resourceVersion`; `None` for manifests, and for objects of some aggregated APIs, which
    /// have none.
    pub fn of(resource_version: &str) -> Option<Self> {
        if resource_version.is_empty() {
            return None;
        }
        // Numbers become odd and hashes even, so that no number equals a hash.
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

    /// Returns a state, for tests.
    #[cfg(test)]
    pub(crate) const fn sample(number: u64) -> Self {
        match NonZeroU64::new(number) {
            Some(number) => Self(number),
            None => Self(NonZeroU64::MIN),
        }
    }
}

/// A hash of the fields of an object that a policy set can read. As long as it is the same, so is the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Projected {
    /// The policy set.
    pub policies: Digest,
    /// The hash; each process computes another one.
    pub hash: NonZeroU64,
}

/// Parses a number in its canonical notation; `None` for any other text, and if the number needs more than 63 bits.
fn plain_number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|number| plain && *number <= u64::MAX >> 1)
}

/// A `metadata.resourceVersion`, reduced to the state it identifies; empty for manifests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceVersion(Option<ObjectVersion>);

impl ResourceVersion {
    /// Returns the state that it identifies; `None` if it is empty.
    pub fn state(self) -> Option<ObjectVersion> {
        self.0
    }
}

impl<T: AsRef<str>> From<T> for ResourceVersion {
    fn from(text: T) -> Self {
        Self(ObjectVersion::of(text.as_ref()))
    }
}

/// An object in one state.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its kind, namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`; empty for manifests without one.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`; empty for manifests.
    pub resource_version: ResourceVersion,
    /// The JSON of the object with `apiVersion` and `kind`, without most of `managedFields` and without Secret values.
    pub body: Body,
    /// Its location in a manifest; `None` for objects of a cluster.
    pub location: Option<Location>,
    /// The controller that manages it, if any.
    pub controller: Option<Arc<Controller>>,
    /// Whether it is finished and remains only as a record: see [`source::inactive`](crate::source::inactive).
    pub inactive: bool,
    /// The hash that its reader has computed for the pipeline.
    pub projected: Option<Projected>,
}

impl Object {
    /// Returns its state; `None` for manifests, and for objects of some aggregated APIs.
    pub fn state(&self) -> Option<ObjectVersion> {
        self.resource_version.state()
    }

    /// Returns an object with this JSON body and otherwise empty fields, for tests.
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
    use super::*;

    #[test]
    fn states_are_equal_when_their_versions_are() {
        let versions = ["1", "01", "10", "", "a", "9223372036854775807", "9223372036854775808", "+1", "1 ", "0", "00"];
        for (index, version) in versions.iter().enumerate() {
            for (other_index, other) in versions.iter().enumerate() {
                let equal = ObjectVersion::of(version) == ObjectVersion::of(other);
                assert_eq!(equal, index == other_index, "{version} and {other}");
            }
        }
        assert_eq!(ObjectVersion::of(""), None);
        assert_eq!(ResourceVersion::from("7".to_owned()).state(), ObjectVersion::of("7"));
        assert_eq!(size_of::<ResourceVersion>(), 8);
    }
}
