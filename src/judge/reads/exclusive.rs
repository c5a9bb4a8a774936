//! Definitions of a rule of which at most one has a value, whatever the input: one has the statement `x`, the other `not x`,
//! of the same rule; or one needs another text at the same place than the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::rules::{Rules, constant_reference};
use crate::rego::analysis::{
    constant::Constant,
    references::Path,
    resolved::{
        DATA, Outcome, ResolvedRule, ResolvedStatement, ResolvedStatementKind, ResolvedTerm, ResolvedValue, Variable,
    },
};

/// Rules that state what others state, one of the other.
const LONGEST: usize = 4;
/// Statements that are looked at before definitions count as not exclusive.
const STATEMENTS: usize = 10_000;

/// A document and keys of it.
type Place = (Variable, Path);

/// Whether each two of a rule's definitions exclude each other, its default aside.
pub(super) fn are_exclusive(rules: &Rules<'_>, definitions: &[&ResolvedRule]) -> bool {
    let mut left = STATEMENTS;
    let definitions = definitions.iter().filter(|rule| !rule.default);
    let conditions = definitions.map(|rule| Conditions::of(rules, rule, 0, &mut left));
    let conditions: Option<Vec<Conditions>> = conditions.collect();
    let Some(conditions) = conditions else { return false };
    conditions.iter().enumerate().all(|(index, one)| conditions[index + 1..].iter().all(|other| one.excludes(other)))
}

/// What has to be for a definition to have a value, as its statements say.
#[derive(Default)]
struct Conditions {
    /// Rules and parts of the input that hold, or do not.
    hold: BTreeSet<Place>,
    fail: BTreeSet<Place>,
    /// Rules and parts of the input, by the texts that their value is one of.
    texts: BTreeMap<Place, BTreeSet<Arc<str>>>,
}

impl Conditions {
    /// `None` for definitions with an `else`.
    fn of(rules: &Rules<'_>, rule: &ResolvedRule, depth: usize, left: &mut usize) -> Option<Self> {
        if rule.otherwise.is_some() {
            return None;
        }
        *left = left.checked_sub(rule.body.len() + 1)?;
        let mut found = Self::default();
        for statement in rule.body.iter().filter(|statement| statement.with.is_empty()) {
            match &statement.what {
                ResolvedStatementKind::Term(term) => {
                    let place = constant_reference(term);
                    if statement.negated { &mut found.fail } else { &mut found.hold }.extend(place);
                }
                ResolvedStatementKind::Not(body) => {
                    if let [ResolvedStatement { what: ResolvedStatementKind::Term(term), negated: false, with, .. }] =
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

    fn is_one_of(&mut self, texts: impl IntoIterator<Item = (Place, BTreeSet<Arc<str>>)>) {
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

/// Returns what a statement compares for equality with a text.
fn compared(statement: &ResolvedStatement) -> Option<(Place, Arc<str>)> {
    let (left, right) = match &statement.what {
        ResolvedStatementKind::Unify(left, right) => (left, right),
        ResolvedStatementKind::Call(call) => call.as_equality()?,
        _ => return None,
    };
    let text =
        |place: &ResolvedTerm, text: &ResolvedTerm| Some((constant_reference(place)?, Arc::clone(text.as_text()?)));
    text(left, right).or_else(|| text(right, left))
}

/// Returns the texts of which each of a rule's definitions needs one, by where: if the rule, which has no other values than
/// theirs, holds as a statement, they are there.
fn texts(rules: &Rules<'_>, path: &Path, depth: usize, left: &mut usize) -> BTreeMap<Place, BTreeSet<Arc<str>>> {
    if depth > LONGEST {
        return BTreeMap::new();
    }
    let mut all: Option<BTreeMap<Place, BTreeSet<Arc<str>>>> = None;
    for rule in rules.only_at(path) {
        let own = match &rule.result {
            Outcome::Value(ResolvedTerm { value: ResolvedValue::Constant(Constant::Boolean(false)), .. })
                if rule.default =>
            {
                continue;
            }
            Outcome::Value(_) if !rule.default && rule.path.len() == path.len() => {
                Conditions::of(rules, rule, depth + 1, left).map(|found| found.texts).unwrap_or_default()
            }
            // A collection holds even if it is empty.
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
