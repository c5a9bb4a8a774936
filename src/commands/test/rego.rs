//! Tests in Rego: which rules are tests, and how each ends.
//!
//! Names, kinds of tests and outcomes are those of `opa test` (package `v1/tester` of OPA 1.22): each definition is a test
//! of its own, the second of a name is `test_x#01`; rules with a variable in their head are tables, and each key is a
//! case.

use std::{collections::HashMap, time::Instant};

use regorus::{
    Engine, Value,
    unstable::{Expr, Module, Ref, Rule, RuleHead},
};

use super::{
    cases::cases,
    coverage::Covered,
    explain::{Explainer, FailedPart},
    result::{TestKind, TestOutcome, TestResult},
    show,
};
use crate::{
    cli::filter::Filter,
    judge::tested::Tested,
    rego::{
        error::EngineError,
        evaluator::Failure,
        limits::Limits,
        references::{self, Path, TODO_PREFIX},
    },
};

/// What the value of a test must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestShape {
    /// `test_x if …`: true.
    Complete,
    /// `test_x contains …`: no set is true.
    Set,
    /// `test_x[case] if …`: an object whose values are true.
    Table,
    /// `test_x(y) if …`: no test can be called.
    Function,
    /// `default test_x := …`: true.
    Default,
}

/// A test that is not run yet.
struct RegoTest {
    module: usize,
    rule: Ref<Rule>,
    /// Keys from `data` to the test.
    path: Path,
    /// The package, as `data.…`.
    package: String,
    /// As it is shown and filtered.
    name: String,
    shape: TestShape,
    todo: bool,
}

/// All tests of some modules.
pub(super) struct RegoTests<'a> {
    tested: &'a Tested,
    engine: Engine,
    tests: Vec<RegoTest>,
}

impl<'a> RegoTests<'a> {
    /// Finds the tests that are to be run, sorted by file and line.
    pub(super) fn find(tested: &'a Tested, filter: &Filter) -> Self {
        let mut seen: HashMap<Path, usize> = HashMap::new();
        let mut tests = Vec::new();
        for (index, module) in tested.modules.iter().enumerate() {
            for rule in &module.policy {
                let Some(mut test) = test(index, module, rule) else { continue };
                if is_generated(module, rule) {
                    continue;
                }
                // OPA counts only those that it runs.
                if !test.todo {
                    let before = seen.entry(test.path.clone()).or_default();
                    if *before > 0 {
                        test.name = format!("{}#{before:02}", test.name);
                    }
                    *before += 1;
                }
                if filter.takes_rule(&format!("{}.{}", test.package, test.name)) {
                    tests.push(test);
                }
            }
        }
        Self { tested, engine: tested.evaluator.engine(), tests }
    }

    pub(super) fn len(&self) -> usize {
        self.tests.len()
    }

    /// Runs one test.
    pub(super) fn run(&self, index: usize, limits: &Limits, covered: Option<&mut Covered>) -> TestResult {
        let test = &self.tests[index];
        let began = Instant::now();
        let mut result = TestResult {
            kind: TestKind::Rego,
            group: test.package.clone(),
            name: test.name.clone(),
            outcome: TestOutcome::Skip,
            file: self.tested.sources[test.module].shown.to_string(),
            line: test.rule.span().line,
            message: String::new(),
            explanation: None,
            output: Vec::new(),
            cases: Vec::new(),
            took: began.elapsed(),
        };
        if !test.todo {
            self.evaluate(test, limits, covered, &mut result);
        }
        result
    }

    fn evaluate(&self, test: &RegoTest, limits: &Limits, covered: Option<&mut Covered>, result: &mut TestResult) {
        let began = Instant::now();
        let answer = match (test.shape, &*test.rule) {
            (TestShape::Function, _) => Err("it is a function, and a test takes no arguments".to_owned()),
            (TestShape::Default, Rule::Default { value, .. }) => Ok(constant(value)),
            _ => {
                let rule = (&self.tested.modules[test.module], &test.rule);
                let (answer, mut engine) =
                    self.tested.evaluator.definition(&Value::Undefined, rule, &test.path, covered.is_some());
                result.output = engine.take_prints().unwrap_or_default().iter().map(|line| printed(line)).collect();
                if let Some(covered) = covered {
                    covered.add(&engine);
                }
                answer.map_err(|failure| reason(&failure, limits))
            }
        };
        result.took = began.elapsed();
        match answer {
            Err(why) => (result.outcome, result.message) = (TestOutcome::Error, why),
            Ok(value) if test.shape == TestShape::Table => {
                let explainer = Explainer::new(self.tested, &self.engine, test.module);
                result.cases = cases(&explainer, &test.rule, &value);
                let failed = result.cases.iter().any(|case| case.outcome == TestOutcome::Fail);
                result.outcome = if failed { TestOutcome::Fail } else { TestOutcome::Pass };
            }
            Ok(Value::Bool(true)) => result.outcome = TestOutcome::Pass,
            Ok(value) => {
                result.outcome = TestOutcome::Fail;
                result.message = wrong_value(test.shape, &value);
                if matches!(value, Value::Undefined | Value::Bool(false)) {
                    let explainer = Explainer::new(self.tested, &self.engine, test.module);
                    result.explanation = explainer.explain(&test.rule, &FailedPart::Rule);
                }
            }
        }
    }
}

/// Returns the test that a rule is, if it is one.
fn test(index: usize, module: &Ref<Module>, rule: &Ref<Rule>) -> Option<RegoTest> {
    let package = references::package(module);
    let (head, whole) = references::head_path(rule);
    let at = head.iter().position(|name| references::is_test_name(name))?;
    let beyond = !whole || head.len() > at + 1;
    let shape = match &**rule {
        Rule::Default { .. } => TestShape::Default,
        Rule::Spec { head: RuleHead::Func { args, .. }, .. } if !args.is_empty() => TestShape::Function,
        Rule::Spec { head: RuleHead::Set { key: Some(_), .. }, .. } => TestShape::Set,
        // In version 0 a constant key makes a table too, in version 1 only without a body.
        Rule::Spec { head: RuleHead::Compr { assign: Some(_), .. }, bodies, .. }
            if beyond && (!module.rego_v1 || bodies.is_empty()) =>
        {
            TestShape::Table
        }
        Rule::Spec { .. } if !whole => TestShape::Table,
        Rule::Spec { .. } => TestShape::Complete,
    };
    let name = head[..=at].to_vec();
    Some(RegoTest {
        module: index,
        rule: rule.clone(),
        package: dotted("data", &package),
        todo: name[at].starts_with(TODO_PREFIX),
        name: name.split_first().map(|(first, rest)| dotted(first, rest)).unwrap_or_default(),
        path: package.into_iter().chain(name).collect(),
        shape,
    })
}

/// Whether the rewriter added a rule so that an empty document is one: `test_x[key__1] := null`, beside the user's own.
fn is_generated(module: &Module, rule: &Ref<Rule>) -> bool {
    let Rule::Spec { head: RuleHead::Compr { refr, assign: Some(assign), .. }, .. } = &**rule else { return false };
    let made_up = |index: &Expr| matches!(index, Expr::Var { span, .. } if span.text().starts_with("key__"));
    let null = matches!(*assign.value, Expr::Null { .. });
    let name = |rule: &Rule| references::head_path(rule).0.into_iter().next();
    null && matches!(&**refr, Expr::RefBrack { index, .. } if made_up(index))
        && module.policy.iter().any(|other| other != rule && name(other) == name(rule))
}

/// Writes a reference as OPA does.
fn dotted(first: &str, rest: &[String]) -> String {
    let mut text = first.to_owned();
    for key in rest {
        references::push_key(&mut text, key);
    }
    text
}

fn constant(value: &Expr) -> Value {
    match value {
        Expr::Bool { value, .. } => value.clone(),
        _ => Value::Null,
    }
}

/// Explains a value that a test must not have; empty if the value says enough.
fn wrong_value(shape: TestShape, value: &Value) -> String {
    match (shape, value) {
        (TestShape::Default, _) => "its default is not true, and a default is a test of its own".to_owned(),
        (_, Value::Undefined | Value::Bool(false)) => String::new(),
        (TestShape::Set, _) => {
            "it is a set, and a test must be true; cases are written test_x[name] if { … }".to_owned()
        }
        _ => format!("its value must be true, and is {}", show::value(value, None)),
    }
}

/// Says why an evaluation failed, and where if that is known.
fn reason(failure: &Failure, limits: &Limits) -> String {
    match failure {
        Failure::Error(EngineError { place: Some((file, line, column)), reason }) => {
            format!("{file}:{line}:{column}: {reason}")
        }
        other => other.reason(limits),
    }
}

/// Removes the place that regorus puts in front of a printed line, and OPA does not.
fn printed(line: &str) -> String {
    let place = line.split_once(": ").filter(|(place, _)| {
        place
            .rsplit_once(':')
            .is_some_and(|(_, line)| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()))
    });
    place.map_or(line, |(_, text)| text).trim_end().to_owned()
}
