//! Which result of an owner covers a result of its dependent.

use std::sync::Arc;

use crate::model::{digest::Digest, verdict::Finding};

/// What covers a result of a dependent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// The owner's uid.
    pub uid: Arc<str>,
    /// Which of its results; `None` while the owner is about to be evaluated.
    pub(super) result: Option<ResultDigest>,
}

/// Identifies a result among those of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResultDigest(u128);

impl ResultDigest {
    pub(super) fn of(finding: &Finding) -> Self {
        let details =
            finding.details.as_deref().map_or(String::new(), |details| serde_json::json!(details).to_string());
        let parts = [&*finding.rule.policy, &finding.rule.name, finding.outcome.word(), &finding.message, &details];
        Self(Digest::of_parts(u64::to_be_bytes, parts).half())
    }
}
