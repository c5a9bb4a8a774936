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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
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

impl ObjectRef {
    /// Refers to the object that has this key and uid.
    pub fn new(key: &ObjectKey, uid: &Arc<str>) -> Self {
        Self {
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

    /// Returns what identifies the object in whatever version it is read: the uid, if it has one.
    pub fn identity(&self) -> String {
        if !self.uid.is_empty() {
            return self.uid.to_string();
        }
        format!("{}/{}/{}/{}", self.group(), self.kind, self.namespace.as_deref().unwrap_or_default(), self.name)
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

/// Tells one state of an object from its others: a hash of its `resourceVersion`, as clients may only compare those for
/// equality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(NonZeroU64);

impl State {
    /// Returns the state of a `resourceVersion`; `None` for manifests, and for objects of odd aggregated APIs, which have
    /// none.
    pub fn of(resource_version: &str) -> Option<Self> {
        if resource_version.is_empty() {
            return None;
        }
        let mut hasher = hash::DefaultHasher::new();
        hasher.write(resource_version.as_bytes());
        Some(Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN)))
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

/// One object in one state.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its kind, namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`; empty for manifests without one.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`; empty for manifests.
    pub resource_version: Box<str>,
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
        State::of(&self.resource_version)
    }
}
