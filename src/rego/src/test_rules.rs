//! The tests of a module, and its lines for coverage.
//!
//! Names and kinds of tests are those of `opa test` (package `v1/tester` of OPA 1.22).

use std::collections::BTreeSet;

use super::{
    references::{self, Path, TODO_PREFIX},
    syntax::{Expr, ExprKind, Key, Module, Position, StatementNode, SyntaxBody, SyntaxRule},
};

/// A rule that is a test.
#[derive(Debug)]
pub struct TestRule {
    /// Where it is written.
    pub at: Position,
    /// Which value it must have.
    pub shape: TestShape,
    /// The names of its head up to that of the test.
    pub name: Path,
    /// Whether it is marked as not to be run yet: `todo_test_x`.
    pub todo: bool,
}

/// Which value a test must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestShape {
    /// `test_x if …`: must be true.
    Complete,
    /// `test_x contains …`: always fails, as a set is not true.
    Set,
    /// `test_x[case] if …`: must be an object whose values are true.
    Table,
    /// `test_x(y) if …`: always fails, as a test cannot be called.
    Function,
    /// `default test_x := …`: must be true; the field is whether it is.
    Default(bool),
}

/// Returns the tests of a module in source order.
pub fn tests(module: &Module) -> Vec<TestRule> {
    module.rules.iter().filter_map(|rule| test(module, rule)).collect()
}

/// Whether a definition is a test, or a part of one.
pub(crate) fn is_test(rule: &SyntaxRule) -> bool {
    head(rule).0.iter().any(|name| references::is_test_name(name))
}

/// Returns a rule as a test, if it is one.
fn test(module: &Module, rule: &SyntaxRule) -> Option<TestRule> {
    let (head, whole) = head(rule);
    let at = head.iter().position(|name| references::is_test_name(name))?;
    let beyond = !whole || head.len() > at + 1;
    let name = head[..=at].to_vec();
    let todo = name[at].starts_with(TODO_PREFIX);
    Some(TestRule { at: rule.at, shape: shape(module, rule, beyond, whole), name, todo })
}

fn shape(module: &Module, rule: &SyntaxRule, beyond: bool, whole: bool) -> TestShape {
    let first = &rule.first;
    let has_one_key = matches!(&rule.name.kind, ExprKind::Ref(_, keys) if keys.len() == 1);
    let is_element = !module.is_v1() && !first.conditional && first.value.is_none() && has_one_key;
    if rule.default {
        let is_true = |value: &Expr| matches!(&value.kind, ExprKind::Scalar(text) if &**text == "true");
        return TestShape::Default(first.value.as_ref().is_some_and(|(_, value)| is_true(value)));
    }
    match &rule.parameters {
        Some(parameters) if !parameters.is_empty() => return TestShape::Function,
        _ => {}
    }
    if rule.contains.is_some() || is_element {
        return TestShape::Set;
    }
    // In version 0 a constant key makes a table too, in version 1 only without a body.
    let is_table = first.value.is_some() && beyond && (!module.is_v1() || first.body.is_none());
    if is_table || !whole { TestShape::Table } else { TestShape::Complete }
}

/// Returns the leading constant names of a head, and whether there are no other keys.
fn head(rule: &SyntaxRule) -> (Path, bool) {
    let mut names: Path = rule.first_name().map(ToString::to_string).into_iter().collect();
    let ExprKind::Ref(_, keys) = &rule.name.kind else { return (names, true) };
    for key in keys {
        match key.constant() {
            Some(name) => names.push(name.to_string()),
            None => return (names, false),
        }
    }
    (names, true)
}

/// Returns the lines of a module that can be covered: those on which a statement, a key, a value or a default of a rule
/// begins, without those of tests.
pub fn lines(module: &Module) -> BTreeSet<u32> {
    let mut lines = BTreeSet::new();
    for rule in module.rules.iter().filter(|rule| !is_test(rule)) {
        rule.contains.iter().for_each(|element| value(element, &mut lines));
        if rule.contains.is_none()
            && !rule.first.conditional
            && let ExprKind::Ref(_, keys) = &rule.name.kind
            && let [Key::Index(key)] = keys.as_slice()
        {
            lines.insert(key.at.line);
        }
        for branch in std::iter::once(&rule.first).chain(&rule.others) {
            branch.value.iter().for_each(|(_, own)| value(own, &mut lines));
            branch.body.iter().for_each(|own| body(own, &mut lines));
        }
    }
    lines
}

/// Adds the line on which a value begins, and those of the statements in it.
fn value(expr: &Expr, lines: &mut BTreeSet<u32>) {
    lines.insert(expr.at.line);
    inside(expr, lines);
}

fn body(statements: &SyntaxBody, lines: &mut BTreeSet<u32>) {
    for statement in statements {
        match &statement.kind {
            StatementNode::Some(_) => continue,
            StatementNode::Expr(expr) | StatementNode::Not(expr) => inside(expr, lines),
            StatementNode::SomeIn { collection, .. } => inside(collection, lines),
            StatementNode::Every { collection, body, .. } => {
                inside(collection, lines);
                self::body(body, lines);
            }
        }
        lines.insert(statement.at.line);
    }
}

/// Adds the lines of statements in comprehensions.
fn inside(expr: &Expr, lines: &mut BTreeSet<u32>) {
    if let ExprKind::Comprehension(comprehension) = &expr.kind {
        body(&comprehension.body, lines);
    }
    for part in expr.children() {
        inside(part, lines);
    }
}
