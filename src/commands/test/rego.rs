//! Tests in Rego: which rules are tests, and how each ends.
//!
//! Names, kinds of tests and outcomes are those of `opa test` (package `v1/tester` of OPA 1.22): each definition is a test
//! of its own, the second of a name is `test_x#01`; rules with a variable in their head are tables, of which each key is
//! a case.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use regorus::{
    Engine, Value,
    unstable::{Expr, Module, Ref, Rule, RuleHead},
};

use super::{
    Case, Outcome, TestKind, TestResult,
    coverage::Covered,
    explain::{Explainer, Subject},
    show,
};
use crate::{
    cli::filter::Filter,
    judge::tested::Tested,
    rego::{
        error::EngineError,
        evaluator::Failure,
        limits::Limits,
        references::{self, Path},
    },
};

/// Rules of this prefix are tests.
const TEST: &str = "test_";
/// Rules of this prefix are tests that are not to be run yet.
const TODO: &str = "todo_test_";

/// What the value of a test must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
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

/// One test, not run yet.
struct RegoTest {
    module: usize,
    rule: Ref<Rule>,
    /// Keys from `data` to the test.
    path: Path,
    /// The package, as `data.…`.
    package: String,
    /// As it is shown and filtered.
    name: String,
    shape: Shape,
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
        Self { tested, engine: tested.unit.engine(), tests }
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
            outcome: Outcome::Skip,
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
            (Shape::Function, _) => Err("it is a function, and a test takes no arguments".to_owned()),
            (Shape::Default, Rule::Default { value, .. }) => Ok(constant(value)),
            _ => {
                let rule = (&self.tested.modules[test.module], &test.rule);
                let (answer, mut engine) =
                    self.tested.unit.ask_alone(&Value::Undefined, rule, &test.path, covered.is_some());
                result.output = engine.take_prints().unwrap_or_default().iter().map(|line| printed(line)).collect();
                if let Some(covered) = covered {
                    covered.add(&engine);
                }
                answer.map_err(|failure| reason(&failure, limits))
            }
        };
        result.took = began.elapsed();
        match answer {
            Err(why) => (result.outcome, result.message) = (Outcome::Error, why),
            Ok(value) if test.shape == Shape::Table => {
                let explainer = Explainer::new(self.tested, &self.engine, test.module);
                result.cases = table(&explainer, test, &value);
                let failed = result.cases.iter().any(|case| case.outcome == Outcome::Fail);
                result.outcome = if failed { Outcome::Fail } else { Outcome::Pass };
            }
            Ok(Value::Bool(true)) => result.outcome = Outcome::Pass,
            Ok(value) => {
                result.outcome = Outcome::Fail;
                result.message = wrong_value(test.shape, &value);
                if matches!(value, Value::Undefined | Value::Bool(false)) {
                    let explainer = Explainer::new(self.tested, &self.engine, test.module);
                    result.explanation = explainer.explain(&test.rule, &Subject::Rule);
                }
            }
        }
    }
}

/// Returns the test that a rule is, if it is one.
fn test(index: usize, module: &Ref<Module>, rule: &Ref<Rule>) -> Option<RegoTest> {
    let package = references::package(module);
    let (head, whole) = references::head_path(rule);
    let at = head.iter().position(|name| name.starts_with(TEST) || name.starts_with(TODO))?;
    let beyond = !whole || head.len() > at + 1;
    let shape = match &**rule {
        Rule::Default { .. } => Shape::Default,
        Rule::Spec { head: RuleHead::Func { args, .. }, .. } if !args.is_empty() => Shape::Function,
        Rule::Spec { head: RuleHead::Set { key: Some(_), .. }, .. } => Shape::Set,
        // In version 0 a constant key makes a table too, in version 1 only without a body.
        Rule::Spec { head: RuleHead::Compr { assign: Some(_), .. }, bodies, .. }
            if beyond && (!module.rego_v1 || bodies.is_empty()) =>
        {
            Shape::Table
        }
        Rule::Spec { .. } if !whole => Shape::Table,
        Rule::Spec { .. } => Shape::Complete,
    };
    let name = head[..=at].to_vec();
    Some(RegoTest {
        module: index,
        rule: rule.clone(),
        package: dotted("data", &package),
        todo: name[at].starts_with(TODO),
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
    let plain = |key: &str| {
        key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    rest.iter().fold(first.to_owned(), |text, key| {
        if plain(key) {
            format!("{text}.{key}")
        } else {
            format!("{text}[{}]", show::literal(&Value::from(key.as_str())))
        }
    })
}

fn constant(value: &Expr) -> Value {
    match value {
        Expr::Bool { value, .. } => value.clone(),
        _ => Value::Null,
    }
}

/// Returns what there is to say of a value that is none for a test.
fn wrong_value(shape: Shape, value: &Value) -> String {
    match (shape, value) {
        (Shape::Default, _) => "its default is not true, and a default is a test of its own".to_owned(),
        (_, Value::Undefined | Value::Bool(false)) => String::new(),
        (Shape::Set, _) => "it is a set, and a test must be true; cases are written test_x[name] if { … }".to_owned(),
        _ => format!("its value must be true, and is {}", show::value(value)),
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

/// Takes the place off a line that `print` wrote: regorus puts it in front, OPA does not.
fn printed(line: &str) -> String {
    let place = line.split_once(": ").filter(|(place, _)| {
        place
            .rsplit_once(':')
            .is_some_and(|(_, line)| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()))
    });
    place.map_or(line, |(_, text)| text).trim_end().to_owned()
}

/// Joins the cases that a table has as its value with those that it tried.
fn table(explainer: &Explainer<'_>, test: &RegoTest, value: &Value) -> Vec<Case> {
    let mut cases = BTreeMap::new();
    read(value, &mut cases);
    let arguments = arguments(&test.rule);
    for keys in explainer.tried(&test.rule, &arguments) {
        try_case(&mut cases, &keys);
    }
    let mut keys = Vec::new();
    finish(cases, &mut keys, &mut |keys| explainer.explain(&test.rule, &Subject::Case(&arguments, keys)))
}

/// What stands behind the name of a table: `[tc.note]`, `.name`.
pub(super) enum Argument<'a> {
    Index(&'a Expr),
    Field(&'a str),
}

fn arguments(rule: &Rule) -> Vec<Argument<'_>> {
    let mut at: &Expr = references::head(rule).0;
    let mut arguments = Vec::new();
    loop {
        match at {
            Expr::RefDot { refr, field, .. } => {
                arguments.push(Argument::Field(field.0.text()));
                at = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                arguments.push(Argument::Index(index));
                at = refr;
            }
            _ => break,
        }
    }
    arguments.reverse();
    // What leads to the test itself belongs to its name.
    let (names, _) = references::head_path(rule);
    let at = names.iter().position(|name| name.starts_with(TEST)).unwrap_or(0);
    arguments.drain(..at.min(arguments.len()));
    arguments
}

/// A case while cases are collected.
struct Branch {
    key: Value,
    failed: bool,
    below: BTreeMap<String, Self>,
}

/// Reads the value of a table: true is passed, an object has cases of its own.
fn read(value: &Value, cases: &mut BTreeMap<String, Branch>) {
    let Ok(fields) = value.as_object() else { return };
    for (key, value) in fields {
        let mut below = BTreeMap::new();
        read(value, &mut below);
        let failed = match value {
            Value::Object(_) => below.values().any(|branch: &Branch| branch.failed),
            value => *value != Value::from(true),
        };
        cases.insert(name(key), Branch { key: key.clone(), failed, below });
    }
}

fn name(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string(),
        key => show::literal(key),
    }
}

/// Adds a case that was tried; without a value it failed. Returns whether it did.
fn try_case(cases: &mut BTreeMap<String, Branch>, keys: &[Value]) -> bool {
    let Some((key, rest)) = keys.split_first() else { return false };
    let new = || Branch { key: key.clone(), failed: true, below: BTreeMap::new() };
    let branch = cases.entry(name(key)).or_insert_with(new);
    if rest.is_empty() {
        return branch.failed;
    }
    let below = try_case(&mut branch.below, rest);
    branch.failed |= below;
    below
}

fn finish(
    cases: BTreeMap<String, Branch>,
    keys: &mut Vec<Value>,
    explain: &mut dyn FnMut(&[Value]) -> Option<super::Explanation>,
) -> Vec<Case> {
    let case = |(name, branch): (String, Branch)| {
        keys.push(branch.key);
        let below = finish(branch.below, keys, explain);
        let explanation = if branch.failed && below.is_empty() { explain(keys) } else { None };
        keys.pop();
        Case {
            name,
            outcome: if branch.failed { Outcome::Fail } else { Outcome::Pass },
            message: String::new(),
            explanation,
            output: Vec::new(),
            cases: below,
        }
    };
    cases.into_iter().map(case).collect()
}
