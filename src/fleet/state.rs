//! The values of a bucket other than results.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::packed;
use crate::{
    audit::{
        exceptions::ExceptionSummary,
        result::{AuditResult, Summary},
    },
    model::rule_counts::RuleCounts,
};

/// The largest count that is read: sums of the counts of all clusters must not overflow.
pub(crate) const MOST_COUNT: usize = u32::MAX as usize;

/// Which cluster writes a bucket, and which kaudit in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterIdentity {
    /// The uid of the Namespace `kube-system`, which is the same as long as the cluster exists.
    pub(crate) uid: String,
    /// Namespace and name of the `Audit` of this kaudit.
    pub(crate) instance: String,
}

/// A shard whose last heartbeat is older is old: kaudit does not run there, or cannot reach the servers.
const OLD: Duration = Duration::from_mins(3);

/// Whether a heartbeat, by the time at which the server stored it, is too old. One in the future is not: the clock of the
/// server may be ahead.
pub(crate) fn is_old(heartbeat: Timestamp, now: Timestamp) -> bool {
    heartbeat < now && now.duration_since(heartbeat).unsigned_abs() > OLD
}

/// Shows that a shard is running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heartbeat {
    /// When it was written, by the clock of the cluster.
    pub(crate) at: Timestamp,
    /// The version of kaudit.
    pub(crate) version: String,
}

/// What a shard has checked, and what it could not check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterState {
    /// The labels of the cluster, by which views select.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    /// When the process started; violations that were resolved earlier may be unknown.
    pub(crate) began: Timestamp,
    /// Before evaluation starts, the number of lists that were read, and their total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) syncing: Option<(usize, usize)>,
    /// The digest of the policies in force.
    pub(crate) policies: String,
    /// When they replaced others; `None` for those of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policies_since: Option<Timestamp>,
    /// Problems that the result does not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<String>,
    /// The result without policies and results.
    pub(crate) result: AuditResult,
    /// The exceptions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) exceptions: Vec<ExceptionSummary>,
    /// The counts of each rule that applies to an object, by policy and rule.
    pub(crate) counts: BTreeMap<String, BTreeMap<String, RuleCounts>>,
    /// Objects in each namespace that was checked; an empty name counts objects of the cluster.
    pub(crate) namespaces: BTreeMap<Arc<str>, usize>,
    /// The team of each namespace that has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) teams: BTreeMap<Arc<str>, Arc<str>>,
}

impl ClusterState {
    /// Reads a packed state, with about the bytes of memory that it takes.
    ///
    /// # Errors
    /// If it is damaged, or has a count that no cluster can have.
    pub(super) fn read(packed: &[u8]) -> Result<(Self, usize), String> {
        let (state, bytes) = packed::read_measured::<Self>(packed)?;
        if state.counts().all(|count| count <= MOST_COUNT) {
            Ok((state, bytes))
        } else {
            Err(format!("has a count above {MOST_COUNT}"))
        }
    }

    /// Returns all counts that are added to those of other shards or clusters.
    fn counts(&self) -> impl Iterator<Item = usize> {
        let Summary { objects, pass, fail, warn, error, skip, covered } = self.result.summary;
        let coverage = self.result.coverage.iter().flat_map(|kind| [kind.objects, kind.inactive]);
        let rules = self.counts.values().flat_map(BTreeMap::values);
        let rules = rules.flat_map(|rule| [rule.applicable, rule.failing, rule.excused, rule.error]);
        let exceptions = self.exceptions.iter().map(|exception| exception.results);
        let syncing = self.syncing.into_iter().flat_map(|(done, all)| [done, all]);
        [objects, pass, fail, warn, error, skip, covered]
            .into_iter()
            .chain(coverage)
            .chain(rules)
            .chain(exceptions)
            .chain(syncing)
            .chain(self.namespaces.values().copied())
    }
}
