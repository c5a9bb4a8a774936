//! Text for people: Rego tests as `opa test` reports them, suites as `gator verify` does, one summary for both.

use std::{io, time::Duration};

use crate::commands::{
    explainer::Explanation,
    test::{
        coverage::{FileCoverage, LineCoverage},
        result::{Case, TestKind, TestOutcome, TestResult, TestRun},
    },
};

const LINE: &str = "--------------------------------------------------------------------------------";

/// Writes the tests that did not pass, or all tests with their prints and times if `verbose`.
pub(super) fn render(run: &TestRun, verbose: bool, out: &mut dyn io::Write) -> anyhow::Result<()> {
    let mut any = false;
    for group in run.results.chunk_by(|a, b| a.kind == b.kind && a.group == b.group) {
        for result in group.iter().filter(|result| verbose || result.outcome != TestOutcome::Pass) {
            any = true;
            match result.kind {
                TestKind::Rego => rego(result, verbose, out)?,
                TestKind::Suite => suite_test(result, verbose, out)?,
            }
        }
        if group[0].kind == TestKind::Suite {
            any = true;
            let bad = group.iter().any(|result| matches!(result.outcome, TestOutcome::Fail | TestOutcome::Error));
            writeln!(out, "{}\t{}", if bad { "FAIL" } else { "ok" }, group[0].group)?;
        }
    }
    if any {
        writeln!(out, "{LINE}")?;
    }
    let summary = run.summary();
    let counts = [("PASS", summary.pass), ("FAIL", summary.fail), ("SKIPPED", summary.skip), ("ERROR", summary.error)];
    for (word, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        writeln!(out, "{word}: {count}/{}", summary.total)?;
    }
    if let Some(coverage) = &run.coverage {
        self::coverage(coverage, out)?;
        if let (Some(threshold), true) = (run.threshold, run.below_threshold()) {
            writeln!(out, "FAIL: the coverage is below the threshold of {threshold}%")?;
        }
    }
    Ok(())
}

fn rego(result: &TestResult, verbose: bool, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "{}:{}:", result.file, result.line)?;
    let time = time(verbose && result.outcome != TestOutcome::Skip, result.took);
    writeln!(out, "{}.{}: {}{time}", result.group, result.name, word(result.outcome))?;
    reasons(&result.message, result.explanation.as_ref(), "  ", out)?;
    for case in &result.cases {
        table_case(case, verbose, "  ", out)?;
    }
    prints(&result.output, "  ", out)
}

fn table_case(case: &Case, verbose: bool, indent: &str, out: &mut dyn io::Write) -> io::Result<()> {
    if case.outcome == TestOutcome::Pass && !verbose {
        return Ok(());
    }
    writeln!(out, "{indent}{}: {}", case.name, word(case.outcome))?;
    let deeper = format!("{indent}  ");
    reasons(&case.message, case.explanation.as_ref(), &deeper, out)?;
    case.cases.iter().try_for_each(|case| table_case(case, verbose, &deeper, out))
}

/// Writes one test of a suite, as `go test` does.
fn suite_test(result: &TestResult, verbose: bool, out: &mut dyn io::Write) -> io::Result<()> {
    if result.outcome == TestOutcome::Skip {
        writeln!(out, "--- SKIP: {}", result.name)?;
        return reasons(&result.message, None, "    ", out);
    }
    writeln!(out, "--- {}: {}{}", word(result.outcome), result.name, time(verbose, result.took))?;
    reasons(&result.message, None, "    ", out)?;
    for case in result.cases.iter().filter(|case| verbose || case.outcome != TestOutcome::Pass) {
        let word = if case.outcome == TestOutcome::Skip { "SKIP" } else { word(case.outcome) };
        writeln!(out, "    --- {word}: {}", case.name)?;
        reasons(&case.message, None, "        ", out)?;
        prints(&case.output, "        ", out)?;
    }
    Ok(())
}

fn word(outcome: TestOutcome) -> &'static str {
    match outcome {
        TestOutcome::Pass => "PASS",
        TestOutcome::Fail => "FAIL",
        TestOutcome::Error => "ERROR",
        TestOutcome::Skip => "SKIPPED",
    }
}

fn time(shown: bool, took: Duration) -> String {
    if shown { format!(" ({took:.1?})") } else { String::new() }
}

/// Returns the place of a statement and what is wrong with it.
pub(super) fn headline(explanation: &Explanation) -> String {
    let Explanation { file, line, code, reason, .. } = explanation;
    format!("{file}:{line}: {code} {reason}")
}

fn reasons(message: &str, explanation: Option<&Explanation>, indent: &str, out: &mut dyn io::Write) -> io::Result<()> {
    for line in message.lines() {
        writeln!(out, "{indent}{line}")?;
    }
    if let Some(explanation) = explanation {
        writeln!(out, "{indent}{}:{}: {}", explanation.file, explanation.line, explanation.reason)?;
        writeln!(out, "{indent}  {}", explanation.code)?;
        for named in &explanation.values {
            writeln!(out, "{indent}    {} = {}", named.name, named.value)?;
        }
    }
    Ok(())
}

/// Writes the lines that the policies printed, between empty lines.
fn prints(output: &[String], indent: &str, out: &mut dyn io::Write) -> io::Result<()> {
    if output.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for line in output.iter().flat_map(|line| line.lines()) {
        writeln!(out, "{indent}{line}")?;
    }
    writeln!(out)
}

fn coverage(coverage: &LineCoverage, out: &mut dyn io::Write) -> io::Result<()> {
    let lines = coverage.covered_lines + coverage.not_covered_lines;
    writeln!(out, "COVERAGE: {:.1}% ({}/{lines} lines)", coverage.coverage, coverage.covered_lines)?;
    let widest = coverage.files.keys().map(|file| file.chars().count()).max().unwrap_or(0);
    for (file, FileCoverage { not_covered, coverage, .. }) in &coverage.files {
        let missing = if not_covered.is_empty() { String::new() } else { format!("  not: {}", ranges(not_covered)) };
        writeln!(out, "{}", format!("  {coverage:>5.1}%  {file:widest$}{missing}").trim_end())?;
    }
    Ok(())
}

/// Writes sorted numbers as ranges: `3, 7-9`.
fn ranges(lines: &[u32]) -> String {
    let ranges = lines.chunk_by(|a, b| a + 1 == *b).map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    });
    ranges.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_lines_are_a_range() {
        assert_eq!(ranges(&[3, 7, 8, 9, 11]), "3, 7-9, 11");
    }
}
