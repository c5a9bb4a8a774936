//! The settings of the report recorder.

use std::sync::Arc;

use kube::Client;

use super::format::{Choice, Instance, Layout};
use crate::{metrics::Metrics, model::shard::Shard};

/// What is reported, where and how.
#[derive(Clone)]
pub struct ReportSettings {
    /// Reads and writes the reports.
    pub client: Client,
    /// Which API they are written to.
    pub choice: Choice,
    /// What one report is about.
    pub layout: Layout,
    /// The kaudit that the reports belong to.
    pub instance: Instance,
    /// The namespaces whose reports this process maintains.
    pub owned: Ownership,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// The namespaces whose reports this process maintains; others are never changed or deleted.
#[derive(Debug, Clone, Default)]
pub struct Ownership {
    /// Only these; empty is the whole cluster.
    pub namespaces: Vec<String>,
    /// Of these, those of this shard.
    pub shard: Shard,
}

impl Ownership {
    /// Whether this process maintains the reports of a namespace or, with `None`, those on cluster-scoped objects.
    pub(super) fn owns(&self, namespace: Option<&str>) -> bool {
        let named = || namespace.is_some_and(|name| self.namespaces.iter().any(|own| own == name));
        self.shard.owns(namespace) && (self.namespaces.is_empty() || named())
    }
}
