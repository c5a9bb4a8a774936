//! `JUnit` XML: one suite per policy, one case per rule and object with results.
//!
//! GitLab drops cases with a duplicate name, so the results of one rule for one object form one case. A warning is a
//! failure of another type, as in conftest; the exit code decides whether the job fails.

use std::{collections::BTreeMap, io};

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::anchor::Anchor;
use crate::{
    audit::result::{AuditResult, Entry},
    model::{text::shortened, verdict::Outcome},
    output::{
        names::{ShownNames, message, urgency},
        safe::{Escaping, Guarded, shown_line},
        style::Paint,
        summary::{gap_lines, sentence},
    },
};

/// The suite and class of the audit itself. Cases of a package with this name have the class `kaudit.RULE`, so they
/// differ.
const OWN: &str = "kaudit";
/// Maximum length of a message; a file may have 30 MB.
const MESSAGE_BYTES: usize = 4_096;

/// Writes all results, and a suite with the counts and the gaps of the audit.
pub(crate) fn render(result: &AuditResult, out: &mut dyn io::Write) -> io::Result<()> {
    let names = ShownNames::of(&result.results);
    let mut policies: BTreeMap<&str, BTreeMap<(&str, String), Vec<&Entry>>> = BTreeMap::new();
    for entry in &result.results {
        let cases = policies.entry(&entry.policy).or_default();
        cases.entry((&*entry.rule, names.object(&entry.resource))).or_default().push(entry);
    }
    let mut report = Report::new(OWN);
    report.add_test_suite(own_suite(result));
    for (policy, cases) in policies {
        let mut suite = TestSuite::new(legal(&shown_line(policy)));
        for ((rule, object), mut entries) in cases {
            entries.sort_by_key(|entry| urgency(entry));
            let mut case = TestCase::new(legal(&object), status(&entries));
            case.set_classname(legal(&shown_line(&format!("{policy}.{rule}"))));
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    write_junit(&report, out)
}

/// Returns the suite about the audit. Passes are only known in total, not by policy.
fn own_suite(result: &AuditResult) -> TestSuite {
    let mut suite = TestSuite::new(OWN);
    let mut checked = TestCase::new("checked", TestCaseStatus::success());
    checked.set_classname(OWN).set_system_out(legal(&sentence(result, Paint(false))));
    suite.add_test_case(checked);
    let mut gaps = gap_lines(result, Paint(false));
    gaps.sort();
    gaps.dedup();
    for gap in gaps {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_type("unchecked").set_message(legal(&gap));
        let mut case = TestCase::new(legal(&gap), status);
        case.set_classname(OWN);
        suite.add_test_case(case);
    }
    suite
}

/// Returns the status of one case: the outcome of the first result, which is the most severe, with all messages.
fn status(entries: &[&Entry]) -> TestCaseStatus {
    let worst = entries.first().map_or(Outcome::Skip, |entry| entry.result);
    let mut status = match worst {
        Outcome::Fail | Outcome::Warn => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Outcome::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
        Outcome::Skip => TestCaseStatus::skipped(),
    };
    let messages: Vec<String> = entries.iter().map(|entry| message(entry)).collect();
    let first = messages.first().and_then(|message| message.lines().next()).unwrap_or_default();
    status.set_type(worst.word()).set_message(legal(first));
    let described = entries.iter().zip(&messages).map(|(entry, message)| described(entry, message));
    status.set_description(legal(&described.collect::<Vec<_>>().join("\n")));
    status
}

fn described(entry: &Entry, message: &str) -> String {
    let anchor = Anchor::of(entry, None);
    let severity = entry.severity.map_or(String::new(), |severity| format!(" {}", severity.word()));
    format!("{}:{}: {}{severity}: {message}", anchor.file(), anchor.line, entry.result.word())
}

/// Serializes the report first and then writes it, so that a closed pipe is not a serialization error.
pub(crate) fn write_junit(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    let mut xml = Vec::new();
    report.serialize(Escaping::markup(Guarded::new(&mut xml))).map_err(io::Error::other)?;
    out.write_all(&without_skipped(xml))
}

/// Removes the attribute `skipped` of the root element, which the `JUnit` schemas do not allow.
fn without_skipped(xml: Vec<u8>) -> Vec<u8> {
    const NAME: &[u8] = b" skipped=\"";
    let attribute = || {
        let root = memchr::memmem::find(&xml, b"<testsuites ")?;
        let end = root + memchr::memchr(b'>', &xml[root..])?;
        let start = root + memchr::memmem::find(&xml[root..end], NAME)?;
        let value = start + NAME.len();
        Some(start..value + memchr::memchr(b'"', &xml[value..end])? + 1)
    };
    let Some(attribute) = attribute() else { return xml };
    [&xml[..attribute.start], &xml[attribute.end..]].concat()
}

/// Removes characters that XML 1.0 cannot express (its production `Char`); control characters were escaped before.
fn legal(text: &str) -> String {
    shortened(text, MESSAGE_BYTES).replace(['\u{fffe}', '\u{ffff}'], "")
}
