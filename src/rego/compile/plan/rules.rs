//! Definitions of one path, together.

use super::{Planned, Planner, invariants, not_taken, value_of};
use crate::rego::{
    compile::{
        plan::body::Body,
        term::{self, DATA, Function, INPUT, Outcome, Statement, Term, Value, What},
        tree::Tree,
        visit,
    },
    program::{Block, Definition, Form, Rule, Step},
    syntax::Position,
};

impl Planner<'_> {
    /// Plans all definitions at a node.
    pub(super) fn new_rule(&mut self, node: &Tree, place: (usize, Position)) -> Planned<Rule> {
        if !node.is_leaf() {
            return Err(not_taken(place, "rules both at and below one path"));
        }
        let all = self.rules;
        let definitions: Vec<&term::Rule> = node.rules.iter().map(|index| &all[*index]).collect();
        let form = form(&definitions).ok_or_else(|| not_taken(place, "a head with several variables as keys"))?;
        let arity = definitions.iter().map(|rule| rule.arity()).max().unwrap_or(0);
        let mut rule = Rule {
            form,
            registers: arity,
            arity,
            default: None,
            definitions: Box::default(),
            cannot_fail: false,
            decided_by_first: form == Form::Complete && gives_one_value(&definitions),
        };
        let mut planned = Vec::new();
        for definition in definitions {
            if definition.default {
                let (Outcome::Value(value) | Outcome::Element(value)) = &definition.result;
                let value = value_of(value);
                let place = (definition.module, definition.at);
                rule.default = Some(value.ok_or_else(|| not_taken(place, "a default that is no constant"))?);
                continue;
            }
            let branches = definition.chain().map(|branch| {
                let (block, registers) = self.branch(branch, form)?;
                rule.registers = rule.registers.max(registers);
                Ok(block)
            });
            planned.push(Definition { branches: branches.collect::<Planned<_>>()? });
        }
        rule.definitions = planned.into();
        invariants::mark(&mut rule, &mut self.program);
        Ok(rule)
    }

    /// Plans a definition without what follows its `else`. Returns also how many registers it needs.
    fn branch(&mut self, branch: &term::Rule, form: Form) -> Planned<(Block, usize)> {
        let parameters = branch.parameters.as_deref().unwrap_or_default();
        let repeated = |(index, parameter): (usize, &Term)| {
            let variables = visit::of(parameter);
            parameters[..index].iter().any(|before| !visit::of(before).is_disjoint(&variables))
        };
        self.program.unlike_regorus |= parameters.iter().enumerate().any(repeated);
        let mut body = Body::new(self, branch.module, parameters.len());
        body.parameters(parameters)?;
        let (guards, others): (Vec<_>, Vec<_>) =
            branch.body.iter().filter(|statement| !statement.erased).partition(|statement| is_guard(statement));
        for statement in guards {
            body.statement(statement)?;
        }
        if others.iter().any(|statement| calls_rule(statement)) {
            for items in others.iter().filter_map(|statement| needed(statement)) {
                let path = body.reference(items)?;
                body.push(Step::Defined(path));
            }
        }
        for statement in others {
            body.statement(statement)?;
        }
        let (Outcome::Value(result) | Outcome::Element(result)) = &branch.result;
        let key = match (form, branch.path.last()) {
            (Form::Object, Some(key)) => Some(body.operand(key)?),
            _ => None,
        };
        let value = body.operand(result)?;
        Ok(body.finish(Step::Yield { key, value }))
    }
}

/// Returns what the definitions of a path make together.
fn form(definitions: &[&term::Rule]) -> Option<Form> {
    let of_one = |rule: &term::Rule| match (&rule.result, rule.path.len() - rule.ground()) {
        (Outcome::Element(_), 0) => Some(Form::Set),
        (Outcome::Value(_), 0) => Some(Form::Complete),
        (Outcome::Value(_), 1) => Some(Form::Object),
        _ => None,
    };
    let first = of_one(definitions.first()?)?;
    definitions.iter().all(|rule| of_one(rule) == Some(first)).then_some(first)
}

/// Whether all definitions have the same constant as their value.
fn gives_one_value(definitions: &[&term::Rule]) -> bool {
    let mut values = definitions.iter().filter(|rule| !rule.default).flat_map(|rule| rule.chain()).map(|rule| {
        let (Outcome::Value(value) | Outcome::Element(value)) = &rule.result;
        value_of(value)
    });
    let Some(Some(first)) = values.next() else { return false };
    values.all(|value| value.as_ref() == Some(&first))
}

/// Whether a statement only compares something below the input with a constant. As in OPA, where rules are indexed by such
/// statements, they come first.
fn is_guard(statement: &Statement) -> bool {
    let constant = |term: &Term| matches!(term.value, Value::Constant(_));
    compared(statement).is_some_and(|(left, right)| {
        input(left).is_some() && constant(right) || constant(left) && input(right).is_some()
    })
}

/// Returns the path below the input that has to be defined for a statement to hold, if OPA's index looks at it before the
/// definition is evaluated: it stands alone, or is compared or unified with what needs no evaluation.
fn needed(statement: &Statement) -> Option<&[Term]> {
    if let What::Term(term) = &statement.what {
        return input(term).filter(|_| is_plain(statement));
    }
    let (left, right) = compared(statement)?;
    input(left).filter(|_| is_indexed(right)).or_else(|| input(right).filter(|_| is_indexed(left)))
}

/// Whether OPA's index takes a term for the other side of a comparison.
fn is_indexed(term: &Term) -> bool {
    match &term.value {
        Value::Constant(_) | Value::Variable(_) => true,
        Value::Array(items) => items.iter().all(|item| matches!(item.value, Value::Constant(_) | Value::Variable(_))),
        _ => false,
    }
}

/// Whether a statement may evaluate another rule, which may end in an error.
fn calls_rule(statement: &Statement) -> bool {
    let mut found = false;
    visit::terms_of_statement(statement, &mut |term| {
        found |= term.as_variable() == Some(DATA) || matches!(&term.value, Value::Call(_));
        true
    });
    found || matches!(&statement.what, What::Call(call) if matches!(call.function, Function::Rule(_)))
}

/// Returns both sides of a comparison for equality, or of a unification.
fn compared(statement: &Statement) -> Option<(&Term, &Term)> {
    match &statement.what {
        _ if !is_plain(statement) => None,
        What::Unify(left, right) => Some((left, right)),
        What::Call(call) => match (&call.function, call.arguments.as_slice()) {
            (Function::Builtin(name), [left, right]) if matches!(&**name, "equal" | "eq") => Some((left, right)),
            _ => None,
        },
        _ => None,
    }
}

fn is_plain(statement: &Statement) -> bool {
    !statement.negated && statement.with.is_empty()
}

/// Returns a reference to the input whose keys are constants.
fn input(term: &Term) -> Option<&[Term]> {
    let Value::Ref(items) = &term.value else { return None };
    let (first, keys) = items.split_first()?;
    let constant = |key: &Term| matches!(key.value, Value::Constant(_));
    (first.as_variable() == Some(INPUT) && keys.iter().all(constant)).then_some(items)
}
