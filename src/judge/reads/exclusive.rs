//! Finds rules of which at most one definition has a value for any input: of two definitions, one has the statement `x`
//! and the other has `not x`, for the same rule; or they require different strings at the same path.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::rules::{UnitRules, constant_reference};
use crate::rego::analysis::{
    constant::Constant,
    references::Path,
    resolved::{
        DATA, ResolvedResult, ResolvedRule, ResolvedStatement, ResolvedStatementKind, ResolvedTerm, ResolvedValue,
        Variable,
    },
};

/// The maximum depth of following rules that are conditions of other rules.
const LONGEST: usize = 4;
/// The number of statements to compare before definitions count as not exclusive.
const STATEMENTS: usize = 10_000;

/// A document and the keys of a path in it.
type ConstantPath = (Variable, Path);

/// Whether every two of a rule's definitions exclude each other, not counting its default.
pub(super) fn are_exclusive(rules: &UnitRules<'_>, definitions: &[&ResolvedRule]) -> bool {
    let mut left = STATEMENTS;
    let definitions = definitions.iter().filter(|rule| !rule.default);
    let conditions = definitions.map(|rule| Conditions::of(rules, rule, 0, &mut left));
    let conditions: Option<Vec<Conditions>> = conditions.collect();
    let Some(conditions) = conditions else { return false };
    conditions.iter().enumerate().all(|(index, one)| conditions[index + 1..].iter().all(|other| one.excludes(other)))
}

/// Necessary conditions for a definition to have a value, taken from its statements.
#[derive(Default)]
struct Conditions {
    /// Rules and fields of the input that must be true, or must not be.
    hold: BTreeSet<ConstantPath>,
    fail: BTreeSet<ConstantPath>,
    /// The strings that rules and fields of the input may be equal to.
    texts: BTreeMap<ConstantPath, BTreeSet<Arc<str>>>,
}

impl Conditions {
    /// Returns the conditions of a definition; `None` if it has an `else`.
    fn of(rules: &UnitRules<'_>, rule: &ResolvedRule, depth: usize, left: &mut usize) -> Option<Self> {
        if rule.otherwise.is_some() {
            return None;
        }
        *left = left.checked_sub(rule.body.len() + 1)?;
        let mut found = Self::default();
        for statement in rule.body.iter().filter(|statement| statement.with.is_empty()) {
            match &statement.kind {
                ResolvedStatementKind::Term(term) => {
                    let place = constant_reference(term);
                    if statement.negated { &mut found.fail } else { &mut found.hold }.extend(place);
                }
                ResolvedStatementKind::Not(body) => {
                    if let [ResolvedStatement { kind: ResolvedStatementKind::Term(term), negated: false, with, .. }] =
                        body.as_slice()
                        && with.is_empty()
                    {
                        found.fail.extend(constant_reference(term));
                    }
                }
                _ if statement.negated => {}
                _ => found.is_one_of(compared(statement).map(|(place, text)| (place, BTreeSet::from([text])))),
            }
        }
        for (document, path) in found.hold.clone() {
            if document == DATA {
                found.is_one_of(texts(rules, &path, depth, left));
            }
        }
        Some(found)
    }

    fn is_one_of(&mut self, texts: impl IntoIterator<Item = (ConstantPath, BTreeSet<Arc<str>>)>) {
        for (place, texts) in texts {
            self.texts.entry(place).and_modify(|all| all.retain(|text| texts.contains(text))).or_insert(texts);
        }
    }

    fn excludes(&self, other: &Self) -> bool {
        let mut texts = self.texts.iter().filter_map(|(place, texts)| Some((texts, other.texts.get(place)?)));
        !self.hold.is_disjoint(&other.fail)
            || !self.fail.is_disjoint(&other.hold)
            || texts.any(|(one, other)| one.is_disjoint(other))
    }
}

/// Returns the path and the string that a statement compares for equality.
fn compared(statement: &ResolvedStatement) -> Option<(ConstantPath, Arc<str>)> {
    let (left, right) = match &statement.kind {
        ResolvedStatementKind::Unify(left, right) => (left, right),
        ResolvedStatementKind::Call(call) => call.as_equality()?,
        _ => return None,
    };
    let text =
        |place: &ResolvedTerm, text: &ResolvedTerm| Some((constant_reference(place)?, Arc::clone(text.as_text()?)));
    text(left, right).or_else(|| text(right, left))
}

/// Returns the strings that a rule requires, by path: each of its definitions requires one of them, so they hold
/// wherever the rule is true as a statement.
fn texts(
    rules: &UnitRules<'_>,
    path: &Path,
    depth: usize,
    left: &mut usize,
) -> BTreeMap<ConstantPath, BTreeSet<Arc<str>>> {
    if depth > LONGEST {
        return BTreeMap::new();
    }
    let mut all: Option<BTreeMap<ConstantPath, BTreeSet<Arc<str>>>> = None;
    for rule in rules.only_at(path) {
        let own = match &rule.result {
            ResolvedResult::Value(ResolvedTerm {
                value: ResolvedValue::Constant(Constant::Boolean(false)), ..
            }) if rule.default => {
                continue;
            }
            ResolvedResult::Value(_) if !rule.default && rule.path.len() == path.len() => {
                Conditions::of(rules, rule, depth + 1, left).map(|found| found.texts).unwrap_or_default()
            }
            // A collection is true even if it is empty.
            _ => return BTreeMap::new(),
        };
        all = Some(match all {
            None => own,
            Some(mut all) => {
                all.retain(|place, texts| own.get(place).map(|more| texts.extend(more.iter().cloned())).is_some());
                all
            }
        });
    }
    all.unwrap_or_default()
}
