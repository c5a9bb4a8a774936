//! The XML of `JUnit`: a suite for each package or suite file, a test case for each test or case.

use std::{fmt::Write as _, io};

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::text;
use crate::{
    commands::{
        explainer::Explanation,
        test::result::{Case, TestOutcome, TestResult, TestRun},
    },
    output::write_junit,
};

/// Writes the run; `times` adds how long each test took.
pub(super) fn render(run: &TestRun, times: bool, out: &mut dyn io::Write) -> anyhow::Result<()> {
    let mut report = Report::new("kaudit test");
    for group in run.results.chunk_by(|a, b| a.group == b.group) {
        let mut suite = TestSuite::new(&*group[0].group);
        for result in group {
            add(&mut suite, result, times);
        }
        report.add_test_suite(suite);
    }
    Ok(write_junit(&report, out)?)
}

fn add(suite: &mut TestSuite, result: &TestResult, times: bool) {
    let place = format!("{}:{}", result.file, result.line);
    let mut add = |name: &str, outcome, message: &str, explanation: Option<&Explanation>, output: &[String]| {
        let mut case = TestCase::new(name, status(outcome, message, explanation, &place));
        case.set_classname(&*result.group);
        if times {
            case.set_time(result.took);
        }
        if !output.is_empty() {
            case.set_system_out(output.join("\n"));
        }
        suite.add_test_case(case);
    };
    if result.cases.is_empty() {
        add(&result.name, result.outcome, &result.message, result.explanation.as_ref(), &result.output);
        return;
    }
    leaves(&result.cases, &mut vec![&result.name], &mut |names, case| {
        let output = if case.output.is_empty() { &result.output } else { &case.output };
        let explanation = case.explanation.as_ref().or(result.explanation.as_ref());
        add(&names.join("/"), case.outcome, &case.message, explanation, output);
    });
}

fn status(outcome: TestOutcome, message: &str, explanation: Option<&Explanation>, place: &str) -> TestCaseStatus {
    let (kind, word) = match outcome {
        TestOutcome::Pass => return TestCaseStatus::success(),
        TestOutcome::Skip => {
            let mut status = TestCaseStatus::skipped();
            if !message.is_empty() {
                status.set_message(message);
            }
            return status;
        }
        TestOutcome::Fail => (NonSuccessKind::Failure, "failed"),
        TestOutcome::Error => (NonSuccessKind::Error, "error"),
    };
    let mut status = TestCaseStatus::non_success(kind);
    let first = match explanation {
        _ if !message.is_empty() => message.to_owned(),
        Some(explanation) => text::headline(explanation),
        None => word.to_owned(),
    };
    let mut description = format!("{place}: {first}");
    for named in explanation.iter().flat_map(|explanation| &explanation.values) {
        let _ = write!(description, "\n{} = {}", named.name, named.value);
    }
    status.set_message(first.lines().next().unwrap_or_default()).set_description(description);
    status
}

/// Visits the cases that are counted, which have no cases of their own, each with its names from the top.
fn leaves<'c>(cases: &'c [Case], names: &mut Vec<&'c str>, visit: &mut dyn FnMut(&[&'c str], &'c Case)) {
    for case in cases {
        names.push(&case.name);
        if case.cases.is_empty() {
            visit(names, case);
        } else {
            leaves(&case.cases, names, visit);
        }
        names.pop();
    }
}
