//! Changes: the one type that every source delivers and the pipeline consumes.

use std::{fmt, sync::Arc};

use crate::model::{
    coverage::State,
    object::{Kind, Object, ObjectKey},
};

/// What a source reports. Within a watch scope the order counts.
#[derive(Debug, Clone)]
pub enum Change {
    /// A watch scope begins to be read.
    Appeared(WatchScope),
    /// The first watch scope is to take the place of the second, which has the same objects in another API version, when
    /// its first list is complete. Comes after it appeared.
    Succeeds(WatchScope, WatchScope),
    /// A watch scope is no longer read, and its objects are gone.
    Vanished(WatchScope),
    /// A pass of discovery is complete: every watch scope has appeared.
    Discovered(Discovered),
    /// A new list of the watch scope begins.
    Listing(WatchScope),
    /// The current state of an object.
    Seen(WatchScope, Object),
    /// An object was deleted; its last state.
    Gone(WatchScope, Object),
    /// An object that could not be read was deleted.
    GoneUnread(WatchScope, ObjectKey),
    /// An object cannot be read: its name, as far as it is known, and why.
    Skipped(WatchScope, String, String),
    /// The watch scope's watch works, and has nothing to tell.
    Quiet(WatchScope),
    /// The watch scope's list is complete, or it can be read again.
    Synced(WatchScope),
    /// The watch scope cannot be read for now.
    Unreadable(WatchScope, Unreadable),
    /// A list or watch had to begin again, with the reason as a metric's label.
    Restarted(WatchScope, &'static str),
}

/// What one list and watch covers: a kind, in one namespace or in all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchScope {
    /// The kind that is listed and watched.
    pub kind: Arc<Kind>,
    /// The namespace; `None` is the whole cluster, and any kind without namespaces.
    pub namespace: Option<Arc<str>>,
}

impl WatchScope {
    /// Returns the path of its collection on the API server.
    pub fn url_path(&self) -> String {
        let root = if self.kind.group.is_empty() { "api" } else { "apis" };
        let (version, plural) = (self.kind.api_version(), &self.kind.plural);
        match &self.namespace {
            Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
            None => format!("/{root}/{version}/{plural}"),
        }
    }

    /// Whether both are the same objects, perhaps in different API versions.
    pub fn is_version_of(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.kind.is_version_of(&other.kind)
    }
}

/// Shows `plural.group`, and the namespace if there is one.
impl fmt::Display for WatchScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, " in {namespace}"))
    }
}

/// Why a watch scope cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// [`State::Forbidden`] or [`State::Failed`].
    pub state: State,
    /// The server's words; empty where documents of a file failed, which are named one by one.
    pub message: String,
}

/// A group version whose kinds could not be discovered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unserved {
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1beta1`.
    pub version: String,
    /// Why, as far as the server says.
    pub message: String,
}

/// What one pass of discovery found, beside the watch scopes themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovered {
    /// Group versions that are registered, but whose server does not answer.
    pub unserved: Vec<Unserved>,
    /// Kinds that are served but not audited, with the reason.
    pub excluded: Vec<(Arc<Kind>, String)>,
}
