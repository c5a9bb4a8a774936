//! Tests in Rego: which rules are tests, and how each ends.
//!
//! Names, kinds of tests and outcomes are those of `opa test` (package `v1/tester` of OPA 1.22): each definition is a test
//! of its own, the second of a name is `test_x#01`; rules with a variable in their head are tables, and each key is a
//! case.

use std::{collections::HashMap, time::Instant};

use regorus::Value;

use super::{
    cases::cases,
    coverage::Covered,
    result::{TestKind, TestOutcome, TestResult},
};
use crate::{
    cli::filter::TestFilter,
    commands::explainer::{Explainer, show},
    judge::tested::{PlannedTest, Tested},
    rego::{
        SourceLocation,
        analysis::{references, test_rules::TestShape},
        trace::Tracer,
    },
};

/// A test that is not run yet.
struct RegoTest<'a> {
    test: &'a PlannedTest,
    /// The package, as `data.…`.
    package: String,
    /// The name that results show and `--run` matches.
    name: String,
}

/// All tests of some modules.
pub(super) struct RegoTests<'a> {
    tested: &'a Tested,
    tests: Vec<RegoTest<'a>>,
}

impl<'a> RegoTests<'a> {
    /// Finds the selected tests, sorted by file and line.
    pub(super) fn find(tested: &'a Tested, filter: &TestFilter) -> Self {
        let mut seen: HashMap<(String, String), usize> = HashMap::new();
        let mut tests = Vec::new();
        for test in &tested.tests {
            let package = dotted("data", &tested.modules[test.module].package_path());
            let mut name = test.rule.name.split_first().map(|(first, rest)| dotted(first, rest)).unwrap_or_default();
            // OPA counts only those that it runs.
            if !test.rule.todo {
                let before = seen.entry((package.clone(), name.clone())).or_default();
                if *before > 0 {
                    name = format!("{name}#{before:02}");
                }
                *before += 1;
            }
            if filter.selects_rule(&format!("{package}.{name}")) {
                tests.push(RegoTest { test, package, name });
            }
        }
        Self { tested, tests }
    }

    pub(super) fn len(&self) -> usize {
        self.tests.len()
    }

    /// Runs one test.
    pub(super) fn run(&self, index: usize, covered: Option<&mut Covered>) -> TestResult {
        let RegoTest { test, package, name } = &self.tests[index];
        let began = Instant::now();
        let mut result = TestResult {
            kind: TestKind::Rego,
            group: package.clone(),
            name: name.clone(),
            outcome: TestOutcome::Skip,
            file: self.tested.sources[test.module].shown.to_string(),
            line: test.rule.at.line,
            message: String::new(),
            explanation: None,
            output: Vec::new(),
            cases: Vec::new(),
            took: began.elapsed(),
        };
        if !test.rule.todo {
            self.evaluate(test, covered, &mut result);
        }
        result
    }

    fn evaluate(&self, test: &PlannedTest, covered: Option<&mut Covered>, result: &mut TestResult) {
        let began = Instant::now();
        let answer = match (test.rule.shape, test.planned) {
            (TestShape::Function, _) => Err("it is a function, and a test takes no arguments".to_owned()),
            (TestShape::Default(is_true), _) => Ok(Value::from(is_true)),
            (_, None) => Err("it cannot be evaluated by itself".to_owned()),
            (_, Some(rule)) => {
                let (answer, trace) = self.tested.evaluator.run_traced(&Value::Undefined, rule);
                result.output = trace.prints.iter().map(|line| line.trim_end().to_owned()).collect();
                if let Some(covered) = covered {
                    covered.add(trace.reached);
                }
                answer.map(|answer| answer.value).map_err(|failure| failure.to_string())
            }
        };
        result.took = began.elapsed();
        match answer {
            Err(why) => (result.outcome, result.message) = (TestOutcome::Error, why),
            Ok(value) if test.rule.shape == TestShape::Table => {
                let tracer = self.tracer();
                let (at, keys) = (location(test), test.rule.name.len() - 1);
                let explainer = Explainer::from(&self.tested.sources[test.module]);
                let mut explain = |case: &[Value]| explainer.explain(&tracer.trace_case(at, keys, case));
                result.cases = cases(&value, &tracer.cases(at, keys), &mut explain);
                let failed = result.cases.iter().any(|case| case.outcome == TestOutcome::Fail);
                result.outcome = if failed { TestOutcome::Fail } else { TestOutcome::Pass };
            }
            Ok(Value::Bool(true)) => result.outcome = TestOutcome::Pass,
            Ok(value) => {
                result.outcome = TestOutcome::Fail;
                result.message = wrong_value(test.rule.shape, &value);
                if matches!(value, Value::Undefined | Value::Bool(false)) && test.planned.is_some() {
                    let explainer = Explainer::from(&self.tested.sources[test.module]);
                    result.explanation = explainer.explain(&self.tracer().trace(location(test)));
                }
            }
        }
    }

    fn tracer(&self) -> Tracer<'_> {
        let Tested { sources, modules, uses, evaluator, .. } = self.tested;
        Tracer { files: sources, modules, uses, evaluator, input: &Value::Undefined }
    }
}

fn location(test: &PlannedTest) -> SourceLocation {
    SourceLocation { module: test.module, at: test.rule.at }
}

/// Writes a reference as OPA does.
fn dotted(first: &str, rest: &[String]) -> String {
    let mut text = first.to_owned();
    for key in rest {
        references::push_key(&mut text, key);
    }
    text
}

/// Explains a value that a test must not have; empty if that needs no explanation.
fn wrong_value(shape: TestShape, value: &Value) -> String {
    match (shape, value) {
        (TestShape::Default(_), _) => "its default is not true, and a default is a test of its own".to_owned(),
        (_, Value::Undefined | Value::Bool(false)) => String::new(),
        (TestShape::Set, _) => {
            "it is a set, and a test must be true; cases are written test_x[name] if { … }".to_owned()
        }
        _ => format!("its value must be true, and is {}", show::value(value, None)),
    }
}
