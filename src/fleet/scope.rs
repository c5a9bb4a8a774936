//! Which clusters of a fleet are read, and which are expected.

use std::{collections::BTreeMap, sync::Arc};

use super::{clusters::Cluster, view::FleetView};
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
    /// Returns the clusters of a view that are selected.
    pub(crate) fn clusters(&self, view: &FleetView) -> BTreeMap<Arc<str>, Arc<Cluster>> {
        let clusters = view.clusters.iter().filter(|(name, cluster)| self.selects(name, cluster));
        clusters.map(|(name, cluster)| (Arc::clone(name), Arc::clone(cluster))).collect()
    }

    /// Whether the bucket of a cluster is read. Which labels the cluster has is known only from its bucket.
    pub(super) fn reads(&self, name: &str) -> bool {
        self.selects_name(name) || self.expected.iter().any(|expected| expected == name)
    }

    /// Returns the view of the selected clusters.
    pub(crate) fn view(&self, view: &FleetView) -> FleetView {
        FleetView { clusters: self.clusters(view), ..view.clone() }
    }

    /// Returns the names of expected clusters that have no bucket.
    pub(crate) fn missing<'s>(&'s self, view: &FleetView) -> impl Iterator<Item = &'s str> {
        self.expected.iter().map(String::as_str).filter(|name| !view.clusters.contains_key(*name))
    }

    fn selects_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|glob| glob.matches(name))
    }

    fn selects(&self, name: &str, cluster: &Cluster) -> bool {
        self.selects_name(name) && self.labels.as_ref().is_none_or(|labels| labels.matches(&cluster.labels()))
    }
}
