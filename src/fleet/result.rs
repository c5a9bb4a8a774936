//! The results of clusters as one [`AuditResult`].

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{
    clusters::{Cluster, ShardView},
    view::ClusterStatus,
};
use crate::audit::result::{AuditResult, Ended, PolicySummary};

impl Cluster {
    /// Returns the results of all its shards, sorted; `None` if there are none.
    ///
    /// # Errors
    /// If a part of them is damaged.
    pub(crate) fn result(&self, now: Timestamp) -> Result<Option<AuditResult>, String> {
        let shards: Vec<AuditResult> =
            self.shards().map(ShardView::result).filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let Some(mut result) = AuditResult::joined(shards) else { return Ok(None) };
        result.complete &= self.status(now) == ClusterStatus::Live;
        result.ended.sort_by_key(|ended| std::cmp::Reverse(ended.at));
        result.sort();
        Ok(Some(result))
    }

    /// Says why its results may be outdated or missing; `None` if they are current.
    pub(crate) fn gap(&self, now: Timestamp) -> Option<String> {
        match self.status(now) {
            ClusterStatus::Live | ClusterStatus::Incomplete => None,
            ClusterStatus::Starting => Some("kaudit has only started there".into()),
            ClusterStatus::Old(Some(at)) => Some(format!("no heartbeat since {at:.0}: these results may be outdated")),
            ClusterStatus::Old(None) => Some("there is no heartbeat".into()),
            ClusterStatus::Unreadable => self.problem(),
        }
    }
}

impl ShardView {
    /// Returns the results of the shard; `None` if it has written no state.
    fn result(&self) -> Result<Option<AuditResult>, String> {
        let Some(state) = self.state.as_deref() else { return Ok(None) };
        let mut results = Vec::new();
        for part in self.parts.values() {
            results.extend(part.entries(None)?.map(|(entry, _)| entry));
        }
        let mut ended = Vec::new();
        for part in self.ended.values() {
            ended.extend(part.entries(None)?.filter_map(|(entry, at)| Some(Ended { at: at?, entry })));
        }
        let with_counts = |policy: &PolicySummary| {
            let objects = state.counts.get(&policy.name).cloned().unwrap_or_default();
            PolicySummary { objects, ..policy.clone() }
        };
        let namespaces = state.namespaces.iter();
        Ok(Some(AuditResult {
            policies: self.policies.iter().flat_map(|policies| policies.iter()).map(with_counts).collect(),
            exceptions: state.exceptions.clone(),
            namespaces: namespaces
                .map(|(name, objects)| (Some(Arc::clone(name)).filter(|name| !name.is_empty()), *objects))
                .collect(),
            teams: state.teams.clone(),
            ended,
            ..state.result.with_results(results)
        }))
    }
}

/// Returns the results of several clusters, each with the name of its cluster. Clusters that are missing, and those that are not live, make it incomplete. `None` if no cluster has a result.
///
/// # Errors
/// If a part of the results is damaged.
pub(crate) fn merged<'m>(
    clusters: &BTreeMap<Arc<str>, Arc<Cluster>>,
    missing: impl Iterator<Item = &'m str>,
    now: Timestamp,
) -> Result<Option<AuditResult>, String> {
    let (mut checked, mut gaps) = (Vec::new(), Vec::new());
    for (name, cluster) in clusters {
        gaps.extend(cluster.gap(now).map(|why| (Arc::clone(name), why)));
        if let Some(result) = cluster.result(now)? {
            checked.push((Arc::clone(name), result));
        }
    }
    gaps.extend(missing.map(|name| (name.into(), "has no bucket".to_owned())));
    Ok(AuditResult::merged(checked, gaps))
}
