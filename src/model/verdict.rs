//! The results of evaluating one object.

use std::sync::{Arc, LazyLock};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::model::{
    digest::Digest,
    exception::Excuse,
    object::ObjectKey,
    rule_numbers::{RuleName, RuleNumbers},
};

/// The outcome of a rule for an object. Passes are counted, not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// `deny`, `violation`, a Gatekeeper constraint with action `deny`.
    Fail,
    /// `warn`, a Gatekeeper constraint with action `warn` or `dryrun`.
    Warn,
    /// The policy could not be evaluated for this object.
    Error,
    /// Excused by an exception, by the baseline, or by the policy itself (`exception` of conftest).
    Skip,
}

impl Outcome {
    /// Returns its name in results, reports and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Skip => "skip",
        }
    }

    /// Whether it counts as a violation.
    pub fn is_violation(self) -> bool {
        matches!(self, Self::Fail | Self::Warn)
    }
}

/// Severity as the report APIs define it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say all")]
pub enum Severity {
    Critical,
    High,
    Medium,
    Low,
    Info,
}

impl Severity {
    /// All of them, most severe first.
    pub const ALL: [Self; 5] = [Self::Critical, Self::High, Self::Medium, Self::Low, Self::Info];

    /// The number of severities, and one for none: the length of an array with an item for each [index](Self::index).
    pub const INDICES: usize = Self::ALL.len() + 1;

    /// Returns the index of a severity in [`ALL`](Self::ALL), or the one after it for none.
    pub fn index(severity: Option<Self>) -> usize {
        severity.map_or(Self::ALL.len(), |severity| severity as usize)
    }

    /// Parses a severity as policies write it: in upper or lower case.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.word().eq_ignore_ascii_case(word.trim()))
    }

    /// Returns its name in reports, which is lower case.
    pub fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Info => "info",
        }
    }
}

/// The location of a rule in the policy files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Source {
    /// The file, relative to the path given by the user.
    pub file: Arc<str>,
    /// Line of the rule's head, from 1; for an `error`, the line that failed.
    pub line: u32,
}

/// The excuse of a result, and its outcome without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excused {
    /// The excuse.
    pub excuse: Arc<Excuse>,
    /// Fail or warn.
    pub otherwise: Outcome,
}

/// The policy and the rule of results about an object as a whole.
pub(crate) const OBJECT_RULE: [&str; 2] = ["kaudit", "object"];

impl Finding {
    /// Returns the error of an object that could not be evaluated, or not completely.
    pub(crate) fn object_error(why: &str) -> Self {
        Self {
            rule: RuleDescriptor::of_object(),
            outcome: Outcome::Error,
            severity: None,
            message: why.into(),
            details: None,
            excused: None,
        }
    }

    /// Returns the approximate size of its texts in memory, in bytes.
    pub(crate) fn text_bytes(&self) -> usize {
        self.message.len() + self.details.as_ref().map_or(0, |details| details.values().map(value_bytes).sum())
    }
}

/// Returns the approximate size of a value in memory, in bytes, including that of its entry in a list or an object.
fn value_bytes(value: &serde_json::Value) -> usize {
    const ENTRY: usize = 64;
    ENTRY
        + match value {
            serde_json::Value::String(text) => text.len(),
            serde_json::Value::Array(items) => items.iter().map(value_bytes).sum(),
            serde_json::Value::Object(fields) => fields.values().map(value_bytes).sum(),
            _ => 0,
        }
}

/// Returns the id of a rule, or `POLICY/RULE` if it has none.
pub fn rule_id(policy: &str, rule: &str, id: Option<&str>) -> String {
    id.map_or_else(|| format!("{policy}/{rule}"), str::to_owned)
}

/// The METADATA that identifies a rule for users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleInfo {
    /// METADATA `title`.
    pub title: Option<Arc<str>>,
    /// METADATA `custom.id`, for example `IMG-01`.
    pub id: Option<Arc<str>>,
    /// METADATA `custom.category`.
    pub category: Option<Arc<str>>,
}

impl RuleInfo {
    /// Returns a copy in which missing fields are filled in from a wider scope; shares one of the two where possible.
    pub(crate) fn or(self: &Arc<Self>, wider: &Arc<Self>) -> Arc<Self> {
        let join = |own: &Option<Arc<str>>, wider: &Option<Arc<str>>| own.clone().or_else(|| wider.clone());
        let joined = Self {
            title: join(&self.title, &wider.title),
            id: join(&self.id, &wider.id),
            category: join(&self.category, &wider.category),
        };
        let same = [self, wider].into_iter().find(|one| ***one == joined);
        same.map_or_else(|| Arc::new(joined), Arc::clone)
    }
}

/// The common part of the results of a rule. Created once for each definition of a rule, when policies are loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleDescriptor {
    /// The policy: package path without `data.` (`pod_security.baseline`), or a Constraint's kind.
    pub policy: Arc<str>,
    /// The name of the rule's head (`deny_privileged`), or a Constraint's name.
    pub name: Arc<str>,
    /// Its title, id and category from METADATA.
    pub info: Arc<RuleInfo>,
    /// Its location; for an `error`, the location that failed.
    pub source: Source,
}

impl RuleDescriptor {
    /// Describes a rule of which only the name is known, for example from a record.
    pub fn named(policy: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        let (policy, name) = (policy.into(), name.into());
        Self { policy, name, info: Arc::default(), source: Source { file: "".into(), line: 0 } }
    }

    /// Returns the descriptor of results about an object as a whole.
    pub(crate) fn of_object() -> Arc<Self> {
        static OF_OBJECT: LazyLock<Arc<RuleDescriptor>> = LazyLock::new(|| {
            let [policy, name] = OBJECT_RULE;
            Arc::new(RuleDescriptor::named(policy, name))
        });
        Arc::clone(&OF_OBJECT)
    }
}

/// One result of one rule for one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule, with its policy.
    pub rule: Arc<RuleDescriptor>,
    /// Its outcome.
    pub outcome: Outcome,
    /// From METADATA `custom.severity`, or the result's own `severity` key; `None` if neither is set.
    pub severity: Option<Severity>,
    /// The message of the policy; for an `error`, what failed and where.
    pub message: Arc<str>,
    /// Further output of the policy (keys other than `msg`, or Gatekeeper's `details`); `None` if there is none.
    pub details: Option<Arc<serde_json::Map<String, serde_json::Value>>>,
    /// The excuse, if any; the outcome is `skip` then.
    pub excused: Option<Excused>,
}

/// The message of a result that counts the unlisted results of its rule, or of its object, without the count before it.
pub(crate) const UNLISTED_OF_RULE: &str = " more results of this rule for this object are not listed";
pub(crate) const UNLISTED_OF_OBJECT: &str = " more results for this object are not listed";

/// The part of a [withheld](Finding::withhold) violation's message between the policy's message and the reason.
const WITHHELD: &str = " (not known whether it is excused: PolicyExceptions cannot be read: ";

/// Whether a result with this outcome and message is a [withheld](Finding::withhold) violation.
pub fn is_withheld(outcome: Outcome, message: &str) -> bool {
    outcome == Outcome::Error && message.contains(WITHHELD)
}

/// The key by which results are counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// Their policy.
    pub policy: Arc<str>,
    /// Their severity, if it is known.
    pub severity: Option<Severity>,
    /// Their outcome.
    pub outcome: Outcome,
}

impl Finding {
    /// Returns the key by which it is counted.
    pub fn class(&self) -> Class {
        Class { policy: Arc::clone(&self.rule.policy), severity: self.severity, outcome: self.outcome }
    }

    /// Whether it counts results of its rule that are not listed.
    pub(crate) fn counts_unlisted_of_rule(&self) -> bool {
        is_count_of(&self.message, UNLISTED_OF_RULE)
    }

    /// Whether it counts results of its object that are not listed.
    pub(crate) fn counts_unlisted_of_object(&self) -> bool {
        [&*self.rule.policy, &*self.rule.name] == OBJECT_RULE && is_count_of(&self.message, UNLISTED_OF_OBJECT)
    }

    /// Changes a violation into a skip.
    pub fn excuse(&mut self, excuse: &Arc<Excuse>) {
        if self.outcome.is_violation() {
            self.excused = Some(Excused { excuse: Arc::clone(excuse), otherwise: self.outcome });
            self.outcome = Outcome::Skip;
        }
    }

    /// Changes a violation into an error because exceptions that may excuse it cannot be read, for this reason.
    pub fn withhold(&mut self, why: &str) {
        self.message = format!("{}{WITHHELD}{why})", self.message).into();
        self.outcome = Outcome::Error;
    }

    /// Returns the field of the object that the result is about, if the policy names it as `details.field`.
    pub fn field(&self) -> Option<&str> {
        self.details.as_ref()?.get("field")?.as_str()
    }

    /// Whether both are the same result; their sources and severities may differ.
    pub fn is_same_result(&self, other: &Self) -> bool {
        fn identity(finding: &Finding) -> (Outcome, &str, &str) {
            (finding.outcome, &finding.rule.policy, &finding.rule.name)
        }
        identity(self) == identity(other) && self.message == other.message && self.details == other.details
    }

    /// Removes the excuse and restores the outcome of the policy, unless the policy itself excuses it.
    pub fn restore(&mut self) {
        if let Some(Excused { otherwise, .. }) = self.excused.take_if(|excused| !excused.excuse.is_of_policy()) {
            self.outcome = otherwise;
        }
    }
}

/// Whether a message is a number followed by `unlisted`.
fn is_count_of(message: &str, unlisted: &str) -> bool {
    let count = message.strip_suffix(unlisted);
    count.is_some_and(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
impl Finding {
    /// Returns a violation of one policy with this message, for tests.
    pub(crate) fn sample(message: &str) -> Self {
        Self::sample_of("p", "deny", message)
    }

    /// Returns a violation of a rule with this message, for tests.
    pub(crate) fn sample_of(policy: &str, rule: &str, message: &str) -> Self {
        let source = Source { file: "p.rego".into(), line: 1 };
        Self {
            rule: Arc::new(RuleDescriptor { source, ..RuleDescriptor::named(policy, rule) }),
            outcome: Outcome::Fail,
            severity: None,
            message: message.into(),
            details: None,
            excused: None,
        }
    }
}

/// Whether cached results of an equal object were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// They were.
    Hit,
    /// There were none, so the object was evaluated and its results were cached.
    Miss,
}

impl Shared {
    /// Returns the word for it in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
        }
    }
}

/// All results of one object under one policy set, a pure function of the job.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The evaluated object.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Arc<str>,
    /// Sorted and without duplicates: fail, warn, error and skip.
    pub results: Vec<Finding>,
    /// Results about the transition (`oldObject`, `operation: UPDATE` or `DELETE`) that the current state does not
    /// have: reported once, never open.
    pub transitions: Vec<Finding>,
    /// Rules that apply to the object's kind, match it, and have no result.
    pub passed: RuleNumbers,
    /// Whether a repeated evaluation may have other results although nothing changed: a rule ran out of time, or kaudit
    /// failed.
    pub unfinished: bool,
    /// Rules with an error that may not occur again for the same object: they ran out of time, or an object they depend
    /// on has not been read.
    pub undecided: Vec<RuleName>,
    /// Whether cached results of an equal object were used; `None` if no result can be shared.
    pub shared: Option<Shared>,
    /// Policies whose results differ from those cached for an equal object; the results are those of this object.
    pub shared_differences: Vec<Arc<str>>,
    /// Digest of the policy set of the evaluation.
    pub policies: Digest,
    /// Time of the evaluation; for metrics only, never shown in results.
    pub took: std::time::Duration,
}
