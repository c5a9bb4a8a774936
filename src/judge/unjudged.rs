//! A policy that is in order and judges nothing.

use serde::Serialize;

use crate::model::verdict::Source;

/// A policy that judges nothing, although it is in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unjudged {
    /// `ConstraintTemplate k8sfoo` or `K8sFoo all-pods`, a package without `data.`, or a rule of Kubescape's library.
    pub name: String,
    /// Why it judges nothing; the same words for all that judge nothing for it.
    pub reason: String,
    /// Where it stands.
    pub source: Source,
}
