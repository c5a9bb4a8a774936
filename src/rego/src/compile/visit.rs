//! The variables of terms and statements.

use super::term::{
    ResolvedBody, ResolvedComprehension, ResolvedEvery, ResolvedStatement, ResolvedStatementKind, ResolvedTerm,
    ResolvedValue, ResolvedWith, TemplatePart, VariableSet, WithTargetValue,
};

/// The parts of a term that are skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part of a term, and any of them may be skipped")]
pub(super) struct Skip {
    /// The head of a reference.
    pub(super) heads: bool,
    pub(super) object_keys: bool,
    pub(super) sets: bool,
    /// Comprehensions, the body of `every`, negated bodies.
    pub(super) closures: bool,
    /// The heads of references after `with`.
    pub(super) replaced: bool,
}

/// For the variables that must have a value before a statement.
pub(super) const SAFETY: Skip = Skip { heads: false, object_keys: false, sets: false, closures: true, replaced: true };
/// For the variables that a pattern binds.
pub(super) const PATTERN: Skip = Skip { heads: true, object_keys: true, sets: false, closures: true, replaced: false };
/// For the variables that a call binds to its result.
pub(super) const OUTPUT: Skip = Skip { sets: true, ..PATTERN };
const NOTHING: Skip = Skip { heads: false, object_keys: false, sets: false, closures: false, replaced: false };

/// Adds all variables of a term.
pub(super) fn all(term: &ResolvedTerm, found: &mut VariableSet) {
    term_variables(term, NOTHING, found);
}

/// Adds all variables of a statement.
pub(super) fn all_of_statement(statement: &ResolvedStatement, found: &mut VariableSet) {
    statement_variables(statement, NOTHING, found);
}

/// Returns all variables of a term.
pub(super) fn of(term: &ResolvedTerm) -> VariableSet {
    let mut found = VariableSet::new();
    all(term, &mut found);
    found
}

/// Returns the variables of a statement without those of nested bodies.
pub fn own_variables(statement: &ResolvedStatement) -> VariableSet {
    let mut found = VariableSet::new();
    statement_variables(statement, Skip { closures: true, ..NOTHING }, &mut found);
    found
}

/// Adds the variables of a term.
pub(super) fn term_variables(term: &ResolvedTerm, skip: Skip, found: &mut VariableSet) {
    match &term.value {
        ResolvedValue::Variable(variable) => {
            found.insert(*variable);
        }
        ResolvedValue::Ref(items) => {
            for item in items.iter().skip(usize::from(skip.heads)) {
                term_variables(item, skip, found);
            }
        }
        ResolvedValue::Array(items) => items.iter().for_each(|item| term_variables(item, skip, found)),
        ResolvedValue::Set(items) if !skip.sets => items.iter().for_each(|item| term_variables(item, skip, found)),
        ResolvedValue::Object(fields) => {
            for (key, value) in fields {
                if !skip.object_keys {
                    term_variables(key, skip, found);
                }
                term_variables(value, skip, found);
            }
        }
        ResolvedValue::Call(call) => call.arguments.iter().for_each(|argument| term_variables(argument, skip, found)),
        ResolvedValue::Comprehension(comprehension) if !skip.closures => {
            let ResolvedComprehension { key, term, body, .. } = &**comprehension;
            key.iter().chain([term]).for_each(|term| term_variables(term, skip, found));
            for statement in body {
                statement_variables(statement, skip, found);
            }
        }
        ResolvedValue::Template(parts) if !skip.closures => {
            for part in parts {
                if let TemplatePart::Statement(statement) = part {
                    statement_variables(statement, skip, found);
                }
            }
        }
        ResolvedValue::Constant(_)
        | ResolvedValue::Builtin(_)
        | ResolvedValue::Set(_)
        | ResolvedValue::Comprehension(_)
        | ResolvedValue::Template(_) => {}
    }
}

/// Adds the variables of a statement.
pub(super) fn statement_variables(statement: &ResolvedStatement, skip: Skip, found: &mut VariableSet) {
    match &statement.kind {
        ResolvedStatementKind::Term(term) => term_variables(term, skip, found),
        ResolvedStatementKind::Call(call) => {
            call.arguments.iter().for_each(|argument| term_variables(argument, skip, found));
        }
        ResolvedStatementKind::Unify(left, right) => {
            term_variables(left, skip, found);
            term_variables(right, skip, found);
        }
        ResolvedStatementKind::Every(every) => {
            term_variables(&every.domain, skip, found);
            if skip.closures {
                // The variables after `with` are skipped as well.
                return;
            }
            found.extend(every.key);
            found.insert(every.value);
            every.body.iter().for_each(|statement| statement_variables(statement, skip, found));
        }
        ResolvedStatementKind::Not(body) if !skip.closures => {
            for inner in body {
                statement_variables(inner, skip, found);
            }
        }
        ResolvedStatementKind::Not(_) => {}
    }
    for with in &statement.with {
        with_variables(with, skip, found);
    }
}

/// Adds the variables of a `with`.
pub(super) fn with_variables(with: &ResolvedWith, skip: Skip, found: &mut VariableSet) {
    match &with.target.value {
        WithTargetValue::Ref(items) => {
            let heads = usize::from(skip.replaced || skip.heads);
            items.iter().skip(heads).for_each(|item| term_variables(item, skip, found));
        }
        WithTargetValue::Variable(variable) if !skip.replaced => {
            found.insert(*variable);
        }
        _ => {}
    }
    match &with.value.value {
        ResolvedValue::Ref(items) if skip.replaced => {
            items.iter().skip(1).for_each(|item| term_variables(item, skip, found));
        }
        _ => term_variables(&with.value, skip, found),
    }
}

/// A nested body with its own variables.
pub(super) enum Closure<'a> {
    Comprehension(&'a ResolvedComprehension),
    Every(&'a ResolvedEvery),
    Not(&'a ResolvedBody),
}

/// Calls `visit` for each outermost closure of a statement.
pub(super) fn closures<'a>(statement: &'a ResolvedStatement, visit: &mut dyn FnMut(Closure<'a>)) {
    match &statement.kind {
        ResolvedStatementKind::Term(term) => closures_of_term(term, visit),
        ResolvedStatementKind::Call(call) => {
            call.arguments.iter().for_each(|argument| closures_of_term(argument, visit));
        }
        ResolvedStatementKind::Unify(left, right) => {
            closures_of_term(left, visit);
            closures_of_term(right, visit);
        }
        ResolvedStatementKind::Every(every) => visit(Closure::Every(every)),
        ResolvedStatementKind::Not(body) => visit(Closure::Not(body)),
    }
    statement.with.iter().for_each(|with| closures_of_term(&with.value, visit));
}

fn closures_of_term<'a>(term: &'a ResolvedTerm, visit: &mut dyn FnMut(Closure<'a>)) {
    match &term.value {
        ResolvedValue::Constant(_) | ResolvedValue::Variable(_) | ResolvedValue::Builtin(_) => {}
        ResolvedValue::Ref(items) | ResolvedValue::Array(items) | ResolvedValue::Set(items) => {
            for item in items {
                closures_of_term(item, visit);
            }
        }
        ResolvedValue::Object(fields) => fields.iter().for_each(|(key, value)| {
            closures_of_term(key, visit);
            closures_of_term(value, visit);
        }),
        ResolvedValue::Call(call) => call.arguments.iter().for_each(|argument| closures_of_term(argument, visit)),
        ResolvedValue::Comprehension(comprehension) => visit(Closure::Comprehension(comprehension)),
        ResolvedValue::Template(parts) => {
            for part in parts {
                if let TemplatePart::Statement(statement) = part {
                    closures(statement, visit);
                }
            }
        }
    }
}

/// Calls `visit` for each term, outer ones first, and for the terms inside as long as it returns true.
pub fn terms<'a>(term: &'a ResolvedTerm, visit: &mut dyn FnMut(&'a ResolvedTerm) -> bool) {
    if !visit(term) {
        return;
    }
    match &term.value {
        ResolvedValue::Constant(_) | ResolvedValue::Variable(_) | ResolvedValue::Builtin(_) => {}
        ResolvedValue::Ref(items) | ResolvedValue::Array(items) | ResolvedValue::Set(items) => {
            for item in items {
                terms(item, visit);
            }
        }
        ResolvedValue::Object(fields) => fields.iter().for_each(|(key, value)| {
            terms(key, visit);
            terms(value, visit);
        }),
        ResolvedValue::Call(call) => call.arguments.iter().for_each(|argument| terms(argument, visit)),
        ResolvedValue::Comprehension(comprehension) => {
            comprehension.key.iter().chain([&comprehension.term]).for_each(|term| terms(term, visit));
            comprehension.body.iter().for_each(|statement| terms_of_statement(statement, visit));
        }
        ResolvedValue::Template(parts) => {
            for part in parts {
                if let TemplatePart::Statement(statement) = part {
                    terms_of_statement(statement, visit);
                }
            }
        }
    }
}

/// Calls `visit` for each term of a statement, including its nested bodies.
pub(super) fn terms_of_statement<'a>(
    statement: &'a ResolvedStatement,
    visit: &mut dyn FnMut(&'a ResolvedTerm) -> bool,
) {
    match &statement.kind {
        ResolvedStatementKind::Term(term) => terms(term, visit),
        ResolvedStatementKind::Call(call) => call.arguments.iter().for_each(|argument| terms(argument, visit)),
        ResolvedStatementKind::Unify(left, right) => {
            terms(left, visit);
            terms(right, visit);
        }
        ResolvedStatementKind::Every(every) => {
            terms(&every.domain, visit);
            every.body.iter().for_each(|inner| terms_of_statement(inner, visit));
        }
        ResolvedStatementKind::Not(body) => body.iter().for_each(|inner| terms_of_statement(inner, visit)),
    }
    for with in &statement.with {
        if let WithTargetValue::Ref(items) = &with.target.value {
            for item in items {
                terms(item, visit);
            }
        }
        terms(&with.value, visit);
    }
}

/// Calls `visit` for each term of a body and each of the `others`, including nested ones.
pub fn terms_of_body<'a>(
    body: &'a [ResolvedStatement],
    others: impl IntoIterator<Item = &'a ResolvedTerm>,
    visit: &mut dyn FnMut(&'a ResolvedTerm),
) {
    let mut each = |term| {
        visit(term);
        true
    };
    for term in others {
        terms(term, &mut each);
    }
    for statement in body {
        terms_of_statement(statement, &mut each);
    }
}

/// Calls `visit` for each statement of a body, including nested bodies.
pub fn statements<'a>(body: &'a [ResolvedStatement], visit: &mut dyn FnMut(&'a ResolvedStatement)) {
    for statement in body {
        visit(statement);
        closures(statement, &mut |closure| match closure {
            Closure::Comprehension(comprehension) => statements_of_comprehension(comprehension, visit),
            Closure::Every(every) => statements(&every.body, visit),
            Closure::Not(body) => statements(body, visit),
        });
    }
}

fn statements_of_comprehension<'a>(
    comprehension: &'a ResolvedComprehension,
    visit: &mut dyn FnMut(&'a ResolvedStatement),
) {
    statements(&comprehension.body, visit);
}
