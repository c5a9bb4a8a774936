//! The summary below the results: the counts, the gaps, and advice how to close them.

use std::collections::{BTreeMap, BTreeSet};

use anstyle::AnsiColor;

use super::{
    safe::shown_line,
    style::{DIM, GREEN, Paint, count, style_of},
};
use crate::{
    audit::{
        exceptions::ExceptionSummary,
        result::{AuditResult, BaselineEntry, Entry, IncomparableEntry},
    },
    cluster::identity::OWN_GROUP,
    judge::{rule_settings::SkippedRule, unjudged::Unjudged},
    model::{
        coverage::{Coverage, FOR_LOOKUPS, State},
        object::{Location, ObjectRef},
        verdict::{Outcome, is_withheld},
    },
    rego::Problem,
};

/// Maximum number of rules named in the summary.
const NAMED_RULES: usize = 10;
/// Maximum number of files named in the summary.
const NAMED: usize = 3;
/// Maximum number of baseline violations named in the summary.
const NAMED_OF_BASELINE: usize = 10;

/// Returns the gaps, the remarks, the advice and the counts.
pub(super) fn closing_lines(result: &AuditResult, paint: Paint) -> Vec<String> {
    let mut lines = gap_lines(result, paint);
    lines.extend(remarks(result, paint));
    lines.extend(advice(result));
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(sentence(result, paint));
    if !result.complete {
        lines.push(paint.with(AnsiColor::Yellow.on_default(), "incomplete: not everything was checked"));
    }
    if !is_compared(result) {
        let words = "incomplete: not everything could be compared with the baseline";
        lines.push(paint.with(AnsiColor::Yellow.on_default(), words));
    }
    lines
}

/// Whether everything could be compared with the baseline, if there is one.
pub(super) fn is_compared(result: &AuditResult) -> bool {
    result.baseline.as_ref().is_none_or(|baseline| baseline.incomparable.is_empty())
}

/// Returns the overall result in a few words.
pub(super) fn headline(result: &AuditResult) -> String {
    let summary = &result.summary;
    let counts = [(summary.fail, "fail"), (summary.warn, "warn"), (summary.error, "error")];
    let counts: Vec<String> =
        counts.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}")).collect();
    match (counts.is_empty(), result.complete && is_compared(result)) {
        (false, _) => counts.join(", "),
        (true, true) if summary.objects == 0 => "nothing checked".to_owned(),
        (true, true) => "clean".to_owned(),
        (true, false) => "incomplete".to_owned(),
    }
}

/// Returns the counts as one sentence.
pub(super) fn sentence(result: &AuditResult, paint: Paint) -> String {
    let summary = &result.summary;
    let parts = [
        (summary.fail, "failure", style_of(Outcome::Fail)),
        (summary.warn, "warning", style_of(Outcome::Warn)),
        (summary.error, "error", style_of(Outcome::Error)),
    ];
    let counts: Vec<String> = (parts.into_iter().filter(|(number, ..)| *number > 0))
        .map(|(number, noun, style)| paint.with(style, &count(number, noun)))
        .collect();
    let kinds = count(kinds_with_objects(&result.coverage).count(), "kind");
    let rules = count(result.policies.iter().map(|policy| policy.rules.len()).sum(), "rule");
    let objects = count(summary.objects, "object");
    let passes = match summary.pass {
        1 => "1 pass".to_owned(),
        number => format!("{number} passes"),
    };
    let first = if counts.is_empty() {
        let is_clean = result.complete && is_compared(result) && summary.objects > 0;
        let clean = if is_clean { format!("{}: ", paint.with(GREEN, "clean")) } else { String::new() };
        format!("{clean}{objects} of {kinds} checked by {rules}, {passes}")
    } else {
        let is_counted = |entry: &&Entry| entry.result != Outcome::Skip && entry.covered_by.is_none();
        let with: BTreeSet<(&ObjectRef, Option<&Location>)> = (result.results.iter().filter(is_counted))
            .map(|entry| (&*entry.resource, entry.location.as_ref()))
            .collect();
        let (with, counts) = (with.len(), listed(&counts));
        format!("{counts} in {with} of {objects}; {kinds}, {rules}, {passes}")
    };
    let mut sentence = vec![first];
    let known = result.baseline.as_ref().map_or(0, |baseline| baseline.known);
    let of_system = result
        .results
        .iter()
        .filter(|entry| entry.covered_by.is_none() && entry.excuse.as_ref().is_some_and(|excuse| excuse.is_system()));
    let of_system = of_system.count();
    let others = [
        (summary.skip.saturating_sub(known).saturating_sub(of_system), "excused"),
        (of_system, "excused for system components"),
        (known, "in the baseline"),
        (summary.covered, "covered by results of their owners"),
    ];
    let others = others.into_iter().filter(|(number, _)| *number > 0);
    sentence.extend(others.map(|(number, words)| paint.with(DIM, &format!("{number} {words}"))));
    sentence.extend(inactive(&result.coverage));
    sentence.extend(left_out(&result.coverage));
    sentence.extend(by_choice(result));
    sentence.join("; ")
}

/// Joins words: `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [words @ .., last] if !words.is_empty() => format!("{} and {last}", words.join(", ")),
        words => words.concat(),
    }
}

/// Returns what is not checked by choice: the profile, and what is excluded of rules, namespaces, labels and severities.
pub(super) fn by_choice(result: &AuditResult) -> Vec<String> {
    let mut choices = Vec::new();
    choices.extend(result.profile.map(|profile| format!("profile {}", profile.word())));
    let (by_setting, by_reason): (Vec<&SkippedRule>, Vec<_>) =
        result.skipped_rules.iter().partition(|rule| rule.reason.is_none());
    if !by_setting.is_empty() {
        let named: Vec<String> =
            by_setting.iter().take(NAMED_RULES).map(|rule| shown_line(&rule.to_string())).collect();
        let more = by_setting.len().saturating_sub(NAMED_RULES);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        choices.push(format!("{} switched off ({}{more})", count(by_setting.len(), "rule"), named.join(", ")));
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in by_reason.iter().filter_map(|rule| rule.reason.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    choices.extend(reasons.into_iter().map(|(reason, rules)| format!("{} {reason}", count(rules, "rule"))));
    if !result.excluded_namespaces.is_empty() {
        choices.push(format!("excluded namespaces: {}", result.excluded_namespaces.join(", ")));
    }
    if let Some(selector) = result.scope.as_ref().and_then(|scope| scope.selector.as_deref()) {
        choices.push(format!("only objects with the labels {}", shown_line(selector)));
    }
    if let Some(least) = result.min_severity {
        choices.push(format!("only severity {} and worse", least.word()));
    }
    choices
}

/// Returns the kinds of the evaluated objects. A kind that is readable in only some namespaces has objects and is a gap
/// as well.
pub(super) fn kinds_with_objects(coverage: &[Coverage]) -> impl Iterator<Item = &Coverage> + Clone {
    coverage.iter().filter(|kind| kind.objects > 0 && kind.group != OWN_GROUP)
}

/// Returns a line for each gap: whatever was not evaluated, not in force, or not compared.
pub(super) fn gap_lines(result: &AuditResult, paint: Paint) -> Vec<String> {
    let unread = unread(&result.coverage, &result.refused, paint).into_iter();
    let incomparable = result.baseline.iter().flat_map(|baseline| &baseline.incomparable).map(|known| {
        let IncomparableEntry { entry, reason } = known;
        format!("{}: {reason}", named(entry))
    });
    let words = paint.with(AnsiColor::Yellow.on_default(), "not compared:");
    let not_judged = not_judged_line(&result.not_judged, paint);
    unread.chain(not_judged).chain(first_few(&words, &incomparable.collect::<Vec<_>>())).collect()
}

/// Returns a line for every kind and document that was not read, and every refused policy file.
pub(super) fn unread(coverage: &[Coverage], refused: &[Problem], paint: Paint) -> Vec<String> {
    let gaps = coverage.iter().filter(|kind| kind.is_gap()).map(|gap| gap_line(gap, paint));
    gaps.chain(refused.iter().map(|problem| refused_line(problem, paint))).collect()
}

/// Names the kinds that are forbidden and not needed.
fn unneeded_line(coverage: &[Coverage]) -> Option<String> {
    let unneeded = coverage.iter().filter(|kind| kind.is_unneeded());
    let names: Vec<String> = unneeded.map(|kind| shown_line(&kind.name())).collect();
    (!names.is_empty()).then(|| format!("forbidden, but not needed: {}", names.join(", ")))
}

/// Returns lines about things that need attention although the audit itself is complete.
pub(super) fn remarks(result: &AuditResult, paint: Paint) -> Vec<String> {
    let exceptions = result.exceptions.iter().filter_map(|exception| exception_line(exception, paint));
    let fixed = result.baseline.iter().flat_map(|baseline| &baseline.fixed).map(named);
    let not_found = result.baseline.as_ref().map_or(0, |baseline| baseline.not_found.len());
    let not_found = (not_found > 0).then(|| {
        let entries = if not_found == 1 { "entry of the baseline is" } else { "entries of the baseline are" };
        let or_severe = result.min_severity.map(|least| format!(", or less severe than {}", least.word()));
        let or_severe = or_severe.unwrap_or_default();
        format!("not compared: {not_found} {entries} about objects that are not part of this audit{or_severe}")
    });
    let exceptions = exceptions.chain(not_found).chain(unneeded_line(&result.coverage));
    exceptions.chain(first_few(&paint.with(GREEN, "fixed:"), &fixed.collect::<Vec<_>>())).collect()
}

/// Returns a line about an exception that needs attention.
fn exception_line(exception: &ExceptionSummary, paint: Paint) -> Option<String> {
    let place = exception.location.as_ref().map_or(String::new(), |at| format!("{}:{}: ", at.file, at.line));
    let words = paint.with(AnsiColor::Yellow.on_default(), "exception:");
    let line = shown_line(&format!("{place}{} {}", exception.name, exception.sentence()));
    exception.needs_attention().then(|| format!("{words} {line}"))
}

fn named(entry: &BaselineEntry) -> String {
    format!("{} {}, {}/{}", entry.kind, entry.name, entry.policy, entry.rule)
}

/// Returns a line for each of the first texts, and one that counts the others.
fn first_few(words: &str, texts: &[String]) -> Vec<String> {
    let more = texts.len().saturating_sub(NAMED_OF_BASELINE);
    let shown = texts.iter().take(NAMED_OF_BASELINE).map(|text| format!("{words} {}", shown_line(text)));
    shown.chain((more > 0).then(|| format!("{words} {more} more"))).collect()
}

/// Counts the inactive objects, which were not evaluated.
fn inactive(coverage: &[Coverage]) -> Option<String> {
    let number: usize = coverage.iter().map(|kind| kind.inactive).sum();
    (number > 0).then(|| format!("{} skipped", count(number, "inactive object")))
}

/// Names the first settings files of tools, and counts the others.
fn left_out(coverage: &[Coverage]) -> Option<String> {
    let files: Vec<String> = coverage.iter().filter_map(Coverage::settings_file).map(shown_line).collect();
    match files.len().checked_sub(NAMED) {
        _ if files.is_empty() => None,
        None | Some(0) => Some(format!("skipped without objects: {}", files.join(", "))),
        Some(more) => {
            Some(format!("skipped without objects: {} and {}", files[..NAMED].join(", "), count(more, "more file")))
        }
    }
}

fn not_judged_line(policies: &[Unjudged], paint: Paint) -> Option<String> {
    let words = paint.with(AnsiColor::Yellow.on_default(), "not used:");
    let number = policies.len();
    let noun = if number == 1 { "policy" } else { "policies" };
    let controls = policies.iter().flat_map(|policy| &policy.controls).collect::<BTreeSet<_>>().len();
    let controls = if controls == 0 { String::new() } else { format!(" of {}", count(controls, "control")) };
    (number > 0).then(|| format!("{words} {number} {noun}{controls} unsupported; run kaudit policies for the reasons"))
}

fn refused_line(problem: &Problem, paint: Paint) -> String {
    let words = paint.with(AnsiColor::Yellow.on_default(), "not used:");
    format!("{words} {}: {}", shown_line(&problem.place()), shown_line(&problem.message))
}

fn gap_line(gap: &Coverage, paint: Paint) -> String {
    if gap.is_documents() {
        let words = paint.with(AnsiColor::Yellow.on_default(), "not read:");
        return format!("{words} {}", shown_line(&gap.message));
    }
    let why = match gap.state {
        State::Forbidden => "forbidden",
        State::TimedOut => "timed out",
        State::Syncing => "still syncing",
        State::Failed | State::Synced | State::Excluded => "failed",
    };
    let colon = if gap.message.is_empty() { "" } else { ": " };
    // Exceptions, and objects that only serve lookups, are read, but not checked.
    let is_read_only = gap.group == OWN_GROUP || gap.message.starts_with(FOR_LOOKUPS);
    let words = if is_read_only { "not read:" } else { "not checked:" };
    let words = paint.with(AnsiColor::Yellow.on_default(), words);
    format!("{words} {} ({why}{colon}{})", shown_line(&gap.name()), shown_line(&gap.message))
}

/// Returns advice for each type of gap, with all kinds concerned.
fn advice(result: &AuditResult) -> Vec<String> {
    let all = |state: State, are_exceptions: bool| {
        let gaps = result.coverage.iter().filter(|gap| gap.is_gap() && !gap.is_documents() && gap.state == state);
        let gaps = gaps.filter(|gap| (gap.group == OWN_GROUP) == are_exceptions);
        let names: Vec<String> = gaps.map(|gap| quoted(&gap.name())).collect();
        (!names.is_empty()).then(|| names.join(","))
    };
    let mut lines = Vec::new();
    if let Some(names) = all(State::Forbidden, false) {
        lines.push(format!(
            "  Grant list and watch on the forbidden kinds, exclude them, or accept the gap: --exclude or --allow-missing {names}"
        ));
    }
    if let Some(names) = all(State::Forbidden, true) {
        lines.push(format!("  Grant list and watch on {names}: until then, violations that may be excused are errors"));
    }
    if let Some(names) = all(State::Failed, false) {
        lines.push(format!(
            "  Failed kinds often belong to an API whose server is down; to exclude them: --exclude {names}"
        ));
    }
    if result.coverage.iter().any(|gap| gap.state == State::TimedOut) {
        lines.push("  Give a large or slow cluster more time: --sync-timeout 5m".to_owned());
    }
    if result.baseline.as_ref().is_some_and(|baseline| !baseline.fixed.is_empty() && !baseline.is_pruned) {
        lines.push("  --prune-baseline removes fixed violations from the baseline".to_owned());
    }
    let is_failure = |entry: &Entry| entry.result == Outcome::Error && !is_withheld(entry.result, &entry.message);
    if result.results.iter().any(is_failure) {
        lines.push("  An error means that the policy failed and the object was not checked".to_owned());
    }
    lines
}

/// Quotes a name that a shell would expand.
fn quoted(name: &str) -> String {
    if name.contains('*') { format!("'{}'", shown_line(name)) } else { shown_line(name) }
}
