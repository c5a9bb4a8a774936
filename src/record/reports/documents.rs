//! Reports of a single audit, for users who apply or store them.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    format::{Api, Instance, Layout, ReportFormat, is_listed},
    report_set::ReportSet,
};
use crate::{
    audit::{ledger::Violation, result::Entry},
    model::{
        object::ObjectRef,
        verdict::{Excused, Finding, Outcome, RuleDescriptor, RuleInfo},
    },
};

/// Returns the reports of openreports.io on these results, and an empty one for each other namespace that was checked
/// (`None` is for cluster-scoped objects), sorted by namespace and name. They have no times, since one audit cannot
/// determine when a result was first seen: equal results give equal reports.
pub fn of_results<'n>(
    results: &[Entry],
    checked: impl IntoIterator<Item = &'n Option<Arc<str>>>,
    name: Option<&str>,
) -> Vec<Value> {
    let format = ReportFormat { layout: Layout::Namespace, instance: Instance::of_check(name), dated: false };
    let mut set = ReportSet::new(format);
    let mut taken = HashSet::new();
    for entry in results {
        let mut violation = violation(entry);
        // The same object in another file, or the same message with other details.
        while !taken.insert(violation.id) {
            violation.id = violation.id.next();
        }
        violation.fingerprint = violation.id;
        if is_listed(&violation) {
            set.add(&entry.resource, violation);
        }
    }
    set.reports.values_mut().for_each(|report| report.partitions.split_large());
    let found: BTreeSet<_> = set.reports.keys().map(|key| key.namespace.clone()).collect();
    let empty = checked.into_iter().filter(|namespace| !found.contains(*namespace));
    let empty: Vec<Value> = empty.map(|namespace| empty_report(&set.format, namespace.as_deref())).collect();
    let mut reports: Vec<Value> = set.documents(Api::OpenReports).chain(empty).collect();
    // The reports of one namespace are in order already.
    reports.sort_by_key(|report| report["metadata"]["namespace"].as_str().map(str::to_owned));
    reports
}

fn empty_report(format: &ReportFormat, namespace: Option<&str>) -> Value {
    let mut report = format.report(Api::OpenReports, format.instance.name(), std::iter::empty());
    report["kind"] = Api::OpenReports.kind(namespace.is_some()).0.into();
    if let Some(namespace) = namespace {
        report["metadata"]["namespace"] = namespace.into();
    }
    report
}

fn violation(entry: &Entry) -> Violation {
    let Entry { title, rule_id, category, .. } = entry;
    let about = RuleInfo { title: title.clone(), id: rule_id.clone(), category: category.clone() };
    let (policy, name, source) = (Arc::clone(&entry.policy), Arc::clone(&entry.rule), entry.source.clone());
    let finding = Finding {
        rule: Arc::new(RuleDescriptor { policy, name, info: about.into(), source }),
        outcome: entry.result,
        severity: entry.severity,
        message: Arc::clone(&entry.message),
        details: None,
        // Reports do not show the outcome without the exception.
        excused: entry.excuse.clone().map(|excuse| Excused { excuse, otherwise: Outcome::Fail }),
    };
    // Manifests have no uid, and viewers distinguish results by an id that is derived from it.
    let object = ObjectRef { uid: entry.resource.uid_or_name().into(), ..ObjectRef::clone(&entry.resource) };
    Violation { dependents: entry.dependents, ..Violation::new(&object, finding, Timestamp::UNIX_EPOCH) }
}
