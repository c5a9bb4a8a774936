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
    /// The names of clusters that are selected in any case, and must have a bucket.
    pub(crate) expected: Vec<String>,
}

impl FleetScope {
    /// Whether the bucket of a cluster is read. Which labels the cluster has is known only from its bucket.
    pub(super) fn reads(&self, name: &str) -> bool {
        self.is_expected(name) || self.names.is_empty() || self.names.iter().any(|glob| glob.matches(name))
    }

    /// Whether a cluster is selected. One whose labels are not known is: a result without it would look complete.
    pub(super) fn selects(&self, name: &str, cluster: &Cluster) -> bool {
        let has_labels = |labels: &LabelRequirements| cluster.labels().is_none_or(|known| labels.matches(&known));
        self.is_expected(name) || (self.reads(name) && self.labels.as_ref().is_none_or(has_labels))
    }

    fn is_expected(&self, name: &str) -> bool {
        self.expected.iter().any(|expected| expected == name)
    }
}
