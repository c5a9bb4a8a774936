//! The values that the bucket is to have for a result.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;

use super::settings::MirrorSettings;
use crate::{
    audit::{
        command::Snapshot,
        overview::{Overview, Progress},
        result::{AuditResult, Ended, Entry, PolicySummary},
    },
    fleet::{
        keys::{BucketItem, BucketKey, ResultsPart},
        packed,
        part::{self, StoredPart},
        state::ClusterState,
    },
    model::{object::ObjectRef, shard::Shard},
};

/// The number of parts of the results in each place.
pub(super) type PartCounts = HashMap<Option<Arc<str>>, u32>;

/// The values for a result, as JSON.
pub(super) struct MirroredValues {
    /// The state with counts that every change of an object changes.
    pub(super) state: Vec<u8>,
    /// The same without these.
    pub(super) steady_state: Vec<u8>,
    pub(super) policies: Vec<u8>,
    /// The parts of the results; `None` before everything has been evaluated.
    pub(super) results: Option<BTreeMap<BucketKey, Vec<u8>>>,
    /// Violations that were resolved after a time, and the newest of these times.
    pub(super) ended: Option<(i64, Vec<u8>)>,
}

/// Makes the values for a snapshot. `parts` are the numbers of parts that the bucket has, and `ended_until` the time in
/// microseconds until which it has the resolved violations.
///
/// # Errors
/// None in practice.
pub(super) fn values(
    settings: &MirrorSettings,
    (snapshot, began): (Snapshot, Timestamp),
    (progress, overview): (&Progress, Option<&Overview>),
    (parts, ended_until): (&PartCounts, i64),
) -> Result<MirroredValues, String> {
    let mut result = snapshot.result;
    result.roll_up();
    let is_evaluated = progress.open && overview.is_some_and(|overview| overview.evaluated);
    let results = is_evaluated.then(|| results(settings.shard, &result.results, parts)).transpose()?;
    let ended = ended(&result.ended, ended_until)?;
    let policies: Vec<PolicySummary> = std::mem::take(&mut result.policies);
    let counts = policies.iter().filter(|policy| !policy.objects.is_empty());
    let counts = counts.map(|policy| (policy.name.clone(), policy.objects.clone())).collect();
    let policies: Vec<_> =
        policies.into_iter().map(|policy| PolicySummary { objects: BTreeMap::new(), ..policy }).collect();
    let problem = overview.and_then(|overview| overview.policy_error.as_ref());
    let problem = problem.map(|error| format!("newer policies are not in force: {error}"));
    let inventory = overview.map(|overview| overview.inventory_error.clone()).filter(|error| !error.is_empty());
    result.complete &= is_evaluated;
    let namespaces = std::mem::take(&mut result.namespaces).into_iter();
    let mut state = ClusterState {
        labels: settings.labels.clone(),
        began,
        syncing: (!progress.open).then_some((progress.scopes_done, progress.scopes)),
        policies: overview.map(|overview| overview.policies.digest.to_string()).unwrap_or_default(),
        policies_since: overview.and_then(|overview| overview.policies_since),
        problems: problem.into_iter().chain(inventory).collect(),
        exceptions: std::mem::take(&mut result.exceptions),
        counts,
        namespaces: namespaces.map(|(name, objects)| (name.unwrap_or_default(), objects)).collect(),
        teams: std::mem::take(&mut result.teams),
        result: AuditResult { results: Vec::new(), ended: Vec::new(), ..result },
    };
    let json = packed::json(&state)?;
    leave_out_counts(&mut state);
    Ok(MirroredValues {
        state: json,
        steady_state: packed::json(&state)?,
        policies: packed::json(&policies)?,
        results,
        ended,
    })
}

/// Removes the counts of objects, which any change of the cluster may change.
fn leave_out_counts(state: &mut ClusterState) {
    (state.result.summary.objects, state.result.summary.pass, state.result.summary.covered) = (0, 0, 0);
    for kind in &mut state.result.coverage {
        (kind.objects, kind.inactive) = (0, 0);
    }
    state.counts.clear();
    state.namespaces.clear();
}

fn results(shard: Shard, results: &[Entry], parts: &PartCounts) -> Result<BTreeMap<BucketKey, Vec<u8>>, String> {
    let mut places: BTreeMap<Option<Arc<str>>, Vec<&Entry>> = BTreeMap::new();
    for entry in results {
        places.entry(entry.resource.place()).or_default().push(entry);
    }
    let mut values = BTreeMap::new();
    for (place, mut entries) in places {
        let order = |entry: &Entry| -> Arc<ObjectRef> { Arc::clone(&entry.resource) };
        entries.sort_by(|a, b| (order(a), a.order()).cmp(&(order(b), b.order())));
        let parts = part::parts(entries.len(), parts.get(&place).copied());
        for (part, entries) in part::split(&entries, parts) {
            let item = BucketItem::Results(ResultsPart { place: place.clone(), parts, part });
            let stored = StoredPart::new(entries.into_iter().map(|entry| (entry, None)));
            values.insert(BucketKey { shard, item }, packed::json(&stored)?);
        }
    }
    Ok(values)
}

/// Returns the violations that were resolved after a time, the oldest first.
fn ended(ended: &[Ended], until: i64) -> Result<Option<(i64, Vec<u8>)>, String> {
    let newer: Vec<&Ended> = ended.iter().rev().filter(|ended| ended.at.as_microsecond() > until).collect();
    let Some(newest) = newer.iter().map(|ended| ended.at.as_microsecond()).max() else { return Ok(None) };
    let stored = StoredPart::new(newer.into_iter().map(|ended| (&ended.entry, Some(ended.at))));
    Ok(Some((newest, packed::json(&stored)?)))
}
