//! Which clusters of a fleet are read, and which are expected.

use super::clusters::Cluster;
use crate::model::{glob::Glob, label_requirements::LabelRequirements};

/// The clusters that the options of a run select.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetScope {
    /// Globs over names of clusters; empty selects all.
    pub(crate) names: Vec<Glob>,
    /// The labels that clusters must have.
    pub(crate) labels: Option<LabelRequirements>,
    /// The names of clusters that must have a bucket.
    pub(crate) expected: Vec<String>,
}

impl FleetScope {
    /// Whether the bucket of a cluster is read. Which labels the cluster has is known only from its bucket.
    pub(super) fn reads(&self, name: &str) -> bool {
        self.selects_name(name) || self.expected.iter().any(|expected| expected == name)
    }

    fn selects_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|glob| glob.matches(name))
    }

    /// Whether a cluster is selected.
    pub(super) fn selects(&self, name: &str, cluster: &Cluster) -> bool {
        self.selects_name(name) && self.labels.as_ref().is_none_or(|labels| labels.matches(&cluster.labels()))
    }
}
