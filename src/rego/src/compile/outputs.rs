//! Computes which variables have a value after a statement, from those that had one before.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    term::{
        Function, ResolvedCall, ResolvedStatement, ResolvedStatementKind, ResolvedTerm, ResolvedValue, Variable,
        VariableSet, ref_is_ground,
    },
    visit::{self, OUTPUT, PATTERN, SAFETY},
};

/// Returns the number of arguments of a function; `None` if it does not exist.
pub(super) type Arity<'a> = &'a dyn Fn(&Function) -> Option<usize>;

/// Returns the variables to which a body assigns values.
pub(super) fn of_body(body: &[ResolvedStatement], arity: Arity<'_>, safe: &VariableSet) -> VariableSet {
    of_statements(body.iter(), arity, safe)
}

pub(super) fn of_statements<'s>(
    body: impl Iterator<Item = &'s ResolvedStatement>,
    arity: Arity<'_>,
    safe: &VariableSet,
) -> VariableSet {
    let mut known = safe.clone();
    for statement in body {
        let outputs = of_statement(statement, arity, &known);
        known.extend(outputs);
    }
    known.difference(safe).copied().collect()
}

/// Returns the variables to which a statement assigns values.
pub(super) fn of_statement(statement: &ResolvedStatement, arity: Arity<'_>, safe: &VariableSet) -> VariableSet {
    let none = VariableSet::new();
    if statement.negated {
        return none;
    }
    for with in &statement.with {
        let mut needed = VariableSet::new();
        visit::with_variables(with, SAFETY, &mut needed);
        if !needed.is_subset(safe) {
            return none;
        }
    }
    let mut outputs = VariableSet::new();
    match &statement.kind {
        ResolvedStatementKind::Term(term) => of_term(term, safe, &mut outputs),
        ResolvedStatementKind::Unify(left, right) => return of_unification(statement, left, right, safe),
        ResolvedStatementKind::Call(call) => return of_call(call, arity, safe),
        ResolvedStatementKind::Every(every) => of_term(&every.domain, safe, &mut outputs),
        ResolvedStatementKind::Not(_) => {}
    }
    outputs
}

fn of_unification(
    statement: &ResolvedStatement,
    left: &ResolvedTerm,
    right: &ResolvedTerm,
    safe: &VariableSet,
) -> VariableSet {
    let mut known = VariableSet::new();
    of_term(left, safe, &mut known);
    of_term(right, safe, &mut known);
    for with in &statement.with {
        of_term(&with.value, safe, &mut known);
    }
    // Only the variables in the terms count: a body may have thousands of safe variables.
    let mut mentioned = VariableSet::new();
    for term in [left, right] {
        visit::all(term, &mut mentioned);
    }
    known.extend(mentioned.intersection(safe));
    if statement.assigned {
        // An assigned variable makes nothing on the right safe.
        for variable in visit::of(left) {
            known.remove(&variable);
        }
    }
    let unified = unify(&known, left, right);
    known.extend(unified);
    known.difference(safe).copied().collect()
}

fn of_call(call: &ResolvedCall, arity: Arity<'_>, safe: &VariableSet) -> VariableSet {
    let Some(arity) = arity(&call.function) else { return VariableSet::new() };
    let mut outputs = VariableSet::new();
    call.arguments.iter().for_each(|argument| of_term(argument, safe, &mut outputs));
    if arity >= call.arguments.len() {
        return outputs;
    }
    let (inputs, results) = call.arguments.split_at(arity);
    let mut needed = VariableSet::new();
    for input in inputs {
        visit::term_variables(input, OUTPUT, &mut needed);
    }
    if needed.iter().any(|variable| !outputs.contains(variable) && !safe.contains(variable)) {
        return VariableSet::new();
    }
    for result in results {
        visit::term_variables(result, OUTPUT, &mut outputs);
    }
    outputs
}

/// Adds the variables over which the references in a term iterate.
fn of_term(term: &ResolvedTerm, safe: &VariableSet, outputs: &mut VariableSet) {
    visit::terms(term, &mut |term| match &term.value {
        ResolvedValue::Comprehension(_) | ResolvedValue::Template(_) => false,
        ResolvedValue::Ref(items) => {
            if !is_safe(items, safe) {
                return false;
            }
            if !ref_is_ground(items) {
                let skip = visit::Skip { heads: true, ..visit::Skip::default() };
                visit::term_variables(term, skip, outputs);
            }
            true
        }
        _ => true,
    });
}

/// Whether the head of a reference has a value.
fn is_safe(items: &[ResolvedTerm], safe: &VariableSet) -> bool {
    let mut needed = VariableSet::new();
    if let Some(head) = items.first() {
        visit::term_variables(head, SAFETY, &mut needed);
    }
    needed.is_subset(safe)
}

/// Returns the variables that have a value after two terms are unified.
pub(super) fn unify(safe: &VariableSet, a: &ResolvedTerm, b: &ResolvedTerm) -> VariableSet {
    let mut unifier = Unifier { safe, unified: VariableSet::new(), waiting: BTreeMap::new() };
    unifier.unify(a, b);
    unifier.unified
}

struct Unifier<'a> {
    safe: &'a VariableSet,
    unified: VariableSet,
    /// The variables that each variable waits for.
    waiting: BTreeMap<Variable, BTreeSet<Variable>>,
}

impl Unifier<'_> {
    fn has_value(&self, variable: Variable) -> bool {
        self.safe.contains(&variable) || self.unified.contains(&variable)
    }

    fn unify(&mut self, a: &ResolvedTerm, b: &ResolvedTerm) {
        match (&a.value, &b.value) {
            (ResolvedValue::Variable(a), ResolvedValue::Variable(b)) => {
                if self.has_value(*b) {
                    self.mark(*a);
                } else if self.has_value(*a) {
                    self.mark(*b);
                } else {
                    self.waiting.entry(*a).or_default().insert(*b);
                    self.waiting.entry(*b).or_default().insert(*a);
                }
            }
            (ResolvedValue::Variable(variable), ResolvedValue::Array(_) | ResolvedValue::Object(_)) => {
                self.pattern(*variable, b);
            }
            (ResolvedValue::Array(_) | ResolvedValue::Object(_), ResolvedValue::Variable(variable)) => {
                self.pattern(*variable, a);
            }
            (ResolvedValue::Variable(variable), _) if self.evaluates(b) => {
                self.mark(*variable);
            }
            (_, ResolvedValue::Variable(variable)) if self.evaluates(a) => {
                self.mark(*variable);
            }
            (ResolvedValue::Array(left), ResolvedValue::Array(right)) if left.len() == right.len() => {
                left.iter().zip(right).for_each(|(a, b)| self.unify(a, b));
            }
            (ResolvedValue::Object(left), ResolvedValue::Object(right)) if left.len() == right.len() => {
                for (key, value) in left {
                    let same = right.iter().find(|(other, _)| same_key(key, other));
                    if let Some((_, other)) = same {
                        self.unify(value, other);
                    }
                }
            }
            (ResolvedValue::Ref(_) | ResolvedValue::Call(_), ResolvedValue::Array(_) | ResolvedValue::Object(_))
                if self.evaluates(a) =>
            {
                self.mark_all(b);
            }
            (ResolvedValue::Array(_) | ResolvedValue::Object(_), ResolvedValue::Ref(_) | ResolvedValue::Call(_))
                if self.evaluates(b) =>
            {
                self.mark_all(a);
            }
            (ResolvedValue::Comprehension(_), ResolvedValue::Array(_) | ResolvedValue::Object(_)) => self.mark_all(b),
            (ResolvedValue::Array(_), ResolvedValue::Comprehension(_)) => self.mark_all(a),
            _ => {}
        }
    }

    /// Whether a term that is not a pattern can be evaluated.
    fn evaluates(&self, term: &ResolvedTerm) -> bool {
        let mut needed = VariableSet::new();
        match &term.value {
            ResolvedValue::Ref(items) => return is_safe(items, self.safe),
            ResolvedValue::Call(call) => {
                call.arguments.iter().for_each(|argument| visit::term_variables(argument, SAFETY, &mut needed));
            }
            _ => {}
        }
        needed.is_subset(self.safe)
    }

    fn mark(&mut self, variable: Variable) {
        self.unified.insert(variable);
        for other in self.waiting.remove(&variable).unwrap_or_default() {
            self.mark(other);
        }
        let waiting: Vec<Variable> =
            self.waiting.iter().filter(|(_, needs)| needs.contains(&variable)).map(|(waiting, _)| *waiting).collect();
        for other in waiting {
            let Some(needs) = self.waiting.get_mut(&other) else { continue };
            needs.remove(&variable);
            if needs.is_empty() {
                self.mark(other);
            }
        }
    }

    fn mark_all(&mut self, term: &ResolvedTerm) {
        let mut found = VariableSet::new();
        visit::term_variables(term, PATTERN, &mut found);
        for variable in found {
            self.mark(variable);
        }
    }

    /// Unifies a variable with a collection: each can assign the other.
    fn pattern(&mut self, variable: Variable, term: &ResolvedTerm) {
        if self.has_value(variable) {
            return self.mark_all(term);
        }
        let mut found = VariableSet::new();
        visit::term_variables(term, PATTERN, &mut found);
        found.retain(|other| !self.has_value(*other));
        if found.is_empty() {
            self.mark(variable);
        } else {
            self.waiting.entry(variable).or_default().extend(found);
        }
    }
}

fn same_key(a: &ResolvedTerm, b: &ResolvedTerm) -> bool {
    match (&a.value, &b.value) {
        (ResolvedValue::Variable(a), ResolvedValue::Variable(b)) => a == b,
        _ => a.constant().is_some_and(|key| Some(key) == b.constant()),
    }
}
