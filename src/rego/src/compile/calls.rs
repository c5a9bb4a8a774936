//! Checks of calls: whether the function exists and the number of arguments fits; and of `print`, which has no value.
//!
//! These are OPA's stages `CheckVoidCalls`, `RewritePrintCalls` and `CheckUndefinedFuncs`.

use std::collections::BTreeMap;

use super::{
    fault::{Code, Fault},
    outputs::{self, Arity},
    term::{
        DATA, Function, INPUT, ResolvedCall, ResolvedResult, ResolvedRule, ResolvedStatement, ResolvedStatementKind,
        ResolvedTerm, ResolvedValue, TemplatePart, Variable, VariableSet, Variables,
    },
    visit::{self, SAFETY},
};
use crate::{builtins::declarations, constant::Constant, syntax::Position};

/// Checks the calls of functions without a value in a definition, before it is flattened.
pub(super) fn without_value(rule: &ResolvedRule, arity: Arity<'_>, variables: &Variables, faults: &mut Vec<Fault>) {
    for rule in rule.chain() {
        let mut check = |term: &ResolvedTerm| {
            if let ResolvedValue::Call(call) = &term.value
                && !has_result(&call.function)
            {
                let message = format!("{}(…) used as value", call.function);
                faults.push(
                    Fault::new(Code::Type, rule.module, term.at, message).help("write it as a statement of its own"),
                );
            }
            true
        };
        let (ResolvedResult::Value(result) | ResolvedResult::Element(result)) = &rule.result;
        visit::terms(result, &mut check);
        rule.body.iter().for_each(|statement| visit::terms_of_statement(statement, &mut check));
        let mut known = VariableSet::from([DATA, INPUT]);
        rule.parameters.iter().flatten().for_each(|parameter| visit::all(parameter, &mut known));
        let head = ResolvedStatement::new(rule.at, ResolvedStatementKind::Term(result.clone()));
        let head = std::slice::from_ref(&head);
        for body in [head, &rule.body] {
            prints(body, rule.module, &known, arity, variables, faults);
        }
    }
}

fn has_result(function: &Function) -> bool {
    match function {
        Function::Builtin(name) => {
            declarations::declaration(name).is_none_or(super::super::builtins::declarations::Declaration::has_result)
        }
        _ => true,
    }
}

/// Checks that arguments of `print` have a value at that point; statements are not reordered for it.
fn prints(
    body: &[ResolvedStatement],
    module: usize,
    known: &VariableSet,
    arity: Arity<'_>,
    variables: &Variables,
    faults: &mut Vec<Fault>,
) {
    for (index, statement) in body.iter().enumerate() {
        let mut closures = Vec::new();
        visit::closures(statement, &mut |closure| closures.push(closure));
        let printed = printed(statement);
        if closures.is_empty() && printed.is_none() {
            continue;
        }
        let mut safe = outputs::of_body(&body[..index], arity, known);
        safe.extend(known);
        for closure in closures {
            let inner = match closure {
                visit::Closure::Comprehension(comprehension) => &comprehension.body,
                visit::Closure::Every(every) => {
                    safe.extend(every.key);
                    safe.insert(every.value);
                    &every.body
                }
                visit::Closure::Not(inner) => inner,
            };
            prints(inner, module, &safe, arity, variables, faults);
        }
        let mut before = VariableSet::new();
        body[..index].iter().for_each(|statement| visit::all_of_statement(statement, &mut before));
        safe.extend(before.into_iter().filter(|variable| variables.is_declared(*variable)));
        for argument in printed.into_iter().flatten() {
            let mut needed = VariableSet::new();
            visit::term_variables(argument, SAFETY, &mut needed);
            for name in needed.difference(&safe).filter_map(|variable| variables.name(*variable)) {
                let fault = Fault::new(Code::Compile, module, argument.at, format!("var {name} is undeclared"));
                faults.push(fault.help("print it after the statement that assigns it a value"));
            }
        }
    }
}

/// Returns the arguments of a `print` statement; `None` for any other.
fn printed(statement: &ResolvedStatement) -> Option<&[ResolvedTerm]> {
    match &statement.kind {
        ResolvedStatementKind::Call(call) if is_print(call) => Some(&call.arguments),
        _ => None,
    }
}

pub(super) fn is_print(call: &ResolvedCall) -> bool {
    matches!(&call.function, Function::Builtin(name) if &**name == "print")
}

/// Whether a call is a note inserted by a trace.
pub(super) fn is_note(call: &ResolvedCall) -> bool {
    matches!(&call.function, Function::Builtin(name) if &**name == declarations::NOTE)
}

/// Whether a statement is a note inserted by a trace.
pub(super) fn is_note_statement(statement: &ResolvedStatement) -> bool {
    matches!(&statement.kind, ResolvedStatementKind::Call(call) if is_note(call))
}

/// Returns whether all functions that a definition calls exist, and a fault for each call with the wrong number of
/// arguments.
pub(super) fn functions(rule: &ResolvedRule, arity: Arity<'_>) -> (bool, Vec<Fault>) {
    let mut known = true;
    let mut faults = Vec::new();
    for rule in rule.chain() {
        visit::statements(&rule.body, &mut |statement| {
            let ResolvedStatementKind::Call(call) = &statement.kind else { return };
            let Some(arity) = arity(&call.function) else {
                known = false;
                if let Function::Rule(path) = &call.function
                    && hides_builtin(path, &rule.path)
                {
                    let message = format!("undefined function {}", call.function);
                    let fault = Fault::new(Code::Type, rule.module, statement.at, message);
                    faults.push(
                        fault.help("a rule of this package hides the built-in function; give the rule another name"),
                    );
                }
                return;
            };
            let given = call.arguments.len();
            let fits = if statement.generated {
                given == arity.saturating_add(1)
            } else {
                given == arity || given == arity.saturating_add(1)
            };
            let written = if statement.generated { given.saturating_sub(1) } else { given };
            if !fits && arity == 0 && matches!(call.function, Function::Rule(_)) {
                let message = format!("undefined function {}: it is a rule without parameters", call.function);
                let fault = Fault::new(Code::Type, rule.module, statement.at, message);
                faults.push(fault.help("write it without parentheses"));
            } else if !fits && !is_print(call) && !is_note(call) {
                let plural = if arity == 1 { "" } else { "s" };
                let name = &call.function;
                let message = format!("{name}: arity mismatch: it takes {arity} argument{plural}, not {written}");
                faults.push(Fault::new(Code::Type, rule.module, statement.at, message));
            }
        });
    }
    (known, faults)
}

/// Whether a path consists of the package of a definition and the name of a builtin.
fn hides_builtin(path: &[Constant], definition: &[ResolvedTerm]) -> bool {
    (1..path.len()).any(|package| {
        let own = path[..package].iter().zip(definition).all(|(key, own)| own.constant().as_ref() == Some(key));
        let names: Vec<&str> = path[package..]
            .iter()
            .map_while(|key| if let Constant::String(name) = key { Some(&**name) } else { None })
            .collect();
        own && package < definition.len() && declarations::declaration(&names.join(".")).is_some()
    })
}

/// Checks that no variable gets its value only in a template string: OPA does not iterate there.
pub(super) fn templates(rule: &ResolvedRule, variables: &Variables, faults: &mut Vec<Fault>) {
    for rule in rule.chain() {
        let mut inside: Vec<(Variable, Position)> = Vec::new();
        let mut counts: BTreeMap<Variable, usize> = BTreeMap::new();
        let mut given = VariableSet::from([DATA, INPUT]);
        visit::statements(&rule.body, &mut |statement| {
            if let ResolvedStatementKind::Every(every) = &statement.kind {
                given.extend(every.key);
                given.insert(every.value);
            }
        });
        let mut visit = |term: &ResolvedTerm| {
            match &term.value {
                ResolvedValue::Variable(variable) => *counts.entry(*variable).or_default() += 1,
                ResolvedValue::Template(parts) => {
                    for part in parts {
                        if let TemplatePart::Statement(statement) = part {
                            let mut needed = VariableSet::new();
                            visit::statement_variables(statement, SAFETY, &mut needed);
                            inside.extend(needed.into_iter().map(|variable| (variable, statement.at)));
                        }
                    }
                }
                _ => {}
            }
            true
        };
        let (ResolvedResult::Value(result) | ResolvedResult::Element(result)) = &rule.result;
        rule.path.iter().chain(rule.parameters.iter().flatten()).for_each(|term| visit::terms(term, &mut visit));
        visit::terms(result, &mut visit);
        rule.body.iter().for_each(|statement| visit::terms_of_statement(statement, &mut visit));
        for (variable, at) in inside {
            if counts.get(&variable) == Some(&1)
                && !given.contains(&variable)
                && !variables.is_declared(variable)
                && let Some(name) = variables.name(variable)
            {
                let fault = Fault::new(Code::Compile, rule.module, at, format!("var {name} is undeclared"));
                faults.push(fault.help("assign it a value in an earlier statement"));
            }
        }
    }
}
