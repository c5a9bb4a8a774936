//! SARIF 2.1.0 for GitHub code scanning.
//!
//! The limits are those of GitHub ("SARIF support for code scanning" in its documentation), which rejects a whole file
//! for one result without a line or one empty text. Each result has a file and a line: that of its manifest, or, for an
//! object of a cluster, that of the rule. Excused results are written as notifications, because code scanning opens
//! alerts for suppressed results as well.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io,
};

use serde_json::{Value, json};

use super::anchor::{Anchor, Occurrences};
use crate::{
    audit::{
        fingerprint::Fingerprint,
        result::{AuditResult, Entry, LineEdit, PolicySummary},
    },
    model::{
        object::ObjectRef,
        text::shortened,
        verdict::{Outcome, Severity},
    },
    output::{
        format::RenderOptions,
        names::{ShownNames, message, rule_name, worst_first},
        rules::{RuleCatalog, page},
        safe::{shown, shown_line, write_json_pretty},
        style::{Paint, count},
        summary::{by_choice, gap_lines},
    },
};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Maximum number of results that GitHub keeps per run.
const RESULTS: usize = 5_000;
/// Maximum number of rules per run.
const RULES: usize = 25_000;
/// Maximum length of a rule's description.
const DESCRIPTION_BYTES: usize = 1_024;
/// Maximum length of a message; 5,000 of them, compressed, are far below the limit of 10 MB per file.
const MESSAGE_BYTES: usize = 4_096;
/// Maximum number of notifications per level and source; a last one counts the others.
const NOTIFIED: usize = 100;

/// Writes one log with one run.
pub(crate) fn render(result: &AuditResult, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    write_json_pretty(&mut *out, &SarifRun::new(result, options).log())?;
    out.write_all(b"\n")
}

/// The data that the parts of a run refer to.
struct SarifRun<'r> {
    result: &'r AuditResult,
    options: &'r RenderOptions,
    names: ShownNames<'r>,
    /// Index of each rule in the list of rules.
    rules: BTreeMap<(&'r str, &'r str), usize>,
}

impl<'r> SarifRun<'r> {
    fn new(result: &'r AuditResult, options: &'r RenderOptions) -> Self {
        let found: BTreeSet<_> = result.results.iter().map(|entry| (&*entry.policy, &*entry.rule)).collect();
        let in_force =
            |policy: &'r PolicySummary| policy.rules.iter().map(|rule| (policy.name.as_str(), rule.as_str()));
        let more = result.policies.iter().flat_map(in_force).filter(|rule| !found.contains(rule));
        let rules: BTreeSet<_> = found.iter().copied().chain(more).take(RULES).collect();
        Self { result, options, names: ShownNames::of(&result.results), rules: rules.into_iter().zip(0..).collect() }
    }

    fn log(&self) -> Value {
        let violations: Vec<&Entry> =
            worst_first(&self.result.results).into_iter().filter(|entry| entry.result.is_violation()).collect();
        let mut occurrences = Occurrences::of(self.result);
        let results: Vec<Value> =
            violations.iter().take(RESULTS).map(|entry| self.result(entry, occurrences.next(entry))).collect();
        let mut log = json!({
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [{
                "tool": {"driver": {
                    "name": "kaudit",
                    "fullName": concat!("kaudit ", env!("CARGO_PKG_VERSION")),
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": self.descriptors(),
                }},
                "invocations": [self.invocation(violations.len())],
                "columnKind": "unicodeCodePoints",
                "results": results,
            }],
        });
        let run = &mut log["runs"][0];
        if let Some(id) = &self.options.sarif_id {
            run["automationDetails"] = json!({"id": id});
        }
        if !env!("CARGO_PKG_REPOSITORY").is_empty() {
            run["tool"]["driver"]["informationUri"] = env!("CARGO_PKG_REPOSITORY").into();
        }
        log
    }

    fn descriptors(&self) -> Vec<Value> {
        let about = RuleCatalog::of(self.result);
        self.rules.keys().map(|(policy, rule)| descriptor(&about, policy, rule)).collect()
    }

    fn result(&self, entry: &Entry, (fingerprint, occurrence): (Fingerprint, usize)) -> Value {
        let mut result = json!({
            "ruleId": rule_name(entry),
            "level": level(entry),
            "message": text(&format!("{}: {}", self.names.object(&entry.resource), message(entry)), MESSAGE_BYTES),
            "locations": [location(entry, &Anchor::of(entry, self.options.tree.as_ref()))],
            "partialFingerprints": {"primaryLocationLineHash": format!("{fingerprint}:{occurrence}")},
        });
        if let Some(index) = self.rules.get(&(&*entry.policy, &*entry.rule)) {
            result["ruleIndex"] = (*index).into();
        }
        if let Some(severity) = entry.severity {
            result["properties"]["severity"] = severity.word().into();
        }
        if let Some(edit) = &entry.edit {
            result["fixes"] = json!([fix(entry, edit, &Anchor::of(entry, self.options.tree.as_ref()))]);
        }
        if entry.dependents > 0 {
            result["properties"]["dependents"] = entry.dependents.into();
        }
        result
    }

    fn invocation(&self, violations: usize) -> Value {
        let result = self.result;
        let mut notifications = Vec::new();
        if let Some(left_out) = violations.checked_sub(RESULTS).filter(|left_out| *left_out > 0) {
            notifications.push(notification(
                "warning",
                &format!("{left_out} of {violations} results were left out, the least severe first: code scanning keeps {RESULTS}; use -o json for all"),
            ));
        }
        notifications.extend(limited("error", gap_lines(result, Paint(false))));
        notifications.extend(limited("note", by_choice(result)));
        let of = |outcome| result.results.iter().filter(move |entry| entry.result == outcome);
        let notice = |entry: &Entry, what: &str| {
            format!("{}: {} {what}: {}", self.names.object(&entry.resource), rule_name(entry), message(entry))
        };
        notifications.extend(limited(
            "error",
            of(Outcome::Error).map(|entry| notice(entry, "could not be evaluated")).collect(),
        ));
        notifications.extend(limited("note", of(Outcome::Skip).map(|entry| notice(entry, "is excused")).collect()));
        json!({
            "executionSuccessful": result.complete && result.summary.error == 0,
            "toolExecutionNotifications": notifications,
        })
    }
}

/// Returns the descriptor of a rule.
fn descriptor(rules: &RuleCatalog<'_>, policy: &str, rule: &str) -> Value {
    let id = shown_line(&format!("{policy}/{rule}"));
    let about = rules.about(policy, rule);
    let filled = |text: Option<&str>| text.filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let title = filled(about.and_then(|about| about.title.as_deref())).unwrap_or_else(|| id.clone());
    let description = filled(about.and_then(|about| about.description.as_deref())).unwrap_or_else(|| title.clone());
    let page = about.and_then(page);
    let help = page.map_or_else(|| description.clone(), |page| format!("{description}\n{page}"));
    let mut descriptor = json!({
        "id": id,
        "shortDescription": text(&title, DESCRIPTION_BYTES),
        "fullDescription": text(&description, DESCRIPTION_BYTES),
        "help": text(&help, MESSAGE_BYTES),
    });
    let name = pascal_case(rule);
    if !name.is_empty() {
        descriptor["name"] = name.into();
    }
    if let Some(page) = page {
        descriptor["helpUri"] = page.into();
    }
    let score = about.and_then(|about| about.severity).and_then(score);
    let own = about.and_then(|about| about.id.as_deref()).map(shown_line);
    let category = about.and_then(|about| about.category.as_deref()).map(shown_line);
    // Code scanning reads the score only if the rule has the tag "security".
    let tags = [category, own, score.map(|_| "security".to_owned())].into_iter().flatten();
    let tags: BTreeSet<String> = tags.filter(|tag| !tag.is_empty()).collect();
    if !tags.is_empty() {
        descriptor["properties"] = json!({"tags": tags});
    }
    if let Some(score) = score {
        descriptor["properties"]["security-severity"] = score.into();
    }
    descriptor
}

/// Returns `DenyLatestTag` for `deny_latest_tag`, the readable form of a rule name.
fn pascal_case(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(String::new(), |name, word| name + &word[..1].to_ascii_uppercase() + &word[1..])
}

/// Returns a score in the middle of the range that code scanning maps to the same word; it has none below low.
fn score(severity: Severity) -> Option<&'static str> {
    match severity {
        Severity::Critical => Some("9.5"),
        Severity::High => Some("8.0"),
        Severity::Medium => Some("5.5"),
        Severity::Low => Some("2.0"),
        Severity::Info => None,
    }
}

fn level(entry: &Entry) -> &'static str {
    match (entry.result, entry.severity) {
        (Outcome::Fail, _) => "error",
        (_, Some(Severity::Info)) => "note",
        _ => "warning",
    }
}

fn location(entry: &Entry, anchor: &Anchor) -> Value {
    let object = &*entry.resource;
    json!({
        "physicalLocation": {
            "artifactLocation": {"uri": anchor.uri()},
            // All four are required; this is the start of the line.
            "region": {"startLine": anchor.line, "startColumn": 1, "endLine": anchor.line, "endColumn": 1},
        },
        "logicalLocations": [{"fullyQualifiedName": qualified_name(object), "kind": "resource"}],
    })
}

fn fix(entry: &Entry, edit: &LineEdit, anchor: &Anchor) -> Value {
    let field = entry.field().unwrap_or_default();
    let description = match (entry.details.get("patch"), entry.details.get("fix")) {
        (Some(_), _) => format!("change {}", if field.is_empty() { "the object" } else { field }),
        (None, None | Some(Value::Null)) => format!("remove {field}"),
        (None, Some(value)) => format!("set {field} to {value}"),
    };
    let LineEdit { lines, text: inserted } = edit;
    json!({
        "description": text(&description, MESSAGE_BYTES),
        "artifactChanges": [{
            "artifactLocation": {"uri": anchor.uri()},
            "replacements": [{
                "deletedRegion": {"startLine": lines.start, "startColumn": 1, "endLine": lines.end, "endColumn": 1},
                "insertedContent": {"text": inserted},
            }],
        }],
    })
}

/// Returns `group/Kind/namespace/name`, without empty parts.
fn qualified_name(object: &ObjectRef) -> String {
    let ObjectRef { kind, namespace, name, .. } = object;
    let parts = [object.group(), kind, namespace.as_deref().unwrap_or_default(), name];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "object".to_owned() } else { shown_line(&parts.join("/")) }
}

/// Returns the first notifications, and one that counts the rest.
fn limited(level: &str, mut texts: Vec<String>) -> Vec<Value> {
    let more = texts.len().saturating_sub(NOTIFIED);
    if more > 0 {
        texts.truncate(NOTIFIED);
        texts.push(format!("and {}", count(more, "more notification")));
    }
    texts.iter().map(|text| notification(level, text)).collect()
}

fn notification(level: &str, message: &str) -> Value {
    json!({"level": level, "message": text(message, MESSAGE_BYTES)})
}

/// Returns a message object. Viewers render `[…](…)` as a link, which policies must not create, and replace `{0}` with
/// arguments.
fn text(text: &str, bytes: usize) -> Value {
    let text = shown(text).replace("](", "] (");
    json!({"text": without_placeholders(&shortened(&text, bytes))})
}

/// Escapes placeholders: doubles the braces around numbers.
fn without_placeholders(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('{') {
        let digits = from.len() - from.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let is_placeholder = digits > 0 && from[digits..].starts_with('}');
        out.push_str(before);
        if is_placeholder {
            let _ = write!(out, "{{{{{}}}}}", &from[..digits]);
            rest = &from[digits + 1..];
        } else {
            out.push('{');
            rest = from;
        }
    }
    out + rest
}
