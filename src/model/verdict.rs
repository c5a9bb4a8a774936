//! The results of judging one object.

use std::sync::{Arc, LazyLock};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::model::{
    digest::Digest,
    exception::Excuse,
    object::ObjectKey,
    rule_numbers::{RuleName, RuleNumbers},
};

/// How a rule came out for an object. Passes are counted, not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// `deny`, `violation`, a Gatekeeper constraint with action `deny`.
    Fail,
    /// `warn`, a Gatekeeper constraint with action `warn` or `dryrun`.
    Warn,
    /// The policy could not be evaluated for this object.
    Error,
    /// Excepted.
    Skip,
}

impl Outcome {
    /// Returns the word for it in results, reports and metrics.
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
    /// All of them, the worst first.
    pub const ALL: [Self; 5] = [Self::Critical, Self::High, Self::Medium, Self::Low, Self::Info];

    /// Parses a severity as policies write it: in upper or lower case.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.word().eq_ignore_ascii_case(word.trim()))
    }

    /// Returns the word for it in reports, which is lower case.
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

/// Where a rule is in the policy files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Source {
    /// The file, relative to where the user named it.
    pub file: Arc<str>,
    /// Line of the rule's head, from 1; for an `error`, the line that failed.
    pub line: u32,
}

/// What excuses a finding, and what its outcome would be otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excused {
    /// What excuses it.
    pub excuse: Arc<Excuse>,
    /// Fail or warn.
    pub otherwise: Outcome,
}

/// Policy and rule of a result that concerns an object as a whole.
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

    /// Returns about how many bytes its texts take in memory.
    pub(crate) fn text_bytes(&self) -> usize {
        self.message.len() + self.details.as_ref().map_or(0, |details| details.values().map(value_bytes).sum())
    }
}

/// Returns about how many bytes a value takes, with its place in a list or under a key.
fn value_bytes(value: &serde_json::Value) -> usize {
    const PLACE: usize = 64;
    PLACE
        + match value {
            serde_json::Value::String(text) => text.len(),
            serde_json::Value::Array(items) => items.iter().map(value_bytes).sum(),
            serde_json::Value::Object(fields) => fields.values().map(value_bytes).sum(),
            _ => 0,
        }
}

/// The METADATA by which people identify a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleInfo {
    /// METADATA `title`.
    pub title: Option<Arc<str>>,
    /// METADATA `custom.id`, such as `IMG-01`.
    pub id: Option<Arc<str>>,
    /// METADATA `custom.category`.
    pub category: Option<Arc<str>>,
}

impl RuleInfo {
    /// Returns the same with what is missing filled in from a wider scope; shares one of the two where possible.
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

/// What the results of a rule have in common. It is made once for each definition of a rule, when policies are loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleDescriptor {
    /// The policy: package path without `data.` (`pod_security.baseline`), or a Constraint's kind.
    pub policy: Arc<str>,
    /// The name of the rule's head (`deny_privileged`), or a Constraint's name.
    pub name: Arc<str>,
    /// Its title, id and category, as far as METADATA has them.
    pub info: Arc<RuleInfo>,
    /// Where it is written; for an `error`, what failed.
    pub source: Source,
}

impl RuleDescriptor {
    /// Describes a rule of which only the name is known, such as one that a record names.
    pub fn named(policy: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        let (policy, name) = (policy.into(), name.into());
        Self { policy, name, info: Arc::default(), source: Source { file: "".into(), line: 0 } }
    }

    /// Returns that of the results that concern an object as a whole.
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
    /// How it came out.
    pub outcome: Outcome,
    /// From METADATA `custom.severity`, or the result's own `severity` key; `None` if neither says.
    pub severity: Option<Severity>,
    /// What is wrong, in the policy's words; for an `error`, what went wrong and where.
    pub message: Arc<str>,
    /// Whatever else the policy gave (keys beside `msg`, or Gatekeeper's `details`); empty if nothing.
    pub details: Option<Arc<serde_json::Map<String, serde_json::Value>>>,
    /// What excuses it; its outcome is skip then.
    pub excused: Option<Excused>,
}

/// What follows the number in the message of a result that counts those of its rule, or of its object, which are not listed.
pub(crate) const UNLISTED_OF_RULE: &str = " more results of this rule for this object are not listed";
pub(crate) const UNLISTED_OF_OBJECT: &str = " more results for this object are not listed";

/// What results are counted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// Their policy.
    pub policy: Arc<str>,
    /// Their severity, if it is known.
    pub severity: Option<Severity>,
    /// What they count as.
    pub outcome: Outcome,
}

impl Finding {
    /// Returns what it is counted by.
    pub fn class(&self) -> Class {
        Class { policy: Arc::clone(&self.rule.policy), severity: self.severity, outcome: self.outcome }
    }

    /// Whether it counts results of its rule that are not listed.
    pub(crate) fn counts_unlisted_of_rule(&self) -> bool {
        is_counted(&self.message, UNLISTED_OF_RULE)
    }

    /// Whether it counts results of its object that are not listed.
    pub(crate) fn counts_unlisted_of_object(&self) -> bool {
        [&*self.rule.policy, &*self.rule.name] == OBJECT_RULE && is_counted(&self.message, UNLISTED_OF_OBJECT)
    }

    /// Makes it a skip, if it is a violation.
    pub fn excuse(&mut self, excuse: &Arc<Excuse>) {
        if self.outcome.is_violation() {
            self.excused = Some(Excused { excuse: Arc::clone(excuse), otherwise: self.outcome });
            self.outcome = Outcome::Skip;
        }
    }

    /// Returns the field of the object that the result is about, if the policy names it as `details.field`.
    pub fn field(&self) -> Option<&str> {
        self.details.as_ref()?.get("field")?.as_str()
    }

    /// Whether both are the same result, whatever their source and severity.
    pub fn is_same_result(&self, other: &Self) -> bool {
        fn identity(finding: &Finding) -> (Outcome, &str, &str) {
            (finding.outcome, &finding.rule.policy, &finding.rule.name)
        }
        identity(self) == identity(other) && self.message == other.message && self.details == other.details
    }

    /// Makes it what the policy says.
    pub fn restore(&mut self) {
        if let Some(Excused { otherwise, .. }) = self.excused.take() {
            self.outcome = otherwise;
        }
    }
}

fn is_counted(message: &str, what: &str) -> bool {
    message.strip_suffix(what).is_some_and(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
impl Finding {
    /// A violation of one policy with this message, for tests.
    pub(crate) fn sample(message: &str) -> Self {
        Self::sample_of("p", "deny", message)
    }

    /// A violation of a rule with this message, for tests.
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

/// Whether an object looks like one that was judged before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// It does.
    Hit,
    /// It does not.
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

/// All results of one object under one policy set. A pure function of the job.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The object that was judged.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Arc<str>,
    /// Sorted and without doubles: fail, warn, error and skip.
    pub results: Vec<Finding>,
    /// What the policies say of the transition (`oldObject`, `operation: UPDATE` or `DELETE`) and not of the object as it
    /// is: reported once, never standing.
    pub transitions: Vec<Finding>,
    /// Rules that are about the object's kind, match it, and have no result.
    pub passed: RuleNumbers,
    /// Whether judging again may end otherwise although nothing changed: something ran out of time, or kaudit failed.
    pub unfinished: bool,
    /// Rules, each with its policy, that have an error which the same object need not have again: they ran out of time, or what
    /// they depend on has not been read.
    pub undecided: Vec<RuleName>,
    /// Whether what was said of an object that looks the same counts for this one, too; `None` if nothing of it can be shared.
    pub shared: Option<Shared>,
    /// Policies that say something else of the object than of one that looks the same; the results are those of the object.
    pub shared_differences: Vec<Arc<str>>,
    /// Digest of the policy set it was judged under.
    pub policies: Digest,
    /// Time that the evaluation took; for metrics only, never shown in results.
    pub took: std::time::Duration,
}
