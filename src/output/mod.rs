//! Results for people and programs: one [`AuditResult`], many renderers.

use serde::Serialize;

use crate::{
    gate::State,
    object::{Location, ObjectKey},
    policy::Policy,
    verdict::{Finding, Outcome, Severity, Source},
};

/// Everything that is known at one moment; the contract of `-o json` and `/status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditResult {
    /// Always `kaudit.dev/v1alpha1`.
    pub api_version: &'static str,
    /// Always `AuditResult`.
    pub kind: &'static str,
    /// Whether every kind in scope was read and every policy ran.
    pub complete: bool,
    /// Counts.
    pub summary: Summary,
    /// What was read, by kind; sorted by group, resource.
    pub coverage: Vec<Coverage>,
    /// What it was judged by; sorted by name.
    pub policies: Vec<PolicySummary>,
    /// Fail, warn, error and skip; sorted by resource, policy, rule, message.
    pub results: Vec<Entry>,
}

/// Counts of an audit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names say all")]
pub struct Summary {
    /// Objects that were judged.
    pub objects: usize,
    /// (object, rule) pairs that were evaluated without a result.
    pub pass: usize,
    pub fail: usize,
    pub warn: usize,
    pub error: usize,
    pub skip: usize,
}

/// How far one kind was covered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind; `*` where a whole group could not be read.
    pub kind: String,
    /// Plural name; `*` where a whole group could not be read.
    pub resource: String,
    /// How far it was covered.
    pub state: State,
    /// Objects of it that are known.
    pub objects: usize,
    /// Why it is not covered; empty if it is.
    pub message: String,
}

/// One policy that took part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicySummary {
    /// Package without `data.`, or a Constraint's kind.
    pub name: String,
    /// `conftest`, `admission`, `gatekeeper`.
    pub dialect: String,
    /// File it comes from.
    pub source: String,
    /// Its rules, sorted.
    pub rules: Vec<String>,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The policy.
    pub policy: String,
    /// The rule.
    pub rule: String,
    /// fail, warn, error or skip.
    pub result: Outcome,
    /// How bad; `None` if nothing says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// What is wrong.
    pub message: String,
    /// The object.
    pub resource: Resource,
    /// What else the policy said.
    pub details: serde_json::Map<String, serde_json::Value>,
    /// Where the rule stands.
    pub source: Source,
    /// Where the manifest stands; only with `-f`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

/// The reference of an object in a result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say all")]
pub struct Resource {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl Resource {
    /// Names an object.
    pub fn new(key: &ObjectKey, uid: &str) -> Self {
        Self {
            api_version: key.kind.api_version(),
            kind: key.kind.kind.clone(),
            namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
            name: key.name.to_string(),
            uid: uid.to_owned(),
        }
    }
}

impl Entry {
    /// Makes a result of a finding.
    pub fn new(finding: &Finding, resource: &Resource, location: Option<&Location>) -> Self {
        Self {
            policy: finding.policy.to_string(),
            rule: finding.rule.to_string(),
            result: finding.outcome,
            severity: finding.severity,
            message: finding.message.to_string(),
            resource: resource.clone(),
            details: finding.details.as_deref().cloned().unwrap_or_default(),
            source: finding.source.clone(),
            location: location.cloned(),
        }
    }
}

impl From<&Policy> for PolicySummary {
    fn from(policy: &Policy) -> Self {
        let mut rules: Vec<_> = policy.rules.iter().map(|rule| rule.name.to_string()).collect();
        rules.sort();
        Self {
            name: policy.name.to_string(),
            dialect: policy.dialect.as_str().to_owned(),
            source: policy.source.to_string(),
            rules,
        }
    }
}
