//! What a source says: the one type that every source delivers and the pipeline takes in.

use std::{fmt, sync::Arc};

use crate::model::{
    coverage::State,
    object::{Kind, Object},
};

/// What a source says. Within a watch scope the order counts.
#[derive(Debug)]
pub enum Change {
    /// A watch scope is to be expected.
    Appeared(WatchScope),
    /// A watch scope is there no more, and its objects with it.
    Vanished(WatchScope),
    /// A pass of discovery is complete: everything that is in scope has appeared.
    Discovered(Discovered),
    /// A new list of the watch scope begins.
    Listing(WatchScope),
    /// The present state of an object.
    Seen(WatchScope, Object),
    /// An object was deleted; its last state.
    Gone(WatchScope, Object),
    /// An object cannot be read: its name, as far as it is known, and why.
    Skipped(WatchScope, String, String),
    /// The watch scope's list is complete, or it can be read again.
    Synced(WatchScope),
    /// The watch scope cannot be read for now.
    Unreadable(WatchScope, Unreadable),
    /// A list or watch had to begin again; a word for metrics says why.
    Restarted(WatchScope, &'static str),
}

/// One list and watch: a kind, in one namespace or in all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchScope {
    /// What is read.
    pub kind: Arc<Kind>,
    /// Where it is read; `None` is the whole cluster.
    pub namespace: Option<Arc<str>>,
}

/// Shows `plural.group` and the namespace, if it is one.
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
    /// What the server said.
    pub message: String,
}

/// An API group whose kinds could not even be learned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unserved {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// What is known of the reason.
    pub message: String,
}

/// What one pass of discovery found, beside the watch scopes themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovered {
    /// Groups that are announced, but whose server does not answer.
    pub unserved: Vec<Unserved>,
    /// Kinds that are served but not in scope, with the reason.
    pub excluded: Vec<(Arc<Kind>, String)>,
}
