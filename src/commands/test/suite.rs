//! Gatekeeper's test suites: templates and Constraints against example objects, as `gator verify` runs them (package
//! `pkg/gator/verify` of Gatekeeper 3.23).
//!
//! A test names a template and a Constraint; each of its cases an object, the objects in the inventory, and assertions about
//! the violations. Paths are relative to the suite's file.

mod assertion;
mod fixture;

use std::{path::Path, sync::Arc, time::Instant};

use self::assertion::Assertion;
use super::result::{Case, TestKind, TestOutcome, TestResult};
use crate::{
    cli::filter::TestFilter,
    judge::{
        evaluate::{Job, evaluate, evaluate_review, with_inventory},
        inventory::Inventory,
        load_options::LoadOptions,
        set::PolicySet,
    },
    model::{
        spelling::nearest,
        verdict::{Finding, Outcome},
    },
    rego::{
        File, Position, Problem,
        analysis::{
            data::yaml_problem,
            yaml::{self, YamlDialect, YamlField, YamlNode},
        },
    },
};

const GROUP: &str = "test.gatekeeper.sh";

/// All tests of the suites that were found.
#[derive(Default)]
pub(super) struct SuiteTests<'a> {
    tests: Vec<SuiteTest<'a>>,
}

/// A test of a suite that is not run yet.
struct SuiteTest<'a> {
    file: &'a File,
    node: YamlNode,
    /// Whether the suite or the test has `skip: true`.
    skip: bool,
    /// Indexes of its selected cases.
    cases: Vec<usize>,
}

impl<'a> SuiteTests<'a> {
    /// Finds the selected tests; errors in suites are added to `problems`.
    pub(super) fn find(files: &'a [File], filter: &TestFilter, problems: &mut Vec<Problem>) -> Self {
        let mut suites = Self::default();
        for file in files.iter().filter(|file| file.text.contains(GROUP)) {
            match yaml::documents(&file.text, YamlDialect::Opa) {
                Ok(documents) => documents.iter().filter(|node| is_suite(node)).for_each(|suite| {
                    check(file, suite, problems);
                    suites.add(file, suite, filter);
                }),
                Err(why) => problems.push(yaml_problem(file, &why)),
            }
        }
        suites
    }

    pub(super) fn len(&self) -> usize {
        self.tests.len()
    }

    fn add(&mut self, file: &'a File, suite: &YamlNode, filter: &TestFilter) {
        for node in suite.get("tests").items() {
            let test = text(node, "name");
            let cases = node.get("cases").items().iter().enumerate();
            let wanted = cases.filter(|(_, case)| filter.selects_case(test, text(case, "name")));
            let cases: Vec<usize> = wanted.map(|(index, _)| index).collect();
            if filter.selects_test(test) || !cases.is_empty() {
                let skip = suite.get("skip").is_true() || node.get("skip").is_true();
                self.tests.push(SuiteTest { file, node: node.clone(), skip, cases });
            }
        }
    }

    /// Runs one test with all its cases.
    pub(super) fn run(&self, index: usize, options: &LoadOptions) -> TestResult {
        let test = &self.tests[index];
        let began = Instant::now();
        let (outcome, message, cases) = test.run(options);
        TestResult {
            kind: TestKind::Suite,
            group: test.file.shown.to_string(),
            name: text(&test.node, "name").to_owned(),
            outcome,
            file: test.file.shown.to_string(),
            line: test.node.at.line,
            message,
            explanation: None,
            output: Vec::new(),
            cases,
            took: began.elapsed(),
        }
    }
}

impl SuiteTest<'_> {
    fn run(&self, options: &LoadOptions) -> (TestOutcome, String, Vec<Case>) {
        if self.skip {
            return (TestOutcome::Skip, String::new(), Vec::new());
        }
        let invalid = self.node.get("invalid").is_true();
        match self.policies(options) {
            Err(Unloaded::Constraint(_)) if invalid => (TestOutcome::Pass, String::new(), Vec::new()),
            Err(Unloaded::Constraint(why) | Unloaded::Else(why)) => (TestOutcome::Error, why, Vec::new()),
            Ok(_) if invalid => {
                let message = "the Constraint matches the schema of its template, but the test expects that it does not (invalid: true)";
                (TestOutcome::Fail, message.to_owned(), Vec::new())
            }
            Ok(policies) => {
                let nodes = self.node.get("cases").items();
                let cases: Vec<Case> = self
                    .cases
                    .iter()
                    .filter_map(|index| nodes.get(*index))
                    .map(|case| self.case(case, &policies))
                    .collect();
                let worst = cases.iter().map(|case| case.outcome).filter(|outcome| *outcome != TestOutcome::Skip).max();
                (worst.unwrap_or(TestOutcome::Pass), String::new(), cases)
            }
        }
    }

    /// Loads the template, the Constraint, and the `ExpansionTemplate`s if there are some.
    fn policies(&self, options: &LoadOptions) -> Result<Arc<PolicySet>, Unloaded> {
        let path = |key: &str| match text(&self.node, key) {
            "" => Err(Unloaded::Else(format!("{}:{}: the test names no {key}", self.file.shown, self.node.at.line))),
            path => Ok(fixture::path(self.file, path)),
        };
        let (template, constraint) = (path("template")?, path("constraint")?);
        fixture::check_pair(&template, &constraint).map_err(Unloaded::Else)?;
        let expansion = Some(text(&self.node, "expansion")).filter(|path| !path.is_empty());
        let expansion = expansion.map(|path| fixture::path(self.file, path));
        if let Some(file) = &expansion {
            fixture::check_expansions(file).map_err(Unloaded::Else)?;
        }
        let files = [&template, &constraint].into_iter().chain(&expansion).map(AsRef::as_ref);
        let why = match PolicySet::from_gatekeeper(files, options) {
            Ok(policies) => return Ok(Arc::new(policies)),
            Err(why) => why,
        };
        let of_constraint = |problem: &&Problem| Path::new(&*problem.file) == constraint;
        let refused: Vec<&Problem> = why.problems.iter().filter(|problem| problem.is_refusal()).collect();
        let schema = !refused.is_empty() && refused.iter().all(of_constraint);
        let texts: Vec<String> = refused.iter().map(ToString::to_string).collect();
        let text = if texts.is_empty() { why.to_string() } else { texts.join("\n") };
        Err(if schema { Unloaded::Constraint(text) } else { Unloaded::Else(text) })
    }

    fn case(&self, node: &YamlNode, policies: &Arc<PolicySet>) -> Case {
        let (outcome, message) = if node.get("skip").is_true() {
            (TestOutcome::Skip, String::new())
        } else {
            match self.judge(node, policies) {
                Err(why) => (TestOutcome::Error, why),
                Ok(findings) => assert(node, &findings),
            }
        };
        let name = text(node, "name").to_owned();
        Case { name, outcome, message, explanation: None, output: Vec::new(), cases: Vec::new() }
    }

    /// Evaluates the object of a case.
    fn judge(&self, node: &YamlNode, policies: &Arc<PolicySet>) -> Result<Vec<Finding>, String> {
        let place = || format!("{}:{}", self.file.shown, node.at.line);
        if node.get("assertions").items().is_empty() {
            return Err(format!("{}: the case asserts nothing", place()));
        }
        let example = match text(node, "object") {
            "" => return Err(format!("{}: the case names no object", place())),
            path => fixture::single(&fixture::path(self.file, path))?,
        };
        let mut inventory = Inventory::default();
        let mut namespaces = Vec::new();
        for path in node.get("inventory").texts() {
            for found in fixture::read(&fixture::path(self.file, path))? {
                let (object, value) = fixture::object(&found)?;
                inventory.put(&object.key, Some(&value));
                if object.key.kind.is("", "Namespace") {
                    namespaces.push(object);
                }
            }
        }
        let policies = if node.get("inventory").items().is_empty() {
            Arc::clone(policies)
        } else {
            Arc::new(with_inventory(policies, &inventory))
        };
        let namespace = |name: &str| namespaces.iter().find(|namespace| &*namespace.key.name == name).cloned();
        if fixture::is_review(&example) {
            fixture::check_review(&example)?;
            let namespace = example.at(&["request", "namespace"]).text().and_then(namespace);
            return evaluate_review(&policies, example.json(), namespace.as_ref());
        }
        let (object, _) = fixture::object(&example)?;
        let namespace = object.key.namespace.as_deref().and_then(namespace);
        Ok(evaluate(&Job { object, previous: None, deleted: false, namespace, policies }).results)
    }
}

/// Why the policies of a test could not be loaded.
enum Unloaded {
    /// The Constraint does not fit its template.
    Constraint(String),
    /// Something else.
    Else(String),
}

/// Checks the assertions of a case.
fn assert(node: &YamlNode, findings: &[Finding]) -> (TestOutcome, String) {
    if let Some(error) = findings.iter().find(|finding| finding.outcome == Outcome::Error) {
        return (TestOutcome::Error, error.message.to_string());
    }
    let messages: Vec<&str> = findings.iter().map(|finding| &*finding.message).collect();
    for assertion in node.get("assertions").items() {
        match Assertion::read(assertion) {
            Err(why) => return (TestOutcome::Error, why),
            Ok(assertion) => {
                if let Some(why) = assertion.broken(&messages) {
                    return (TestOutcome::Fail, why);
                }
            }
        }
    }
    (TestOutcome::Pass, String::new())
}

fn text<'n>(node: &'n YamlNode, key: &str) -> &'n str {
    node.get(key).text().unwrap_or_default()
}

fn is_suite(node: &YamlNode) -> bool {
    text(node, "kind") == "Suite" && text(node, "apiVersion").split('/').next() == Some(GROUP)
}

/// The fields of a level of a suite: names and types of values.
type SuiteFields = &'static [(&'static str, &'static [&'static str])];

const SUITE: SuiteFields = &[
    ("apiVersion", &["string"]),
    ("kind", &["string"]),
    ("metadata", &["object"]),
    ("skip", &["boolean"]),
    ("tests", &["array"]),
];
const TEST: SuiteFields = &[
    ("name", &["string"]),
    ("template", &["string"]),
    ("constraint", &["string"]),
    ("expansion", &["string"]),
    ("cases", &["array"]),
    ("invalid", &["boolean"]),
    ("skip", &["boolean"]),
];
const CASE: SuiteFields = &[
    ("name", &["string"]),
    ("object", &["string"]),
    ("inventory", &["array"]),
    ("assertions", &["array"]),
    ("skip", &["boolean"]),
];
const ASSERTION: SuiteFields = &[("violations", &["string", "integer"]), ("message", &["string"])];

/// Reports fields of a suite that are unknown or have the wrong type.
fn check(file: &File, suite: &YamlNode, problems: &mut Vec<Problem>) {
    level(file, suite, "a suite", SUITE, problems);
    for test in suite.get("tests").items() {
        level(file, test, "a test", TEST, problems);
        for case in test.get("cases").items() {
            level(file, case, "a case", CASE, problems);
            for assertion in case.get("assertions").items() {
                level(file, assertion, "an assertion", ASSERTION, problems);
            }
        }
    }
}

fn level(file: &File, node: &YamlNode, what: &str, known: SuiteFields, problems: &mut Vec<Problem>) {
    let at = |problem: Problem, Position { line, column }: Position| problem.at(&file.text, line, column);
    if node.kind() != "object" {
        problems
            .push(at(Problem::refused(&file.shown, format!("{what} must be an object, not {}", node.kind())), node.at));
    }
    for YamlField { key: name, value, .. } in node.fields() {
        match known.iter().find(|(known, _)| known == name) {
            Some((_, kinds)) if value.is_null() || kinds.contains(&value.kind()) => {}
            Some((_, kinds)) => {
                let message = format!("{name} of {what} must be {}, not {}", kinds.join(" or "), value.kind());
                problems.push(at(Problem::refused(&file.shown, message), value.at));
            }
            None => {
                let problem = Problem::warning(&file.shown, format!("{what} has no field {name}; it is ignored"));
                let near = nearest(name, known.iter().map(|(known, _)| *known));
                let problem = near.map_or(problem.clone(), |near| problem.help(format!("did you mean {near}?")));
                problems.push(at(problem, value.at));
            }
        }
    }
}
