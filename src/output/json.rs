//! Results for programs: `json`, one document, and `ndjson`, one line per result.
//!
//! `ndjson` of a finished audit is one [`Entry`] per line, each complete in itself, and a last line that has `kind:
//! AuditResult`, the summary, the policies, and the kinds and policies that were not covered. Output without the last
//! line is truncated. A watch writes no last line: each line is an `Entry` with `event` (`appeared`, `resolved` or
//! `happened`) and `time`.

use std::io;

use serde::Serialize;

use super::{
    format::shown_time,
    safe::{write_json, write_json_pretty},
};
use crate::{
    audit::{
        ledger::Lifecycle,
        result::{AuditResult, AuditScope, Entry, PolicySummary, Summary},
    },
    judge::{bundle::Edition, profile::Profile, rule_settings::SkippedRule, unjudged::Unjudged},
    model::{
        coverage::{Coverage, State},
        verdict::Severity,
    },
    rego::Problem,
};

/// The last line of `ndjson`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LastLine<'a> {
    api_version: &'a str,
    /// Always `AuditResult`.
    kind: &'a str,
    /// What was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a AuditScope>,
    /// Whether every kind in scope was read and every policy ran.
    complete: bool,
    /// Objects and results, counted.
    summary: Summary,
    /// The kinds that were excluded or could not be read completely.
    coverage: Vec<&'a Coverage>,
    /// The policies in force.
    policies: &'a [PolicySummary],
    /// The bundles that policies come from.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    bundles: &'a [Edition],
    /// Why policy files were refused.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    refused: &'a [Problem],
    /// Policies that are valid but not evaluated.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    not_judged: &'a [Unjudged],
    /// The profile of the builtin library, if it is used and the profile is not `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Profile>,
    /// Rules that are switched off.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skipped_rules: &'a [SkippedRule],
    /// The least severity that is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_severity: Option<Severity>,
    /// Namespaces whose objects are not checked, as globs.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    excluded_namespaces: &'a [String],
}

/// One line of a watch.
#[derive(Serialize)]
struct Streamed<'a> {
    /// What happened to the violation.
    event: Lifecycle,
    /// When it happened.
    time: String,
    #[serde(flatten)]
    /// The violation.
    entry: &'a Entry,
}

/// Writes one indented document and a newline.
pub(super) fn render(result: &AuditResult, out: &mut dyn io::Write) -> io::Result<()> {
    write_json_pretty(&mut *out, result)?;
    out.write_all(b"\n")
}

/// Writes one line per result, and the last line.
pub(super) fn render_lines(result: &AuditResult, out: &mut dyn io::Write) -> io::Result<()> {
    for entry in &result.results {
        line(entry, out)?;
    }
    let coverage = result.coverage.iter().filter(|kind| kind.is_gap() || kind.state == State::Excluded).collect();
    let AuditResult { api_version, kind, complete, summary, .. } = *result;
    let last = LastLine {
        api_version,
        kind,
        scope: result.scope.as_ref(),
        complete,
        summary,
        coverage,
        policies: &result.policies,
        bundles: &result.bundles,
        refused: &result.refused,
        not_judged: &result.not_judged,
        profile: result.profile,
        skipped_rules: &result.skipped_rules,
        min_severity: result.min_severity,
        excluded_namespaces: &result.excluded_namespaces,
    };
    line(&last, out)
}

/// Writes one lifecycle event of a violation.
pub(super) fn stream_line(
    event: Lifecycle,
    entry: &Entry,
    time: jiff::Timestamp,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    line(&Streamed { event, time: shown_time(time), entry }, out)
}

fn line(value: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    write_json(&mut *out, value)?;
    out.write_all(b"\n")
}
