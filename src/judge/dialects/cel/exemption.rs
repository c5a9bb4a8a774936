//! An exception of Kyverno for a policy.

use std::sync::Arc;

use jiff::Timestamp;

use super::policy::NamedExpression;
use crate::model::exception::Excuse;

/// An exception for a policy.
#[derive(Debug)]
pub(crate) struct PolicyExemption {
    pub(crate) excuse: Arc<Excuse>,
    /// If empty, it applies to every object.
    pub(crate) conditions: Vec<NamedExpression>,
    pub(crate) images: Vec<String>,
    pub(crate) values: Vec<String>,
    /// When it ends.
    pub(crate) expires: Option<Timestamp>,
}

impl PolicyExemption {
    /// Whether it excuses all violations, rather than allowing some images and values.
    pub(super) fn is_full(&self) -> bool {
        self.images.is_empty() && self.values.is_empty()
    }
}
