//! The input of an evaluation.

use std::sync::Arc;

use crate::{judge::set::PolicySet, model::object::Object};

/// One object and what it is judged by.
#[derive(Debug, Clone)]
pub struct Job {
    /// The object as it is now.
    pub object: Object,
    /// The object before the change that is the reason to judge, for policies that read transitions.
    pub previous: Option<Object>,
    /// Whether the change was its deletion; then `object` is its last state.
    pub deleted: bool,
    /// The Namespace that the object is in, if a policy reads it and it is known.
    pub namespace: Option<Object>,
    /// The policies to judge by.
    pub policies: Arc<PolicySet>,
}
