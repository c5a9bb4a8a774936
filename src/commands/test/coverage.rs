//! Coverage: which lines of the policies the tests evaluated.
//!
//! Counted are the lines of the rules that are no tests: each line on which a statement, a key, a value or a default
//! begins. A line is covered when something on it was evaluated.

use std::collections::{BTreeMap, BTreeSet};

use regorus::{
    Engine,
    unstable::{Expr, Literal, Module, Query, Rule, RuleHead},
};
use serde::Serialize;

use crate::{judge::tested::Tested, rego::references};

/// The lines of each file that were evaluated.
#[derive(Debug, Default)]
pub(super) struct Covered(BTreeMap<String, BTreeSet<u32>>);

impl Covered {
    /// Adds what an engine evaluated.
    pub(super) fn add(&mut self, engine: &Engine) {
        let files = engine.get_coverage_report().map(|report| report.files).unwrap_or_default();
        for file in files {
            self.0.entry(file.path).or_default().extend(file.covered);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (file, lines) in other.0 {
            self.0.entry(file).or_default().extend(lines);
        }
    }
}

/// Which lines of all policies were covered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineCoverage {
    /// Files that have lines to cover, by path.
    pub files: BTreeMap<String, FileCoverage>,
    /// The number of lines that were evaluated.
    pub covered_lines: usize,
    /// The number of lines that were not.
    pub not_covered_lines: usize,
    /// Percentage of lines that were evaluated.
    pub coverage: f64,
}

/// Which lines of one file were covered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileCoverage {
    /// Numbers of the lines that were evaluated, in order.
    pub covered: Vec<u32>,
    /// Numbers of the lines that were not, in order.
    pub not_covered: Vec<u32>,
    /// Percentage of lines that were evaluated.
    pub coverage: f64,
}

impl LineCoverage {
    pub(super) fn new(tested: &Tested, covered: &Covered) -> Self {
        let mut coverage = Self { files: BTreeMap::new(), covered_lines: 0, not_covered_lines: 0, coverage: 0.0 };
        for (file, module) in tested.sources.iter().zip(&tested.modules) {
            let lines = if file.is_test() { BTreeSet::new() } else { lines(module) };
            if lines.is_empty() {
                continue;
            }
            let evaluated = covered.0.get(&*file.shown);
            let (covered, not_covered): (Vec<u32>, Vec<u32>) =
                lines.into_iter().partition(|line| evaluated.is_some_and(|evaluated| evaluated.contains(line)));
            coverage.covered_lines += covered.len();
            coverage.not_covered_lines += not_covered.len();
            let percent = percent(covered.len(), not_covered.len());
            coverage.files.insert(file.shown.to_string(), FileCoverage { covered, not_covered, coverage: percent });
        }
        coverage.coverage = percent(coverage.covered_lines, coverage.not_covered_lines);
        coverage
    }
}

/// Returns a percentage with one decimal; 100 where there are no lines.
fn percent(covered: usize, not_covered: usize) -> f64 {
    let (covered, all) = (covered as u64, (covered + not_covered) as u64);
    // Rounded down: 100 % must mean that no line is missing.
    let tenths = (covered * 1000).checked_div(all).unwrap_or(1000);
    f64::from(u32::try_from(tenths).unwrap_or(1000)) / 10.0
}

/// Returns the lines of a module that can be covered.
fn lines(module: &Module) -> BTreeSet<u32> {
    let mut lines = BTreeSet::new();
    for rule in &module.policy {
        let (path, _) = references::head_path(rule);
        if path.iter().any(|name| references::is_test_name(name)) {
            continue;
        }
        match &**rule {
            Rule::Default { value, .. } => at(value, &mut lines),
            Rule::Spec { head, bodies, .. } => {
                match head {
                    RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => {
                        if let Some(assign) = assign {
                            at(&assign.value, &mut lines);
                        }
                    }
                    RuleHead::Set { key, .. } => key.iter().for_each(|key| at(key, &mut lines)),
                }
                for body in bodies {
                    body.assign.iter().for_each(|assign| at(&assign.value, &mut lines));
                    query(&body.query, &mut lines);
                }
            }
        }
    }
    lines
}

fn query(statements: &Query, lines: &mut BTreeSet<u32>) {
    for statement in &statements.stmts {
        match &statement.literal {
            Literal::SomeVars { .. } => {}
            Literal::SomeIn { collection, .. } => at(collection, lines),
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => at(expr, lines),
            Literal::Every { domain, query, .. } => {
                at(domain, lines);
                self::query(query, lines);
            }
        }
    }
}

/// Adds where an expression begins, and the statements of comprehensions in it.
fn at(expr: &Expr, lines: &mut BTreeSet<u32>) {
    match expr {
        Expr::ArrayCompr { query, .. } | Expr::SetCompr { query, .. } | Expr::ObjectCompr { query, .. } => {
            return self::query(query, lines);
        }
        // What is assigned to is not evaluated.
        Expr::AssignExpr { rhs, .. } => return at(rhs, lines),
        Expr::BoolExpr { lhs, rhs, .. } | Expr::BinExpr { lhs, rhs, .. } | Expr::ArithExpr { lhs, rhs, .. } => {
            at(lhs, lines);
            return at(rhs, lines);
        }
        Expr::Call { params, .. } => params.iter().for_each(|param| comprehensions(param, lines)),
        _ => {}
    }
    lines.insert(expr.span().line);
}

/// Adds only the statements of comprehensions.
fn comprehensions(expr: &Expr, lines: &mut BTreeSet<u32>) {
    if let Expr::ArrayCompr { query, .. } | Expr::SetCompr { query, .. } | Expr::ObjectCompr { query, .. } = expr {
        self::query(query, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_down() {
        assert_eq!((percent(1, 2), percent(0, 3), percent(0, 0), percent(9_999, 1)), (33.3, 0.0, 100.0, 99.9));
    }
}
