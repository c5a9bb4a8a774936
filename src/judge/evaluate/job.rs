//! The input of an evaluation.

use std::sync::Arc;

use crate::{judge::set::PolicySet, model::object::Object};

/// One object and the policies to evaluate on it.
#[derive(Debug, Clone)]
pub struct Job {
    /// The object as it is now.
    pub object: Object,
    /// The object before the change that caused the job, for policies that read transitions.
    pub previous: Option<Object>,
    /// Whether the change was a deletion; then `object` is the last state.
    pub deleted: bool,
    /// The object's Namespace, if a policy reads it and it is known.
    pub namespace: Option<Object>,
    /// The policies to evaluate.
    pub policies: Arc<PolicySet>,
}
