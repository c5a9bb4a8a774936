//! What keeps judging shut until the initial sync is complete, and what it knows of each kind.

use serde::Serialize;

/// How far a kind is covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Its first list is under way.
    Syncing,
    /// All its objects are known.
    Synced,
    /// The server refuses to let kaudit read it.
    Forbidden,
    /// It could not be read for another reason.
    Failed,
    /// Its first list was not complete at `--sync-timeout`.
    TimedOut,
    /// It is not in scope, by default or by request.
    Excluded,
}
