//! The whole result of an audit.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;

use super::Pipeline;
use crate::{
    audit::{
        publisher::{is_complete, summary},
        result::{AuditResult, Entry, KIND, PolicySummary, Summary},
    },
    cluster::identity::API_VERSION,
    judge::{policy::Policy, rule::Rule},
    model::object::ObjectRef,
};

impl Pipeline {
    /// Returns the whole result, whose entries are in order by object.
    pub(super) fn result(&self) -> AuditResult {
        let (objects, ledger) = (&self.objects, &self.results.ledger);
        let set = &self.schedule.policies.set;
        let summary = summary(ledger);
        let Summary { fail, warn, error, skip, covered, .. } = summary;
        let mut results: Vec<Entry> = Vec::with_capacity(fail + warn + error + skip + covered);
        let with_results = ledger
            .objects()
            .map(|(key, kept)| ((ObjectRef::new(key, &kept.uid), objects.cache.location(key)), (key, kept)));
        let mut with_results: Vec<_> = with_results.collect();
        // Sorting results that are in order takes no memory; otherwise it takes half as much again as they do.
        with_results.sort_by(|(a, _), (b, _)| a.cmp(b));
        for ((resource, location), (key, kept)) in with_results {
            let resource = Arc::new(resource);
            results.extend(kept.results.iter().map(|known| {
                let covered_by = known.covered_by.as_ref().and_then(|cover| objects.owner_reference(key, &cover.uid));
                let is_handed_over = ledger.is_handed_over(known.id);
                let dependents = ledger.dependents(&kept.uid, &known.finding);
                let entry = Entry::new(&known.finding, &resource, location, kept.owner.as_ref());
                Entry { covered_by, dependents, is_handed_over, since: Some(known.since), ..entry }
            }));
        }
        let counts = ledger.rule_counts();
        let summed_up = |policy: &Policy| {
            let of = |rule: &Rule| {
                let counts = counts.get(&[&policy.name, &rule.name].map(Arc::clone))?;
                Some((rule.name.to_string(), *counts))
            };
            PolicySummary { objects: policy.rules.iter().filter_map(of).collect(), ..policy.into() }
        };
        let mut policies: Vec<_> = set.policies.iter().map(summed_up).collect();
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        AuditResult {
            api_version: API_VERSION,
            kind: KIND,
            scope: None,
            complete: objects.gate.is_open() && is_complete(objects, &self.schedule, &summary),
            summary,
            coverage: objects.coverage(|| self.results.are_withheld()),
            policies,
            bundles: set.bundles.clone(),
            refused: set.refused().cloned().collect(),
            not_judged: set.unjudged.clone(),
            frameworks: Arc::clone(&set.frameworks),
            profile: set.shown_profile(),
            skipped_rules: set.rule_changes.skipped.clone(),
            min_severity: set.rule_changes.min_severity,
            excluded_namespaces: objects.excluded_namespaces(),
            exceptions: self.results.exceptions.summaries(ledger.excused(), Timestamp::now()),
            baseline: None,
            results,
            ended: self.results.recording.ended.iter().cloned().collect(),
            namespaces: objects.checked_namespaces(),
            teams: objects.teams(),
            repeated: HashSet::new(),
        }
    }
}
