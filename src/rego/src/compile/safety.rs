//! Checks that each variable has a value where it is needed, in some order of the statements, and applies that order.
//!
//! These are OPA's stages `CheckSafetyRuleHeads` and `CheckSafetyRuleBodies`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    calls,
    fault::{Code, Fault},
    outputs::{self, Arity},
    term::{
        DATA, INPUT, ResolvedBody, ResolvedComprehension, ResolvedResult, ResolvedRule, ResolvedStatement,
        ResolvedStatementKind, ResolvedTerm, ResolvedValue, TemplatePart, Variable, VariableSet, Variables,
    },
    visit::{self, Closure, SAFETY},
};
use crate::syntax::Position;

const HELP: &str = "no statement outside `not` assigns it a value: assign one, or iterate with `some`";

/// Statements that need variables without a value, by their positions.
type Unsafe = BTreeMap<(Position, usize), Needs>;

#[derive(Debug, Clone, Default)]
struct Needs {
    /// The variables without a value that the statement needs.
    variables: VariableSet,
    /// The variables that the statement assigns itself.
    assigned: VariableSet,
}

/// Checks the heads of a definition and its `else` branches.
pub(super) fn heads(rule: &ResolvedRule, variables: &Variables, faults: &mut Vec<Fault>) {
    for rule in rule.chain() {
        let mut known = VariableSet::new();
        rule.body.iter().for_each(|statement| visit::statement_variables(statement, SAFETY, &mut known));
        rule.parameters.iter().flatten().for_each(|parameter| visit::all(parameter, &mut known));
        let (ResolvedResult::Value(result) | ResolvedResult::Element(result)) = &rule.result;
        let mut found: BTreeMap<Variable, Position> = BTreeMap::new();
        for term in rule.path.iter().chain([result]) {
            visit::terms(term, &mut |term| {
                if let Some(variable) = term.as_variable().filter(|variable| !known.contains(variable)) {
                    found.entry(variable).or_insert(term.at);
                }
                true
            });
        }
        for (variable, at) in found {
            if let Some(name) = variables.name(variable).filter(|_| variable != DATA && variable != INPUT) {
                let message = format!("var {name} is unsafe");
                faults.push(Fault::new(Code::Unsafe, rule.module, at, message).help(HELP));
            }
        }
    }
}

/// Checks the bodies of a definition and its `else` branches, and reorders them so that all statements are safe.
pub(super) fn bodies(rule: &mut ResolvedRule, arity: Arity<'_>, variables: &Variables, faults: &mut Vec<Fault>) {
    let mut next = Some(rule);
    while let Some(rule) = next {
        let mut safe = VariableSet::from([DATA, INPUT]);
        rule.parameters.iter().flatten().for_each(|parameter| visit::all(parameter, &mut safe));
        let unsafe_statements = reorder(&mut rule.body, &safe, arity);
        faults.extend(report(&unsafe_statements, variables, rule.module));
        next = rule.otherwise.as_deref_mut();
    }
}

/// Names that are keywords only after an import.
const LATER_KEYWORDS: [&str; 4] = ["contains", "every", "if", "in"];

fn report(unsafe_statements: &Unsafe, variables: &Variables, module: usize) -> Vec<Fault> {
    let mut places: BTreeMap<Variable, Position> = BTreeMap::new();
    let mut assigned = VariableSet::new();
    for ((at, _), needs) in unsafe_statements {
        for variable in &needs.variables {
            places.entry(*variable).or_insert(*at);
        }
        assigned.extend(&needs.assigned);
    }
    // A variable that an unsafe assignment would define is only unsafe because of another one.
    let other = places.keys().any(|variable| variables.name(*variable).is_some() && !assigned.contains(variable));
    let mut faults = Vec::new();
    for (variable, at) in &places {
        let Some(name) = variables.name(*variable) else { continue };
        if other && assigned.contains(variable) {
            continue;
        }
        let fault = Fault::new(Code::Unsafe, module, *at, format!("var {name} is unsafe"));
        let keyword = LATER_KEYWORDS.contains(&&**name);
        faults.push(fault.help(if keyword { "as a keyword it needs `import rego.v1`" } else { HELP }));
    }
    if faults.is_empty() {
        let mut seen = VariableSet::new();
        for ((at, _), needs) in unsafe_statements {
            let before = seen.len();
            seen.extend(&needs.variables);
            if seen.len() > before {
                faults.push(Fault::new(Code::Unsafe, module, *at, "expression is unsafe").help(HELP));
            }
        }
    }
    faults
}

/// Reorders a body so that each statement has what it needs; returns the statements for which this is impossible.
fn reorder(body: &mut ResolvedBody, globals: &VariableSet, arity: Arity<'_>) -> Unsafe {
    let needed: Vec<VariableSet> = body.iter().map(|statement| needs(statement, arity)).collect();
    let all: VariableSet = needed.iter().flatten().copied().collect();
    let mut safe: VariableSet = all.intersection(globals).copied().collect();
    let mut missing: Vec<VariableSet> =
        needed.iter().map(|needed| needed.difference(&safe).copied().collect()).collect();
    let enclosed: Vec<VariableSet> = body.iter().map(|statement| enclosed(statement, &all, globals)).collect();
    let order = order(body, arity, &mut safe, &mut missing, &enclosed);
    let mut placed = vec![false; body.len()];
    for index in &order {
        placed[*index] = true;
    }
    let mut unsafe_statements = Unsafe::new();
    for (index, statement) in body.iter().enumerate().filter(|(index, _)| !placed[*index]) {
        let mut assigned = VariableSet::new();
        if let ResolvedStatementKind::Unify(left, _) = &statement.kind
            && statement.assigned
        {
            visit::all(left, &mut assigned);
        }
        let needs = Needs { variables: std::mem::take(&mut missing[index]), assigned };
        unsafe_statements.insert((statement.at, index), needs);
    }
    let mut known = globals.clone();
    for (position, index) in order.iter().enumerate() {
        if let Some(before) = position.checked_sub(1) {
            known.extend(needs(&body[order[before]], arity));
        }
        inner(&mut body[*index], &mut known, arity, &mut unsafe_statements);
    }
    if unsafe_statements.is_empty() {
        let mut taken: Vec<Option<ResolvedStatement>> = std::mem::take(body).into_iter().map(Some).collect();
        *body = order.into_iter().filter_map(|index| taken[index].take()).collect();
    }
    unsafe_statements
}

/// Returns the indices of the statements that can be evaluated, in an order in which the variables that each needs are
/// bound. Removes these variables from those `missing` for the other statements.
///
/// OPA goes over all statements repeatedly until no further one can be evaluated. Here a statement is only examined
/// again when one of its variables gets a value, which results in the same order.
fn order(
    body: &ResolvedBody,
    arity: Arity<'_>,
    safe: &mut VariableSet,
    missing: &mut [VariableSet],
    enclosed: &[VariableSet],
) -> Vec<usize> {
    let users = users(body);
    let mut order: Vec<usize> = Vec::with_capacity(body.len());
    let mut placed = vec![false; body.len()];
    let mut now: BTreeSet<usize> = (0..body.len()).collect();
    let mut next = BTreeSet::new();
    // A note counts the solutions of all statements before it.
    let mut early_notes = Vec::new();
    while !now.is_empty() {
        let before = order.len();
        while let Some(index) = now.pop_first() {
            if calls::is_note_statement(&body[index]) && placed[..index].contains(&false) {
                early_notes.push(index);
                continue;
            }
            let outputs = outputs::of_statement(&body[index], arity, safe);
            if !enclosed[index].is_empty() {
                if enclosed[index] == outputs {
                    continue;
                }
                missing[index].clone_from(&enclosed[index]);
            }
            missing[index].retain(|variable| !outputs.contains(variable) && !safe.contains(variable));
            if !missing[index].is_empty() {
                continue;
            }
            placed[index] = true;
            order.push(index);
            for variable in outputs {
                if safe.insert(variable) {
                    let waiting = users.get(&variable).into_iter().flatten().filter(|user| !placed[**user]);
                    for user in waiting {
                        if *user > index {
                            now.insert(*user)
                        } else {
                            next.insert(*user)
                        };
                    }
                }
            }
        }
        now = std::mem::take(&mut next);
        if order.len() > before {
            now.extend(early_notes.drain(..));
        }
    }
    order.extend(early_notes);
    order
}

/// Returns the statements in which each variable occurs.
fn users(body: &ResolvedBody) -> BTreeMap<Variable, Vec<usize>> {
    let mut users: BTreeMap<Variable, Vec<usize>> = BTreeMap::new();
    for (index, statement) in body.iter().enumerate() {
        let mut variables = VariableSet::new();
        visit::all_of_statement(statement, &mut variables);
        for variable in variables {
            users.entry(variable).or_default().push(index);
        }
    }
    users
}

/// Returns the variables of a statement without those of nested bodies.
fn needs(statement: &ResolvedStatement, arity: Arity<'_>) -> VariableSet {
    let mut found = VariableSet::new();
    if let ResolvedStatementKind::Not(body) = &statement.kind {
        found.extend(promoted(body, arity));
        return found;
    }
    visit::statement_variables(statement, SAFETY, &mut found);
    found
}

/// Returns the variables that the nested bodies of a statement share with the body around it.
fn enclosed(statement: &ResolvedStatement, all: &VariableSet, globals: &VariableSet) -> VariableSet {
    let mut found = VariableSet::new();
    visit::closures(statement, &mut |closure| match closure {
        Closure::Comprehension(comprehension) => {
            let ResolvedComprehension { key, term, body, .. } = comprehension;
            key.iter().chain([term]).for_each(|term| visit::all(term, &mut found));
            for inner in body {
                visit::all_of_statement(inner, &mut found);
            }
        }
        Closure::Every(every) => every.body.iter().for_each(|inner| visit::all_of_statement(inner, &mut found)),
        Closure::Not(body) => body.iter().for_each(|inner| visit::all_of_statement(inner, &mut found)),
    });
    found.retain(|variable| all.contains(variable) && !globals.contains(variable));
    found
}

/// Returns the variables that a negated expression needs from outside: those that its parts do not only share among
/// themselves.
fn promoted(body: &ResolvedBody, arity: Arity<'_>) -> VariableSet {
    let mut occurrences: BTreeMap<Variable, usize> = BTreeMap::new();
    for statement in body {
        for variable in needs(statement, arity) {
            *occurrences.entry(variable).or_default() += 1;
        }
    }
    if body.len() == 1 {
        return occurrences.into_keys().collect();
    }
    let mut safe: VariableSet = occurrences.keys().copied().chain([DATA, INPUT]).collect();
    for statement in body {
        if let ResolvedStatementKind::Unify(left, right) = &statement.kind {
            [left, right].into_iter().filter_map(ResolvedTerm::as_variable).for_each(|variable| {
                safe.remove(&variable);
            });
        }
    }
    let mut bound = VariableSet::new();
    loop {
        let before = bound.len();
        for statement in body {
            if let ResolvedStatementKind::Unify(..) = &statement.kind {
                let outputs =
                    outputs::of_statement(&ResolvedStatement { negated: false, ..statement.clone() }, arity, &safe);
                safe.extend(&outputs);
                bound.extend(outputs);
            }
        }
        if bound.len() == before {
            break;
        }
    }
    for statement in body {
        if let ResolvedStatementKind::Call(call) = &statement.kind
            && let Some(arity) = arity(&call.function)
        {
            call.arguments
                .iter()
                .skip(arity)
                .for_each(|result| visit::term_variables(result, visit::OUTPUT, &mut bound));
        }
    }
    let outside = |(variable, count): &(Variable, usize)| !bound.contains(variable) || *count == 1;
    occurrences.into_iter().filter(outside).map(|(variable, _)| variable).collect()
}

/// Checks the nested bodies of a statement, which see the variables around it.
fn inner(statement: &mut ResolvedStatement, known: &mut VariableSet, arity: Arity<'_>, found: &mut Unsafe) {
    let place = (statement.at, usize::MAX);
    match &mut statement.kind {
        ResolvedStatementKind::Term(term) => inner_of_term(term, place, known, arity, found),
        ResolvedStatementKind::Call(call) => {
            call.arguments.iter_mut().for_each(|argument| inner_of_term(argument, place, known, arity, found));
        }
        ResolvedStatementKind::Unify(left, right) => {
            inner_of_term(left, place, known, arity, found);
            inner_of_term(right, place, known, arity, found);
        }
        ResolvedStatementKind::Every(every) => {
            known.extend(every.key);
            known.insert(every.value);
            inner_body(&mut every.body, known, arity, found);
        }
        ResolvedStatementKind::Not(body) => inner_body(body, known, arity, found),
    }
    for with in &mut statement.with {
        inner_of_term(&mut with.value, place, known, arity, found);
    }
}

fn inner_body(body: &mut ResolvedBody, known: &VariableSet, arity: Arity<'_>, found: &mut Unsafe) {
    for (place, needs) in reorder(body, known, arity) {
        let entry = found.entry(place).or_default();
        entry.variables.extend(needs.variables);
        entry.assigned.extend(needs.assigned);
    }
}

fn inner_of_term(
    term: &mut ResolvedTerm,
    place: (Position, usize),
    known: &mut VariableSet,
    arity: Arity<'_>,
    found: &mut Unsafe,
) {
    match &mut term.value {
        ResolvedValue::Constant(_) | ResolvedValue::Variable(_) | ResolvedValue::Builtin(_) => {}
        ResolvedValue::Ref(items) | ResolvedValue::Array(items) | ResolvedValue::Set(items) => {
            for item in items.iter_mut() {
                inner_of_term(item, place, known, arity, found);
            }
        }
        ResolvedValue::Object(fields) => {
            for (key, value) in fields {
                inner_of_term(key, place, known, arity, found);
                inner_of_term(value, place, known, arity, found);
            }
        }
        ResolvedValue::Call(call) => {
            call.arguments.iter_mut().for_each(|argument| inner_of_term(argument, place, known, arity, found));
        }
        ResolvedValue::Comprehension(comprehension) => {
            let ResolvedComprehension { key, term, body, .. } = &mut **comprehension;
            let mut inside: VariableSet = body.iter().flat_map(|statement| needs(statement, arity)).collect();
            inside.extend(&*known);
            let mut wanted = visit::of(term);
            for key in key.iter() {
                visit::all(key, &mut wanted);
            }
            let unsafe_statements: VariableSet = wanted.difference(&inside).copied().collect();
            if !unsafe_statements.is_empty() {
                found.entry(place).or_default().variables.extend(unsafe_statements);
            }
            inner_body(body, known, arity, found);
        }
        ResolvedValue::Template(parts) => {
            for part in parts {
                if let TemplatePart::Statement(statement) = part {
                    inner(statement, known, arity, found);
                }
            }
        }
    }
}
