//! Definitions of a rule of which at most one has a value, whatever the input: one has the statement `x`, the other `not x`,
//! of the same rule.

use std::collections::BTreeSet;

use regorus::unstable::{Expr, Literal, Rule, RuleHead};

use super::rules::Rules;
use crate::rego::references::{Node, declared, patterns};

/// Whether each two of some definitions exclude each other.
pub(super) fn are_exclusive(rules: &Rules<'_>, nodes: &[&Node]) -> bool {
    let conditions: Option<Vec<Conditions<'_>>> = nodes.iter().map(|node| Conditions::of(rules, node)).collect();
    let Some(conditions) = conditions else { return false };
    conditions.iter().enumerate().all(|(index, one)| conditions[index + 1..].iter().all(|other| one.excludes(other)))
}

/// The rules of its own package that a definition states to hold, or not to hold.
struct Conditions<'a> {
    package: &'a [String],
    hold: BTreeSet<&'a str>,
    fail: BTreeSet<&'a str>,
}

impl<'a> Conditions<'a> {
    /// `None` for definitions of another form than one head and one body.
    fn of(rules: &'a Rules<'_>, node: &Node) -> Option<Self> {
        let Rule::Spec { head, bodies, .. } = rules.rule(node) else { return None };
        let [body] = bodies.as_slice() else { return None };
        let package = rules.packages[node.module].as_slice();
        let mut locals = BTreeSet::new();
        declared(&body.query, &mut locals);
        if let RuleHead::Func { args, .. } = head {
            patterns(args, &mut locals);
        }
        let name = |expr: &'a Expr| match expr {
            Expr::Var { span, .. } if !locals.contains(span.text()) => Some(span.text()),
            _ => None,
        };
        let own = |name: &&str| rules.names.get(package).is_some_and(|names| names.contains(*name));
        let (mut hold, mut fail) = (BTreeSet::new(), BTreeSet::new());
        for statement in body.query.stmts.iter().filter(|statement| statement.with_mods.is_empty()) {
            match &statement.literal {
                Literal::Expr { expr, .. } => hold.extend(name(expr).filter(own)),
                Literal::NotExpr { expr, .. } => fail.extend(name(expr).filter(own)),
                _ => {}
            }
        }
        Some(Self { package, hold, fail })
    }

    fn excludes(&self, other: &Self) -> bool {
        let meet = |some: &BTreeSet<&str>, others: &BTreeSet<&str>| !some.is_disjoint(others);
        self.package == other.package && (meet(&self.hold, &other.fail) || meet(&self.fail, &other.hold))
    }
}
