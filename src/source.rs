//! Where objects come from: a cluster, kind by kind, or manifests. Both say what they see as [`change::Change`]s.

pub mod change;
pub mod discovery;
pub mod inactive;
pub mod informer;
pub(crate) mod json;
pub mod manifest;
pub mod policies;
pub mod received;
mod redaction;
pub mod selection;
