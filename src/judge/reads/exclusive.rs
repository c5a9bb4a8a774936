//! Definitions of a rule of which at most one has a value, whatever the input: one has the statement `x`, the other `not x`,
//! of the same rule; or one needs another text at the same place than the other.

use std::collections::{BTreeMap, BTreeSet};

use regorus::{
    Value,
    unstable::{AssignOp, BoolOp, Expr, Literal, Rule, RuleHead},
};

use super::regorus_nodes::{constant_path, declared, patterns};
use super::rules::Rules;
use crate::rego::references::{Node, Path};

/// Rules that state what others state, one of the other.
const LONGEST: usize = 4;
/// Statements that are looked at before definitions count as not exclusive.
const STATEMENTS: usize = 10_000;

/// Whether each two of some definitions exclude each other.
pub(super) fn are_exclusive(rules: &Rules<'_>, nodes: &[&Node]) -> bool {
    let mut left = STATEMENTS;
    let conditions = nodes.iter().map(|node| Conditions::of(rules, node, 0, &mut left));
    let conditions: Option<Vec<Conditions<'_>>> = conditions.collect();
    let Some(conditions) = conditions else { return false };
    conditions.iter().enumerate().all(|(index, one)| conditions[index + 1..].iter().all(|other| one.excludes(other)))
}

/// What has to be for a definition to have a value, as its statements say.
struct Conditions<'a> {
    package: &'a [String],
    /// Rules of its own package that hold, or do not.
    hold: BTreeSet<&'a str>,
    fail: BTreeSet<&'a str>,
    /// Places of the input and own rules, by the texts that their value is one of.
    texts: BTreeMap<Path, BTreeSet<&'a str>>,
}

impl<'a> Conditions<'a> {
    /// `None` for definitions of another form than one head and one body.
    fn of(rules: &'a Rules<'_>, node: &Node, depth: usize, left: &mut usize) -> Option<Self> {
        let Rule::Spec { head, bodies, .. } = rules.rule(node) else { return None };
        let [body] = bodies.as_slice() else { return None };
        *left = left.checked_sub(body.query.stmts.len() + 1)?;
        let package = rules.packages[node.module].as_slice();
        let mut locals = BTreeSet::new();
        declared(&body.query, &mut locals);
        if let RuleHead::Func { args, .. } = head {
            patterns(args, &mut locals);
        }
        let own =
            |name: &str| !locals.contains(name) && rules.names.get(package).is_some_and(|names| names.contains(name));
        let name = |expr: &'a Expr| match expr {
            Expr::Var { span, .. } if own(span.text()) => Some(span.text()),
            _ => None,
        };
        let mut found = Self { package, hold: BTreeSet::new(), fail: BTreeSet::new(), texts: BTreeMap::new() };
        for statement in body.query.stmts.iter().filter(|statement| statement.with_mods.is_empty()) {
            match &statement.literal {
                Literal::Expr { expr, .. } => {
                    found.hold.extend(name(expr));
                    let text = compared(expr).and_then(|(place, text)| {
                        let (path, whole) = constant_path(place);
                        let first = path.first()?;
                        (whole && (own(first) || first == "input" && !locals.contains("input"))).then_some((path, text))
                    });
                    found.is_one_of(text.map(|(path, text)| (path, BTreeSet::from([text]))));
                }
                Literal::NotExpr { expr, .. } => found.fail.extend(name(expr)),
                _ => {}
            }
        }
        for name in found.hold.clone() {
            found.is_one_of(texts(rules, package, name, depth, left));
        }
        Some(found)
    }

    fn is_one_of(&mut self, texts: impl IntoIterator<Item = (Path, BTreeSet<&'a str>)>) {
        for (path, texts) in texts {
            self.texts.entry(path).and_modify(|all| all.retain(|text| texts.contains(text))).or_insert(texts);
        }
    }

    fn excludes(&self, other: &Self) -> bool {
        let meet = |some: &BTreeSet<&str>, others: &BTreeSet<&str>| !some.is_disjoint(others);
        let mut texts = self.texts.iter().filter_map(|(path, texts)| Some((texts, other.texts.get(path)?)));
        self.package == other.package
            && (meet(&self.hold, &other.fail)
                || meet(&self.fail, &other.hold)
                || texts.any(|(one, other)| !meet(one, other)))
    }
}

/// Returns what an expression compares for equality with a text.
fn compared(expr: &Expr) -> Option<(&Expr, &str)> {
    let (Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. } | Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. }) = expr
    else {
        return None;
    };
    text(rhs).map(|text| (lhs.as_ref(), text)).or_else(|| text(lhs).map(|text| (rhs.as_ref(), text)))
}

/// Returns the text that an expression is.
pub(super) fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::String { value: Value::String(text), .. } | Expr::RawString { value: Value::String(text), .. } => {
            Some(text)
        }
        _ => None,
    }
}

/// Returns the texts of which each of a rule's definitions needs one, by where: if the rule, which has no other values than
/// theirs, holds as a statement, they are there.
fn texts<'a>(
    rules: &'a Rules<'_>,
    package: &[String],
    name: &str,
    depth: usize,
    left: &mut usize,
) -> BTreeMap<Path, BTreeSet<&'a str>> {
    let path = [package, &[name.to_owned()]].concat();
    let is_rule = rules.graph.covered(&path).into_iter().all(|covered| covered == path);
    if depth > LONGEST || !is_rule {
        return BTreeMap::new();
    }
    let mut all: Option<BTreeMap<Path, BTreeSet<&str>>> = None;
    for node in rules.graph.at(&path) {
        let own = match rules.rule(node) {
            Rule::Default { value, .. } if matches!(value.as_ref(), Expr::Bool { value: Value::Bool(false), .. }) => {
                continue;
            }
            Rule::Spec { head: RuleHead::Compr { refr, .. }, .. } if matches!(refr.as_ref(), Expr::Var { .. }) => {
                Conditions::of(rules, node, depth + 1, left).map(|found| found.texts).unwrap_or_default()
            }
            // A collection holds even if it is empty.
            _ => return BTreeMap::new(),
        };
        all = Some(match all {
            None => own,
            Some(mut all) => {
                all.retain(|path, texts| own.get(path).map(|more| texts.extend(more)).is_some());
                all
            }
        });
    }
    all.unwrap_or_default()
}
