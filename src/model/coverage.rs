//! How far each kind is covered: "not judged" must never read as "clean".

use serde::{Deserialize, Serialize};

/// How far a kind is covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Its whole list was read.
    Synced,
    /// It is not in scope, by default or by request.
    Excluded,
    /// Its first list is being read.
    Syncing,
    /// Its first list made no progress for `--sync-timeout`.
    TimedOut,
    /// It could not be read for another reason.
    Failed,
    /// The server refuses to let kaudit read it.
    Forbidden,
}

impl State {
    /// Every state, for metrics that have a series for each.
    pub const ALL: [Self; 6] =
        [Self::Synced, Self::Excluded, Self::Syncing, Self::TimedOut, Self::Failed, Self::Forbidden];

    /// Returns the word for it in JSON, metrics and the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::Excluded => "excluded",
            Self::Syncing => "syncing",
            Self::TimedOut => "timedOut",
            Self::Failed => "failed",
            Self::Forbidden => "forbidden",
        }
    }
}

/// What stands behind the name of a file that was read and left out, in the message of its coverage.
pub const NO_OBJECTS: &str = ": no objects";

/// How the message of a kind begins that may not be read and is not needed.
pub const UNNEEDED: &str = "may not be read, and is not needed: ";

/// How far one kind was covered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind; `*` where a whole group could not be read.
    pub kind: String,
    /// Plural name; `*` where a whole group could not be read.
    pub resource: String,
    /// How far it was covered.
    pub state: State,
    /// Its objects in the cache.
    pub objects: usize,
    /// How many of them are over, and not judged for that: old revisions, finished Jobs and Pods.
    #[serde(default, skip_serializing_if = "crate::model::text::is_zero")]
    pub inactive: usize,
    /// Why it is not covered; empty if it is.
    pub message: String,
}

impl Coverage {
    /// Returns that nothing of a group version could be read, and why; both are empty for a whole cluster.
    pub fn unread(group: String, version: String, why: String) -> Self {
        let (kind, resource) = ("*".into(), "*".into());
        Self { group, version, kind, resource, state: State::Failed, objects: 0, inactive: 0, message: why }
    }

    /// Returns what sorts the coverage of kinds.
    pub(crate) fn order(&self) -> impl Ord + use<'_> {
        (&self.group, &self.resource, &self.version)
    }

    /// Whether objects of the kind may have gone unjudged. A kind that was left out on purpose is no gap.
    pub fn is_gap(&self) -> bool {
        // A kind that was read has a message when some of its objects could not be.
        self.state != State::Excluded && (self.state != State::Synced || !self.message.is_empty())
    }

    /// Whether this is about documents of manifests that could not be read, not about a kind.
    pub fn is_documents(&self) -> bool {
        self.resource == "*" && self.version.is_empty()
    }

    /// Returns the name of the file that was left out because a tool has its settings there, if this is about such a file.
    pub fn settings_file(&self) -> Option<&str> {
        let left_out = self.state == State::Excluded && self.is_documents();
        self.message.strip_suffix(NO_OBJECTS).filter(|_| left_out)
    }

    /// Returns `plural` or `plural.group`, the way kubectl names a resource and `--exclude` takes it.
    pub fn name(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }
}
