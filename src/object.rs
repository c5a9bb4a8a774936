//! Kinds and objects: what a source delivers and everything after it speaks of.
//!
//! An [`Object`] holds its JSON as compact bytes, never as a parsed tree: most objects are looked at once, so a
//! value exists only while it is judged.

use std::{fmt, sync::Arc};

use serde::Serialize;

use crate::cache::Body;

/// One (group, version, plural) that is served with list and watch, or met in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// What the object is.
    pub kind: Arc<Kind>,
    /// Its namespace; `None` for cluster-scoped objects (and manifests that name none).
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
    /// Tells manifests apart that repeat one name (overlays, generated names); always 0 for objects of a cluster.
    pub copy: u32,
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

/// Where a manifest stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Location {
    /// The file as the user named it; `-` for standard input.
    pub file: Arc<str>,
    /// First line of the object, from 1.
    pub line: usize,
}

/// One object in one state.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its name.
    pub key: ObjectKey,
    /// `metadata.uid`; empty for manifests without one.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`; empty for manifests.
    pub resource_version: Box<str>,
    /// The JSON of the object with `apiVersion` and `kind`, without `managedFields`, Secret values taken out.
    pub body: Body,
    /// Where it was read, for manifests.
    pub location: Option<Location>,
}
