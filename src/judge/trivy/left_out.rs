//! A check that is in order and judges nothing here.

use std::fmt;

use serde::Serialize;

use super::selector::Reason;
use crate::model::verdict::Source;

/// A check of Trivy's that judges no object of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// Why; the same words for all that are left out for it.
    pub reason: String,
    /// The package without `data.`.
    pub name: String,
    /// `custom.id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where it stands.
    pub source: Source,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Types(types) => write!(f, "not for Kubernetes, but for {}", types.join(" and ")),
            Self::Node => f.write_str("about files and processes of nodes (nodeinfo), which no API server has"),
            Self::Deprecated => f.write_str("deprecated"),
            Self::Framework => f.write_str("in no framework that Trivy runs by default"),
        }
    }
}
