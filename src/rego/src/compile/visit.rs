//! The variables of terms and statements.

use super::term::{Body, Comprehension, Every, Part, Statement, TargetValue, Term, Value, VariableSet, What, With};

/// What is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is another part of a term, and any of them may be left out")]
pub(super) struct Skip {
    /// What stands first in a reference.
    pub(super) heads: bool,
    pub(super) object_keys: bool,
    pub(super) sets: bool,
    /// Comprehensions, the body of `every`, negated bodies.
    pub(super) closures: bool,
    /// What stands first in references behind `with`.
    pub(super) replaced: bool,
}

/// What has to be safe where it stands.
pub(super) const SAFETY: Skip = Skip { heads: false, object_keys: false, sets: false, closures: true, replaced: true };
/// What a pattern binds.
pub(super) const PATTERN: Skip = Skip { heads: true, object_keys: true, sets: false, closures: true, replaced: false };
/// What a call binds in the place of its result.
pub(super) const OUTPUT: Skip = Skip { sets: true, ..PATTERN };
const NOTHING: Skip = Skip { heads: false, object_keys: false, sets: false, closures: false, replaced: false };

/// Adds all variables of a term.
pub(super) fn all(term: &Term, found: &mut VariableSet) {
    term_variables(term, NOTHING, found);
}

/// Adds all variables of a statement.
pub(super) fn all_of_statement(statement: &Statement, found: &mut VariableSet) {
    statement_variables(statement, NOTHING, found);
}

/// Returns all variables of a term.
pub(super) fn of(term: &Term) -> VariableSet {
    let mut found = VariableSet::new();
    all(term, &mut found);
    found
}

/// Returns the variables of a statement, those of bodies inside of it left out.
pub fn own_variables(statement: &Statement) -> VariableSet {
    let mut found = VariableSet::new();
    statement_variables(statement, Skip { closures: true, ..NOTHING }, &mut found);
    found
}

/// Adds the variables of a term.
pub(super) fn term_variables(term: &Term, skip: Skip, found: &mut VariableSet) {
    match &term.value {
        Value::Variable(variable) => {
            found.insert(*variable);
        }
        Value::Ref(items) => {
            for item in items.iter().skip(usize::from(skip.heads)) {
                term_variables(item, skip, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| term_variables(item, skip, found)),
        Value::Set(items) if !skip.sets => items.iter().for_each(|item| term_variables(item, skip, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                if !skip.object_keys {
                    term_variables(key, skip, found);
                }
                term_variables(value, skip, found);
            }
        }
        Value::Call(call) => call.arguments.iter().for_each(|argument| term_variables(argument, skip, found)),
        Value::Comprehension(comprehension) if !skip.closures => {
            let Comprehension { key, term, body, .. } = &**comprehension;
            key.iter().chain([term]).for_each(|term| term_variables(term, skip, found));
            for statement in body {
                statement_variables(statement, skip, found);
            }
        }
        Value::Template(parts) if !skip.closures => {
            for part in parts {
                if let Part::Statement(statement) = part {
                    statement_variables(statement, skip, found);
                }
            }
        }
        Value::Constant(_) | Value::Builtin(_) | Value::Set(_) | Value::Comprehension(_) | Value::Template(_) => {}
    }
}

/// Adds the variables of a statement.
pub(super) fn statement_variables(statement: &Statement, skip: Skip, found: &mut VariableSet) {
    match &statement.what {
        What::Term(term) => term_variables(term, skip, found),
        What::Call(call) => call.arguments.iter().for_each(|argument| term_variables(argument, skip, found)),
        What::Unify(left, right) => {
            term_variables(left, skip, found);
            term_variables(right, skip, found);
        }
        What::Every(every) => {
            term_variables(&every.domain, skip, found);
            if skip.closures {
                // What stands behind `with` is not looked at either.
                return;
            }
            found.extend(every.key);
            found.insert(every.value);
            every.body.iter().for_each(|statement| statement_variables(statement, skip, found));
        }
        What::Not(body) if !skip.closures => body.iter().for_each(|inner| statement_variables(inner, skip, found)),
        What::Not(_) => {}
    }
    for with in &statement.with {
        with_variables(with, skip, found);
    }
}

/// Adds the variables of what stands behind `with`.
pub(super) fn with_variables(with: &With, skip: Skip, found: &mut VariableSet) {
    match &with.target.value {
        TargetValue::Ref(items) => {
            let heads = usize::from(skip.replaced || skip.heads);
            items.iter().skip(heads).for_each(|item| term_variables(item, skip, found));
        }
        TargetValue::Variable(variable) if !skip.replaced => {
            found.insert(*variable);
        }
        _ => {}
    }
    match &with.value.value {
        Value::Ref(items) if skip.replaced => items.iter().skip(1).for_each(|item| term_variables(item, skip, found)),
        _ => term_variables(&with.value, skip, found),
    }
}

/// A body with variables of its own.
pub(super) enum Closure<'a> {
    Comprehension(&'a Comprehension),
    Every(&'a Every),
    Not(&'a Body),
}

/// Calls `look` for each closure of a statement that is in no other.
pub(super) fn closures<'a>(statement: &'a Statement, look: &mut dyn FnMut(Closure<'a>)) {
    match &statement.what {
        What::Term(term) => closures_of_term(term, look),
        What::Call(call) => call.arguments.iter().for_each(|argument| closures_of_term(argument, look)),
        What::Unify(left, right) => {
            closures_of_term(left, look);
            closures_of_term(right, look);
        }
        What::Every(every) => look(Closure::Every(every)),
        What::Not(body) => look(Closure::Not(body)),
    }
    statement.with.iter().for_each(|with| closures_of_term(&with.value, look));
}

fn closures_of_term<'a>(term: &'a Term, look: &mut dyn FnMut(Closure<'a>)) {
    match &term.value {
        Value::Constant(_) | Value::Variable(_) | Value::Builtin(_) => {}
        Value::Ref(items) | Value::Array(items) | Value::Set(items) => {
            for item in items {
                closures_of_term(item, look);
            }
        }
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            closures_of_term(key, look);
            closures_of_term(value, look);
        }),
        Value::Call(call) => call.arguments.iter().for_each(|argument| closures_of_term(argument, look)),
        Value::Comprehension(comprehension) => look(Closure::Comprehension(comprehension)),
        Value::Template(parts) => {
            for part in parts {
                if let Part::Statement(statement) = part {
                    closures(statement, look);
                }
            }
        }
    }
}

/// Calls `look` for each term, those inside of others too, the outer ones first, as long as it returns true.
pub fn terms<'a>(term: &'a Term, look: &mut dyn FnMut(&'a Term) -> bool) {
    if !look(term) {
        return;
    }
    match &term.value {
        Value::Constant(_) | Value::Variable(_) | Value::Builtin(_) => {}
        Value::Ref(items) | Value::Array(items) | Value::Set(items) => items.iter().for_each(|item| terms(item, look)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            terms(key, look);
            terms(value, look);
        }),
        Value::Call(call) => call.arguments.iter().for_each(|argument| terms(argument, look)),
        Value::Comprehension(comprehension) => {
            comprehension.key.iter().chain([&comprehension.term]).for_each(|term| terms(term, look));
            comprehension.body.iter().for_each(|statement| terms_of_statement(statement, look));
        }
        Value::Template(parts) => {
            for part in parts {
                if let Part::Statement(statement) = part {
                    terms_of_statement(statement, look);
                }
            }
        }
    }
}

/// Calls `look` for each term of a statement and of the bodies inside.
pub(super) fn terms_of_statement<'a>(statement: &'a Statement, look: &mut dyn FnMut(&'a Term) -> bool) {
    match &statement.what {
        What::Term(term) => terms(term, look),
        What::Call(call) => call.arguments.iter().for_each(|argument| terms(argument, look)),
        What::Unify(left, right) => {
            terms(left, look);
            terms(right, look);
        }
        What::Every(every) => {
            terms(&every.domain, look);
            every.body.iter().for_each(|inner| terms_of_statement(inner, look));
        }
        What::Not(body) => body.iter().for_each(|inner| terms_of_statement(inner, look)),
    }
    for with in &statement.with {
        if let TargetValue::Ref(items) = &with.target.value {
            for item in items {
                terms(item, look);
            }
        }
        terms(&with.value, look);
    }
}

/// Calls `look` for each of some terms and for those of a body, those inside of others too.
pub fn terms_of_body<'a>(
    body: &'a [Statement],
    beside: impl IntoIterator<Item = &'a Term>,
    look: &mut dyn FnMut(&'a Term),
) {
    let mut each = |term| {
        look(term);
        true
    };
    for term in beside {
        terms(term, &mut each);
    }
    for statement in body {
        terms_of_statement(statement, &mut each);
    }
}

/// Calls `look` for each statement of a body, and of the bodies inside of it.
pub fn statements<'a>(body: &'a [Statement], look: &mut dyn FnMut(&'a Statement)) {
    for statement in body {
        look(statement);
        closures(statement, &mut |closure| match closure {
            Closure::Comprehension(comprehension) => statements_of_comprehension(comprehension, look),
            Closure::Every(every) => statements(&every.body, look),
            Closure::Not(body) => statements(body, look),
        });
    }
}

fn statements_of_comprehension<'a>(comprehension: &'a Comprehension, look: &mut dyn FnMut(&'a Statement)) {
    statements(&comprehension.body, look);
}
