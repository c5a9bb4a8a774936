//! What an audit could have found: without it, a violation that it does not list would count as resolved.
//!
//! A violation that another audit lists is known to be resolved only if this one evaluated the object with the rule. If it did
//! not, because of other policies, another scope, or a kind, document or policy that failed, the two cannot be compared.

use std::collections::HashSet;

use super::result::{AuditResult, AuditScope, BaselineEntry, PolicySummary};
use crate::model::{
    coverage::{Coverage, State},
    glob::Glob,
    verdict::Outcome,
};

/// What an audit could have found.
pub struct Reach<'r> {
    result: &'r AuditResult,
    /// Rules in force, by policy.
    rules: HashSet<(&'r str, &'r str)>,
    /// Objects for which a policy failed: policy, kind and name.
    failed: HashSet<(String, String, String)>,
}

impl<'r> Reach<'r> {
    /// Reads it from a result.
    pub fn of(result: &'r AuditResult) -> Self {
        let rules = |policy: &'r PolicySummary| policy.rules.iter().map(|rule| (policy.name.as_str(), rule.as_str()));
        let errors = result.results.iter().filter(|entry| entry.result == Outcome::Error);
        let failed =
            errors.map(BaselineEntry::from).map(|BaselineEntry { policy, kind, name, .. }| (policy, kind, name));
        Self { result, rules: result.policies.iter().flat_map(rules).collect(), failed: failed.collect() }
    }

    /// Returns why the audit could not have found a violation that it does not list; `None` if it could.
    pub fn misses(&self, entry: &BaselineEntry) -> Option<String> {
        let BaselineEntry { policy, rule, .. } = entry;
        if !self.has_rule(policy, rule) {
            return Some(format!("rule {policy}/{rule} is not in force"));
        }
        if let Some(least) = self.result.min_severity.filter(|_| self.leaves_out(policy, rule)) {
            return Some(format!("--min-severity {} leaves it out", least.word()));
        }
        self.did_not_judge(entry)
    }

    /// Whether results of a rule are less severe than those that were reported.
    pub fn leaves_out(&self, policy: &str, rule: &str) -> bool {
        let policy = self.result.policies.iter().find(|one| one.name == policy);
        let severity = policy.and_then(|policy| policy.about_rule(rule).severity);
        self.result.min_severity.zip(severity).is_some_and(|(least, severity)| severity > least)
    }

    /// Whether a rule was in force.
    pub fn has_rule(&self, policy: &str, rule: &str) -> bool {
        self.rules.contains(&(policy, rule))
    }

    /// Returns why the object was not evaluated with a rule that is in force; `None` if it was.
    pub fn did_not_judge(&self, entry: &BaselineEntry) -> Option<String> {
        let BaselineEntry { kind, name, policy, .. } = entry;
        let namespace = name.split_once('/').map(|(namespace, _)| namespace);
        let scope = self.result.scope.as_ref().and_then(|scope| outside(scope, namespace));
        let own = namespace.or_else(|| (kind == "Namespace").then_some(name));
        let scope = scope.or_else(|| own.and_then(|own| self.excluded(own)));
        scope.or_else(|| self.unread(kind)).or_else(|| {
            let failed = self.failed.contains(&(policy.clone(), kind.clone(), name.clone()));
            failed.then(|| "the policy failed".to_owned())
        })
    }

    /// Returns why a namespace was excluded on purpose.
    fn excluded(&self, namespace: &str) -> Option<String> {
        let glob = self.result.excluded_namespaces.iter().find(|glob| Glob::new(glob).matches(namespace))?;
        Some(format!("--exclude-namespace {glob} leaves it out"))
    }

    /// Returns why objects of a kind may have been left out.
    fn unread(&self, kind: &str) -> Option<String> {
        let coverage = &self.result.coverage;
        if let Some(gap) = coverage.iter().find(|covered| covered.is_gap() && covered.is_documents()) {
            return Some(format!("a document could not be read: {}", gap.message));
        }
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        // Settings files of tools are left out; they are not objects of a kind.
        let about = |covered: &&Coverage| {
            covered.group == group && !covered.is_documents() && (covered.kind == kind || covered.kind == "*")
        };
        let unread = |covered: &&Coverage| covered.is_gap() || covered.state == State::Excluded;
        let found = coverage.iter().filter(about).find(unread)?;
        Some(format!("{kind} was not read whole ({})", found.state.as_str()))
    }
}

/// Returns why a namespace, or objects of the cluster, are not in a scope.
fn outside(scope: &AuditScope, namespace: Option<&str>) -> Option<String> {
    let AuditScope { namespaces, shard, selector, .. } = scope;
    if let Some(selector) = selector {
        return Some(format!("it may not have the labels of --selector {selector}"));
    }
    if !namespaces.is_empty() && !namespace.is_some_and(|own| namespaces.iter().any(|one| one == own)) {
        return Some("it is outside of --namespace".to_owned());
    }
    (!shard.owns(namespace)).then(|| "it is in another shard".to_owned())
}
