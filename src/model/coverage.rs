//! The coverage of each kind, so that a kind that was not evaluated never appears as free of violations.

use serde::{Deserialize, Serialize};

/// The coverage state of a kind.
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

    /// Returns its name in JSON, metrics and the status.
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

    /// Returns it as people say it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Synced => "read",
            Self::Excluded => "excluded",
            Self::Syncing => "being read",
            Self::TimedOut => "timed out",
            Self::Failed => "could not be read",
            Self::Forbidden => "forbidden",
        }
    }
}

/// The end of the message about a file without objects, after the file's name.
pub const NO_OBJECTS: &str = ": no objects";

/// Prefix of the message of a kind that is forbidden and not needed.
pub const UNNEEDED: &str = "forbidden, and not needed: ";

/// Prefix of the message of a kind that only serves lookups and could not be read.
pub const FOR_LOOKUPS: &str = "for lookups: ";

/// The coverage of one kind.
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
    /// Its coverage state.
    pub state: State,
    /// The number of its objects in the cache.
    pub objects: usize,
    /// How many of them are inactive, and therefore not evaluated: old revisions, finished Jobs and Pods.
    #[serde(default, skip_serializing_if = "crate::model::text::is_zero")]
    pub inactive: usize,
    /// Why it is not covered; empty if it is.
    pub message: String,
}

impl Coverage {
    /// Returns the coverage of a group version that could not be read, with the reason. `group` and `version` are empty if
    /// a whole cluster could not be read.
    pub fn unread(group: String, version: String, why: String) -> Self {
        let (kind, resource) = ("*".into(), "*".into());
        Self { group, version, kind, resource, state: State::Failed, objects: 0, inactive: 0, message: why }
    }

    /// Returns the key by which coverage is sorted.
    pub(crate) fn order(&self) -> impl Ord + use<'_> {
        (&self.group, &self.resource, &self.version)
    }

    /// Whether some objects of the kind may not have been evaluated, although they should have been. An excluded kind is
    /// not a gap.
    pub fn is_gap(&self) -> bool {
        // A synced kind has a message when some of its objects could not be read.
        self.state != State::Excluded && (self.state != State::Synced || !self.message.is_empty())
    }

    /// Whether the kind is forbidden, but not needed.
    pub fn is_unneeded(&self) -> bool {
        self.message.starts_with(UNNEEDED)
    }

    /// Whether it describes documents of manifests, or a whole cluster, rather than a kind.
    pub fn is_documents(&self) -> bool {
        self.resource == "*" && self.version.is_empty()
    }

    /// Returns the name of a file that was skipped because it contains settings of a tool and no objects; `None` if this
    /// describes something else.
    pub fn settings_file(&self) -> Option<&str> {
        let left_out = self.state == State::Excluded && self.is_documents();
        self.message.strip_suffix(NO_OBJECTS).filter(|_| left_out)
    }

    /// Returns `plural` or `plural.group`, as kubectl and `--exclude` name a resource.
    pub fn name(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }
}
