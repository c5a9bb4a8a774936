//! Sources of objects: a cluster, kind by kind, or manifests. Both deliver [`change::Change`]s.

pub mod change;
pub mod discovery;
pub mod inactive;
pub mod informer;
pub(crate) mod json;
pub mod manifest;
pub mod placement;
pub mod policies;
pub mod received;
mod redaction;
pub mod selection;
