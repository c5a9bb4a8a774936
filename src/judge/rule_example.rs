//! The manifests that show what a rule requires.

use serde::{Deserialize, Serialize};

/// A manifest that violates a rule, and the same without the violation, as YAML; either may have several documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleExample {
    /// The one with a result.
    pub violating: String,
    /// The one without.
    pub correct: String,
}
