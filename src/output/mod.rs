//! Results for people and programs: one [`AuditResult`], many renderers.
//!
//! A renderer is a pure function of the result and [`RenderOptions`]: the same result gives the same bytes. Where
//! they go is the business of [`write`](mod@write); [`exit_code`] says what they mean for a pipeline.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use clap::ValueEnum;
use serde::Serialize;

use crate::{
    gate::Coverage,
    object::{Location, ObjectKey},
    policy::{Metadata, Policy, Problem, RelatedResource, gatekeeper::Unjudged},
    verdict::{Finding, Outcome, Severity, Source},
};

mod json;
pub mod policies;
pub(crate) mod safe;
#[cfg(test)]
mod tests;
mod text;
pub mod write;

pub use policies::PolicyList;
pub use safe::shown_lines;
pub use write::{Streams, print, write_all};

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One document: the [`AuditResult`].
    Json,
    /// One line a result, and a last line with everything else.
    Ndjson,
}

impl Format {
    /// Returns the name as the user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
        }
    }

    /// Whether results can be written one by one as they come and go.
    pub fn streams(self) -> bool {
        matches!(self, Self::Text | Self::Ndjson)
    }
}

/// One `-o FORMAT[=FILE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// How to write.
    pub format: Format,
    /// Where to; `None` is standard output.
    pub file: Option<PathBuf>,
}

/// The least result that makes the exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Only fail
    Fail,
    /// Fail and warn
    Warn,
    /// No result
    None,
}

/// What a renderer may know about where its text will be read. Ignored by the formats for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether to colour.
    pub color: bool,
    /// Columns to wrap at; `usize::MAX` does not wrap.
    pub width: usize,
}

/// Plain and unwrapped, as for a file or a pipe.
impl Default for RenderOptions {
    fn default() -> Self {
        Self { color: false, width: usize::MAX }
    }
}

/// What happened to a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// It was not there before.
    Appeared,
    /// It is gone, or its object is.
    Resolved,
    /// It was about a change: it is over, and stands nowhere.
    Happened,
}

/// Writes the whole result.
pub fn render(
    format: Format,
    result: &AuditResult,
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::Text => text::render(result, options, out),
        Format::Json => json::render(result, out),
        Format::Ndjson => json::render_lines(result, out),
    }
}

/// Writes one line about one violation of the long run. Formats that do not stream write nothing.
pub fn stream_line(
    format: Format,
    event: Event,
    entry: &Entry,
    time: jiff::Timestamp,
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::Text => text::stream_line(event, entry, time, options, out),
        Format::Ndjson => json::stream_line(event, entry, time, out),
        Format::Json => Ok(()),
    }
}

/// Returns `time` in UTC, to the millisecond.
fn shown_time(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}

/// Returns the exit code that a finished audit deserves: 1 for violations at or above `fail_on`, else 3 where
/// something was not judged, else 0.
pub fn exit_code(result: &AuditResult, fail_on: FailOn) -> u8 {
    let summary = &result.summary;
    let violations = match fail_on {
        FailOn::Fail => summary.fail,
        FailOn::Warn => summary.fail + summary.warn,
        FailOn::None => 0,
    };
    if violations > 0 {
        1
    } else if !result.complete || summary.error > 0 {
        3
    } else {
        0
    }
}

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
    /// Why policy files were not judged by; sorted by file and line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Problem>,
    /// Templates and Constraints that judge nothing, although they are in order; sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_judged: Vec<Unjudged>,
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

/// One policy that took part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySummary {
    /// Package without `data.`, or a Constraint's kind.
    pub name: String,
    /// `conftest`, `admission`, `gatekeeper`.
    pub dialect: String,
    /// File it comes from.
    pub source: String,
    /// Its rules, sorted.
    pub rules: Vec<String>,
    /// What it says of itself.
    #[serde(flatten)]
    pub about: About,
    /// What its rules say of themselves, by name, where that is more than what it says of all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub about_rules: BTreeMap<String, About>,
}

/// What the author of a policy or rule says of it, in METADATA annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct About {
    /// In a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// At length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// How bad a violation is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// `custom.id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Arc<str>>,
    /// Further reading: `related_resources`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<RelatedResource>,
}

impl From<&Metadata> for About {
    fn from(metadata: &Metadata) -> Self {
        let Metadata { title, description, severity, id, related_resources, .. } = metadata.clone();
        Self { title, description, severity, id, links: related_resources }
    }
}

/// One result. There may be very many, so what they have in common is shared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The policy.
    pub policy: Arc<str>,
    /// The rule.
    pub rule: Arc<str>,
    /// fail, warn, error or skip.
    pub result: Outcome,
    /// How bad; `None` if nothing says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// What is wrong.
    pub message: Arc<str>,
    /// The object.
    pub resource: Arc<Resource>,
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
    pub fn new(finding: &Finding, resource: &Arc<Resource>, location: Option<&Location>) -> Self {
        Self {
            policy: finding.policy.clone(),
            rule: finding.rule.clone(),
            result: finding.outcome,
            severity: finding.severity,
            message: finding.message.clone(),
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
        let about = About::from(&policy.metadata);
        let about_rules = policy.rules.iter().map(|rule| (rule.name.to_string(), About::from(&*rule.metadata)));
        Self {
            about_rules: about_rules.filter(|(_, own)| *own != about).collect(),
            about,
            name: policy.name.to_string(),
            dialect: policy.dialect.to_string(),
            source: policy.source.to_string(),
            rules,
        }
    }
}
