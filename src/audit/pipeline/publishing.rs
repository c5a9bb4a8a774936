//! What a pipeline publishes about itself: progress, metrics, the overview for the status, the whole result.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use super::{Overview, Pipeline, Progress};
use crate::{
    audit::{
        queue::Lane,
        result::{AuditResult, Entry, KIND, PolicySummary, Summary},
    },
    cluster::identity::API_VERSION,
    judge::{policy::Policy, rule::Rule, set::PolicySet},
    model::{
        coverage::{Coverage, State, UNNEEDED},
        object::{Kind, ObjectRef},
        verdict::{Class, Outcome},
    },
    source::selection::Selection,
};

/// How often the metric of watch activity is set if nothing changes: most kinds are heard of once a minute.
const ACTIVITY_EVERY: Duration = Duration::from_secs(5);
/// Scopes that are named to whoever asks what the gate waits for.
const NAMED: usize = 5;

impl Pipeline {
    /// Publishes the progress, and what depends on more than it if anything changed.
    pub(super) fn publish(&mut self) {
        let (scopes_done, scopes) = self.gate.progress();
        let waiting_for = self.gate.waiting_for().take(NAMED).map(ToString::to_string).collect();
        let progress =
            Progress { open: self.gate.is_open(), scopes_done, scopes, waiting_for, queue: self.queue.waiting() };
        self.outputs.metrics.set_queue_length(progress.queue);
        let has_changed = self.published != Some(self.revision);
        if has_changed || self.activity_set.is_none_or(|set| set.elapsed() >= ACTIVITY_EVERY) {
            self.activity_set = Some(Instant::now());
            self.outputs.metrics.set_watch_activity(self.gate.activity());
        }
        self.outputs.progress.send_if_modified(|known| {
            let new = *known != progress;
            *known = progress;
            new
        });
        if !has_changed {
            return;
        }
        self.published = Some(self.revision);
        let overview = self.overview();
        if !matches!(&*self.outputs.overview.borrow(), Some(known) if known.coverage == overview.coverage) {
            self.outputs.metrics.set_coverage(&overview.coverage);
        }
        self.outputs.metrics.set_complete(overview.synced && overview.complete);
        let exceptions: Vec<_> = overview.exceptions.iter().map(|known| (known.state, known.expires_at)).collect();
        self.outputs.metrics.set_exceptions(&exceptions);
        self.outputs.metrics.set_violations(self.ledger.counts_by_namespace());
        self.outputs.metrics.set_covered(self.ledger.covered());
        self.outputs.metrics.set_rule_objects(self.ledger.rule_counts());
        self.outputs.overview.send_replace(Some(Arc::new(overview)));
    }

    fn coverage(&self) -> Vec<Coverage> {
        let inactive = |scope: &_| if self.settings.judge_inactive { 0 } else { self.cache.inactive(scope) };
        let mut all = self.gate.coverage(|scope| (self.cache.len(scope), inactive(scope)));
        for scope in self.gate.scopes().filter(|scope| !self.needs(&scope.kind)) {
            let kind = &scope.kind;
            let is_forbidden = |one: &&mut Coverage| {
                one.state == State::Forbidden && one.group == kind.group && one.resource == kind.plural
            };
            if let Some(unneeded) = all.iter_mut().find(is_forbidden) {
                unneeded.state = State::Excluded;
                unneeded.message = format!("{UNNEEDED}{}", unneeded.message);
            }
        }
        for scope in self.gate.joined().filter(|scope| !self.evaluates(&scope.kind)) {
            let kind = &scope.kind;
            let is_kind = |one: &&mut Coverage| one.group == kind.group && one.resource == kind.plural;
            if let Some(read) = all.iter_mut().find(is_kind).filter(|read| !read.is_gap()) {
                (read.state, read.objects) = (State::Excluded, 0);
                read.message =
                    format!("not evaluated, {}; read for policies that look it up", Selection::left_out(kind));
            }
        }
        all
    }

    /// Whether the audit is incomplete if a kind may not be read. Where nothing may be read, everything is needed.
    fn needs(&self, kind: &Kind) -> bool {
        self.gate.joined().next().is_none() || self.selection.as_ref().is_none_or(|selection| selection.needs(kind))
    }

    fn summary(&self) -> Summary {
        let (objects, pass) = (self.ledger.judged(), self.ledger.passed());
        let mut summary = Summary { objects, pass, covered: self.ledger.covered(), ..Summary::default() };
        for (class, count) in self.ledger.counts() {
            *summary.of(class.outcome) += count;
        }
        summary
    }

    fn overview(&self) -> Overview {
        let summary = self.summary();
        let mut by_policy: BTreeMap<Arc<str>, [usize; 3]> = BTreeMap::new();
        let mut by_severity = BTreeMap::new();
        for (Class { policy, severity, outcome }, count) in self.ledger.counts() {
            if outcome.is_violation() {
                *by_severity.entry(*severity).or_default() += count;
            }
            let slot = match outcome {
                Outcome::Fail => 0,
                Outcome::Warn => 1,
                Outcome::Error => 2,
                Outcome::Skip => continue,
            };
            by_policy.entry(policy.clone()).or_default()[slot] += count;
        }
        Overview {
            synced: self.gate.is_open(),
            evaluated: self.evaluated,
            complete: self.is_complete(&summary),
            summary,
            coverage: self.coverage(),
            policies: Arc::clone(&self.policies.set),
            by_severity,
            by_policy,
            exceptions: self.exceptions.summaries(self.ledger.excused(), Timestamp::now()),
            policy_error: self.policies.error.clone(),
            inventory_error: self.inventory.problem.clone(),
            nothing_found: self.nothing_found().unwrap_or_default(),
        }
    }

    /// Whether every kind in scope was read, with at least one object, and every policy ran.
    fn is_complete(&self, summary: &Summary) -> bool {
        let judged = summary.error == 0 && self.inventory.problem.is_empty() && !self.policies.set.is_partial();
        self.gate.is_complete(|kind| self.needs(kind)) && judged && self.nothing_found().is_none()
    }

    /// Returns where no object was found at all, if that is so: nothing is checked there, which is not clean. Of a shard
    /// others may have the objects.
    fn nothing_found(&self) -> Option<String> {
        if !self.gate.is_open() || !self.settings.shard.is_whole() {
            return None;
        }
        let namespaces = self.objects_by_namespace();
        let empty: Vec<&str> =
            namespaces.iter().filter(|(_, objects)| **objects == 0).map(|(namespace, _)| &**namespace).collect();
        if !empty.is_empty() {
            let them = if empty.len() == 1 { "namespace" } else { "namespaces" };
            return Some(format!("no object was found in {them} {}", empty.join(", ")));
        }
        let nothing = self.gate.joined().all(|scope| self.cache.len(scope) == 0);
        (nothing && namespaces.is_empty()).then(|| "no object was found".to_owned())
    }

    fn excluded_namespaces(&self) -> Vec<String> {
        let globs = self.selection.iter().flat_map(|selection| &selection.excluded_namespaces);
        globs.map(ToString::to_string).collect()
    }

    /// Returns how many objects are in each namespace that is read on its own.
    pub(super) fn objects_by_namespace(&self) -> BTreeMap<Arc<str>, usize> {
        let mut namespaces = BTreeMap::new();
        for scope in self.gate.scopes() {
            if let Some(namespace) = &scope.namespace {
                *namespaces.entry(Arc::clone(namespace)).or_default() += self.cache.len(scope);
            }
        }
        namespaces
    }

    /// Returns the namespaces that are read on their own with the number of their objects, and all others that are known.
    fn checked_namespaces(&self) -> BTreeMap<Option<Arc<str>>, usize> {
        let own = self.objects_by_namespace().into_iter();
        let mut namespaces: BTreeMap<_, _> = own.map(|(name, objects)| (Some(name), objects)).collect();
        for scope in self.gate.scopes().filter(|scope| scope.namespace.is_none()) {
            let of_objects = self.cache.namespaces(scope).map(Option::<&Arc<str>>::cloned);
            let is_namespace = scope.kind.is("", "Namespace");
            let named = self.cache.keys(scope).filter(|_| is_namespace).map(|key| Some(key.name));
            for namespace in of_objects.chain(named) {
                *namespaces.entry(namespace).or_default() += 1;
            }
        }
        let excludes = |name: &str| self.selection.as_ref().is_some_and(|selection| selection.excludes_namespace(name));
        namespaces.retain(|name, _| !name.as_deref().is_some_and(excludes));
        namespaces
    }

    /// Makes known which policies are in force.
    pub(super) fn publish_policies(&mut self, policies: &Arc<PolicySet>) {
        self.outputs.policies.send_replace(Arc::clone(policies));
        self.outputs.metrics.set_policies(policies.policies.len());
        self.outputs
            .metrics
            .set_bundles_stale(policies.bundles.iter().filter(|bundle| !bundle.stale.is_empty()).count());
        for class in policies.classes() {
            for lane in Lane::ALL {
                self.outputs.metrics.expect_violations(&class, lane.as_str());
            }
        }
    }

    /// Counts the policy files that are refused, and has a note about them recorded.
    pub(super) fn publish_refused(&mut self) {
        let (files, note) = self.policies.refused();
        self.outputs.metrics.set_policies_refused(files);
        if files > 0 {
            self.recording.policies_refused(&note);
        }
    }

    /// Returns the whole result, whose entries are in order by object.
    pub(super) fn result(&self) -> AuditResult {
        let summary = self.summary();
        let Summary { fail, warn, error, skip, covered, .. } = summary;
        let mut results: Vec<Entry> = Vec::with_capacity(fail + warn + error + skip + covered);
        let objects = self
            .ledger
            .objects()
            .map(|(key, standing)| ((ObjectRef::new(key, &standing.uid), self.cache.location(key)), (key, standing)));
        let mut objects: Vec<_> = objects.collect();
        // Sorting results that are in order takes no memory; otherwise it takes half as much again as they do.
        objects.sort_by(|(a, _), (b, _)| a.cmp(b));
        for ((resource, location), (key, standing)) in objects {
            let resource = Arc::new(resource);
            results.extend(standing.results.iter().map(|known| {
                let covered_by = known.covered_by.as_ref().and_then(|cover| self.owner_reference(key, &cover.uid));
                let is_handed_over = self.ledger.is_handed_over(known.id);
                let dependents = self.ledger.dependents(&standing.uid, &known.finding);
                let entry = Entry::new(&known.finding, &resource, location, standing.owner.as_ref());
                Entry { covered_by, dependents, is_handed_over, since: Some(known.since), ..entry }
            }));
        }
        let counts = self.ledger.rule_counts();
        let summed_up = |policy: &Policy| {
            let of = |rule: &Rule| {
                let counts = counts.get(&[&policy.name, &rule.name].map(Arc::clone))?;
                Some((rule.name.to_string(), *counts))
            };
            PolicySummary { objects: policy.rules.iter().filter_map(of).collect(), ..policy.into() }
        };
        let mut policies: Vec<_> = self.policies.set.policies.iter().map(summed_up).collect();
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        AuditResult {
            api_version: API_VERSION,
            kind: KIND,
            scope: None,
            complete: self.gate.is_open() && self.is_complete(&summary),
            summary,
            coverage: self.coverage(),
            policies,
            bundles: self.policies.set.bundles.clone(),
            refused: self.policies.set.refused().cloned().collect(),
            not_judged: self.policies.set.unjudged.clone(),
            skipped_rules: self.policies.set.rule_changes.skipped.clone(),
            min_severity: self.policies.set.rule_changes.min_severity,
            excluded_namespaces: self.excluded_namespaces(),
            exceptions: self.exceptions.summaries(self.ledger.excused(), Timestamp::now()),
            baseline: None,
            results,
            ended: self.recording.ended.iter().cloned().collect(),
            namespaces: self.checked_namespaces(),
            repeated: HashSet::new(),
        }
    }
}
