//! All results by report, and which report objects the server has.
//!
//! Pure: it returns what has to be written and deleted, and sends nothing. Invariant: a report object is deleted only
//! when all results that were in it are in others, or resolved. An interruption leaves results twice, never missing.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    format::{Api, Layout, ReportFormat, content_digest, is_listed, report_name},
    partitions::{Partition, Partitions, Prefix, ReportedResult},
};
use crate::{
    audit::ledger::{Id, Violation},
    model::{digest::Digest, object::ObjectRef},
};

/// Report objects written in one go; further ones follow.
const WRITES_AT_ONCE: usize = 8;
/// The most report objects of one report, 32 MiB in all. Anyone who may create objects in a namespace decides how many
/// results it has, while etcd, which has a quota of 2 GB by default, is shared by the whole cluster.
pub(super) const MOST_WRITTEN: usize = 512;
/// A report object is written at most this often.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// What a report is about: a namespace, the cluster-scoped objects, or one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReportKey {
    pub(super) namespace: Option<Arc<str>>,
    /// Name of the report object if there is only one; those of partitions append the bits of their prefix.
    base: Arc<str>,
}

impl ReportKey {
    /// Returns the report that lists the results of an object.
    pub(super) fn of(format: &ReportFormat, object: &ObjectRef) -> Self {
        let base = match format.layout {
            Layout::Namespace => format.instance.name().into(),
            Layout::Resource => format!("{}.{}", report_name(object), format.instance.name()).into(),
        };
        Self { namespace: object.namespace.clone(), base }
    }

    /// Returns a key that sorts before all of a namespace.
    pub(super) fn before(namespace: Option<&Arc<str>>) -> Self {
        Self { namespace: namespace.cloned(), base: "".into() }
    }

    fn name(&self, prefix: Prefix) -> String {
        let bits = prefix.to_string();
        if bits.is_empty() { self.base.to_string() } else { format!("{}.{bits}", self.base) }
    }

    /// Returns the prefix of the partition that the report object of this name holds; `None` if it is not of this
    /// report.
    pub(super) fn prefix(&self, name: &str) -> Option<Prefix> {
        let rest = name.strip_prefix(&*self.base)?;
        if rest.is_empty() { Some(Prefix::default()) } else { Prefix::parse(rest.strip_prefix('.')?) }
    }
}

/// A report object as the server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// Digest of its content; `None` if others changed it.
    pub(super) content: Option<Digest>,
    pub(super) resource_version: String,
}

/// The results of one report, and the objects that hold them at the server.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) partitions: Partitions,
    /// By name.
    pub(super) stored: BTreeMap<String, Stored>,
}

/// The requests that bring the server up to date about a report.
#[derive(Debug)]
pub(super) struct ReportPlan {
    pub(super) key: ReportKey,
    pub(super) writes: Vec<Write>,
    /// Names of report objects to delete once everything is written.
    pub(super) deletes: Vec<String>,
}

impl ReportPlan {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deletes.is_empty()
    }
}

/// A report object to be written.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) prefix: Prefix,
    pub(super) name: String,
    pub(super) report: Value,
}

impl Report {
    /// Returns the next writes and deletes; the partitions in it count as written from now on, and rest for [`EVERY`].
    pub(super) fn plan(&mut self, key: &ReportKey, format: &ReportFormat, api: Api, now: Instant) -> ReportPlan {
        let mut plan = ReportPlan { key: key.clone(), writes: Vec::new(), deletes: Vec::new() };
        let mut left = false;
        let mut room = ReportRoom::default();
        for (prefix, partition) in self.partitions.iter_mut() {
            if !room.is_enough_for(partition) {
                // It is written when there is room.
                partition.dirty = true;
                continue;
            }
            if !partition.dirty {
                continue;
            }
            if plan.writes.len() == WRITES_AT_ONCE {
                return plan;
            }
            if partition.rests_until.is_some_and(|until| until > now) {
                left = true;
                continue;
            }
            partition.dirty = false;
            if partition.is_blank() {
                continue;
            }
            let name = key.name(prefix);
            let report = format.report(api, &name, partition.written());
            let content = content_digest(&report);
            if self.stored.get(&name).and_then(|stored| stored.content) != Some(content) {
                plan.writes.push(Write { prefix, name, report });
                partition.rests_until = Some(now + EVERY);
            }
        }
        if left {
            return plan;
        }
        let full = self.with_room().filter(|(_, partition)| !partition.is_blank());
        let needed: Vec<String> = full.map(|(prefix, _)| key.name(prefix)).collect();
        plan.deletes = self.stored.keys().filter(|name| !needed.contains(name)).cloned().collect();
        plan
    }

    /// Returns when there may be something to write, not before `earliest`.
    pub(super) fn due(&self, earliest: Instant) -> Instant {
        let dirty = self.with_room().filter(|(_, partition)| partition.dirty);
        let rests = dirty.map(|(_, partition)| partition.rests_until.map_or(earliest, |until| until.max(earliest)));
        rests.min().unwrap_or(earliest)
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.with_room().any(|(_, partition)| partition.dirty)
    }

    /// Returns the partitions that may be written.
    fn with_room(&self) -> impl Iterator<Item = (Prefix, &Partition)> {
        let mut room = ReportRoom::default();
        self.partitions.iter().filter(move |(_, partition)| room.is_enough_for(partition))
    }

    /// Returns how many results are not written, as the report has too many.
    pub(super) fn without_room(&self) -> usize {
        let mut room = ReportRoom::default();
        let without = self.partitions.iter().filter(|(_, partition)| !room.is_enough_for(partition));
        without.map(|(_, partition)| partition.written().count()).sum()
    }

    /// Notes that a partition was not written after all.
    pub(super) fn failed(&mut self, prefix: Prefix) {
        if let Some(partition) = self.partitions.get_mut(prefix) {
            (partition.dirty, partition.rests_until) = (true, None);
        }
    }

    /// Leaves results out that the server refuses.
    pub(super) fn leave_out(&mut self, prefix: Prefix, refused: &[Id]) {
        if let Some(partition) = self.partitions.get_mut(prefix) {
            partition.leave_out(refused);
        }
    }

    /// Returns how many results are left out, as the server refuses them.
    pub(super) fn left_out(&self) -> usize {
        self.partitions.iter().map(|(_, partition)| partition.left_out()).sum()
    }

    /// Ends the rest of all partitions, so that changed ones may be written at once.
    pub(super) fn cancel_rest(&mut self) {
        self.partitions.iter_mut().for_each(|(_, partition)| partition.rests_until = None);
    }

    /// Notes that the report object of this name has to be compared again.
    pub(super) fn mark_dirty(&mut self, key: &ReportKey, name: &str) {
        if let Some(partition) = key.prefix(name).and_then(|prefix| self.partitions.get_mut(prefix)) {
            partition.dirty = true;
        }
    }

    fn is_blank(&self) -> bool {
        self.stored.is_empty() && self.partitions.is_empty()
    }
}

/// How many more report objects one report may have.
struct ReportRoom(usize);

impl Default for ReportRoom {
    fn default() -> Self {
        Self(MOST_WRITTEN)
    }
}

impl ReportRoom {
    /// Whether a partition may be written; it uses the room of one report object, unless there is nothing to write.
    fn is_enough_for(&mut self, partition: &Partition) -> bool {
        if partition.is_blank() {
            return true;
        }
        let is_enough = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        is_enough
    }
}

/// All results by report.
#[derive(Debug)]
pub(super) struct ReportSet {
    pub(super) format: ReportFormat,
    pub(super) reports: BTreeMap<ReportKey, Report>,
}

impl ReportSet {
    pub(super) fn new(format: ReportFormat) -> Self {
        Self { format, reports: BTreeMap::new() }
    }

    /// Replaces all results of an object; returns the report if that changes it.
    pub(super) fn set(&mut self, object: impl Into<Arc<ObjectRef>>, results: &[Violation]) -> Option<ReportKey> {
        let object = object.into();
        let key = ReportKey::of(&self.format, &object);
        let listed = results.iter().filter(|violation| is_listed(violation));
        let entries: Vec<ReportedResult> = listed.map(|violation| self.entry(&object, violation.clone())).collect();
        let changed = if entries.is_empty() {
            self.reports.get_mut(&key)?.partitions.set(&object, entries)
        } else {
            self.reports.entry(key.clone()).or_default().partitions.set(&object, entries)
        };
        changed.then_some(key)
    }

    /// Adds a result that was found in a report.
    pub(super) fn add(&mut self, object: &Arc<ObjectRef>, violation: Violation) {
        let key = ReportKey::of(&self.format, object);
        let entry = self.entry(object, violation);
        self.reports.entry(key).or_default().partitions.add(entry);
    }

    fn entry(&self, object: &Arc<ObjectRef>, violation: Violation) -> ReportedResult {
        // Includes the object in any layout, so that the digest differs between objects.
        let json = self.format.result(object, &violation, None).to_string();
        let (bytes, content) = (json.len() + 1, Digest::of(json));
        ReportedResult { object: Arc::clone(object), violation, bytes, content, refused: false }
    }

    /// Returns all reports as they would be written, sorted by namespace and name.
    pub(super) fn documents(&self, api: Api) -> impl Iterator<Item = Value> {
        self.reports.iter().flat_map(move |(key, report)| {
            let full = report.partitions.iter().filter(|(_, partition)| !partition.is_blank());
            full.map(move |(prefix, partition)| self.format.report(api, &key.name(prefix), partition.written()))
        })
    }

    /// Notes that the server has none of the reports, as another API is written from now on.
    pub(super) fn forget_stored(&mut self) {
        for report in self.reports.values_mut() {
            report.stored.clear();
            report.partitions.iter_mut().for_each(|(_, partition)| partition.dirty = true);
        }
        self.reports.retain(|_, report| !report.is_blank());
    }

    /// Removes a report that has no results and is not at the server either.
    pub(super) fn remove_blank(&mut self, key: &ReportKey) {
        if self.reports.get(key).is_some_and(Report::is_blank) {
            self.reports.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
