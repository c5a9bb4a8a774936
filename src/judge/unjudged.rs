//! A policy that is in order and judges nothing.

use serde::Serialize;

use crate::model::verdict::Source;

/// A policy that judges nothing, although it is in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unjudged {
    /// `ConstraintTemplate k8sfoo` or `K8sFoo all-pods`, a package without `data.`, or a rule of Kubescape's library; a control
    /// that has none.
    pub name: String,
    /// Why it judges nothing; the same words for all that judge nothing for it.
    pub reason: String,
    /// Where it stands.
    pub source: Source,
    /// The controls of Kubescape's library that it is part of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<ControlName>,
}

/// A control of Kubescape's library.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ControlName {
    /// Such as `C-0069`.
    pub id: String,
    /// Empty if the library does not have the control.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
}
