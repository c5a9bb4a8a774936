//! Unification: binds variables that have no value yet, and compares everything else.

use super::{
    outcome::{Certainty, certain},
    possible::Possible,
    walk::{SIZE, Walker},
};
use crate::rego::analysis::resolved::{self, ResolvedTerm, ResolvedValue};

impl<'a> Walker<'a> {
    pub(super) fn unify(&mut self, left: &'a ResolvedTerm, right: &'a ResolvedTerm) -> Certainty {
        let is_known = self.is_known(left) || self.is_known(right);
        let pairs = if is_known { None } else { resolved::paired(left, right) };
        if let Some(pairs) = pairs {
            return self.unify_pairs(pairs);
        }
        let (pattern, term) = if self.is_known(left) { (right, left) } else { (left, right) };
        let new = pattern.as_variable().filter(|_| !self.is_known(pattern));
        let value = self.term(term);
        let outcome = self.bind(pattern, value);
        if let Some(variable) = new {
            self.frame.set_unified(variable, term);
        }
        outcome
    }

    /// Unifies the parts of two patterns, starting with those of which one side is bound.
    fn unify_pairs(&mut self, mut pairs: Vec<(&'a ResolvedTerm, &'a ResolvedTerm)>) -> Certainty {
        let mut outcome = Certainty::Yes;
        while !pairs.is_empty() {
            let ready = pairs.iter().position(|(left, right)| self.is_known(left) || self.is_known(right));
            let (left, right) = pairs.remove(ready.unwrap_or(0));
            outcome = outcome.min(self.unify(left, right));
        }
        outcome
    }

    /// Binds the unbound variables of a pattern to their possible values, and compares the rest.
    pub(super) fn bind(&mut self, pattern: &'a ResolvedTerm, value: Possible) -> Certainty {
        if !self.enter() {
            self.unsure();
        }
        let is_nothing = value.is_nothing();
        let outcome = self.bind_parts(pattern, value);
        self.leave();
        if is_nothing { Certainty::No } else { outcome }
    }

    fn bind_parts(&mut self, pattern: &'a ResolvedTerm, mut value: Possible) -> Certainty {
        match &pattern.value {
            _ if self.is_known(pattern) => {
                let known = self.term(pattern);
                certain(&self.compare(known, value, false))
            }
            ResolvedValue::Variable(variable) if self.rules.is_wildcard(*variable) => Certainty::of(value.sure),
            ResolvedValue::Variable(variable) => {
                if value.size(SIZE) > SIZE {
                    self.whole(value);
                    value = Possible::other();
                }
                let outcome = Certainty::of(value.sure);
                // The following statements are only evaluated if the variable has a value.
                value.sure = !value.is_nothing();
                self.frame.set(*variable, value);
                outcome
            }
            ResolvedValue::Array(items) => {
                let (_, element) = self.elements(&value);
                let outcomes = items.iter().map(|item| self.bind(item, element.clone()));
                outcomes.fold(Certainty::Maybe, Certainty::min)
            }
            ResolvedValue::Object(fields) => {
                // The set of fields is compared as well.
                self.elements(&value);
                self.fields(fields, &value)
            }
            // There are no other patterns.
            _ => {
                self.unsure();
                Certainty::Maybe
            }
        }
    }

    /// Binds the values of an object pattern to the possible values at its keys.
    pub(super) fn fields(&mut self, pattern: &'a [(ResolvedTerm, ResolvedTerm)], value: &Possible) -> Certainty {
        let mut outcome = Certainty::Maybe;
        for (key, part) in pattern {
            let key = self.term(key);
            let found = self.step(value, key);
            self.present(&found);
            outcome = outcome.min(self.bind(part, found));
        }
        outcome
    }

    /// Whether all variables of a term are bound: then it is compared, not destructured.
    pub(super) fn is_known(&self, term: &ResolvedTerm) -> bool {
        match &term.value {
            ResolvedValue::Variable(variable) => variable.is_document() || self.frame.value(*variable).is_some(),
            ResolvedValue::Array(items) | ResolvedValue::Set(items) => items.iter().all(|item| self.is_known(item)),
            ResolvedValue::Object(fields) => {
                fields.iter().all(|(key, value)| self.is_known(key) && self.is_known(value))
            }
            // Other terms bind their variables themselves.
            _ => true,
        }
    }

    /// Returns the term that a variable was bound to, or that is the value of a rule without conditions.
    pub(super) fn written(&self, mut term: &'a ResolvedTerm) -> &'a ResolvedTerm {
        // Limited, as rules may refer to each other.
        for _ in 0..16 {
            let next = match &term.value {
                ResolvedValue::Variable(variable) => self.frame.unified(*variable),
                ResolvedValue::Ref(_) => self.rules.constant(term).filter(|value| is_of_texts(value)),
                _ => None,
            };
            let Some(next) = next else { break };
            term = next;
        }
        term
    }
}

/// Whether a term is an array of strings.
fn is_of_texts(term: &ResolvedTerm) -> bool {
    matches!(&term.value, ResolvedValue::Array(items) if items.iter().all(|item| item.as_text().is_some()))
}
