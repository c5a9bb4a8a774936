//! How much stack a rule can need: each operator, each loop of a body and each rule that another one refers to is on the stack
//! while what is inside of it is planned and evaluated. An overflow would end the process, so it is estimated at load; an
//! evaluation also looks at how much it uses.

use super::term::{Body, Call, Every, Outcome, Part, Rule, Statement, Term, Value, What};

/// Bytes for one rule or function that is evaluated for another.
const RULE: usize = 4096;
/// Bytes for one body or comprehension.
const BODY: usize = 2048;
/// Bytes for one loop: `some x in xs`, `xs[_]`.
const LOOP: usize = 1536;
/// Bytes for one level of an expression.
const LEVEL: usize = 768;

/// Returns the bytes that one definition can need by itself.
pub(super) fn rule(rule: &Rule) -> usize {
    let branch = |rule: &Rule| {
        let (Outcome::Value(result) | Outcome::Element(result)) = &rule.result;
        body(&rule.body) + rule.path.iter().chain([result]).map(term).max().unwrap_or(0)
    };
    RULE + rule.chain().map(branch).max().unwrap_or(0)
}

fn body(statements: &Body) -> usize {
    let loops = statements.iter().map(loops).sum::<usize>();
    BODY + loops * LOOP + statements.iter().map(statement).max().unwrap_or(0)
}

fn statement(statement: &Statement) -> usize {
    let own = match &statement.what {
        What::Term(own) => term(own),
        What::Call(own) => call(own),
        What::Unify(left, right) => term(left).max(term(right)),
        What::Every(every) => {
            let Every { domain, body: inner, .. } = &**every;
            term(domain).max(LOOP + body(inner))
        }
        What::Not(inner) => body(inner),
    };
    statement.with.iter().map(|with| term(&with.value)).fold(own, usize::max)
}

/// Returns how many loops a statement may stand for: one for each key that is not a constant.
fn loops(statement: &Statement) -> usize {
    let of_call = |call: &Call| 1 + call.arguments.iter().map(loops_of).sum::<usize>();
    match &statement.what {
        What::Term(term) => loops_of(term),
        What::Call(call) => of_call(call),
        What::Unify(left, right) => loops_of(left) + loops_of(right),
        What::Every(_) | What::Not(_) => 0,
    }
}

fn loops_of(term: &Term) -> usize {
    let own = match &term.value {
        Value::Ref(items) => items.iter().skip(1).filter(|key| !matches!(key.value, Value::Constant(_))).count(),
        Value::Call(_) => 1,
        _ => 0,
    };
    own + children(term).into_iter().map(loops_of).sum::<usize>()
}

fn call(call: &Call) -> usize {
    LEVEL + call.arguments.iter().map(term).max().unwrap_or(0)
}

fn term(of: &Term) -> usize {
    let inner = match &of.value {
        Value::Comprehension(comprehension) => {
            let terms = comprehension.key.iter().chain([&comprehension.term]);
            body(&comprehension.body) + terms.map(term).max().unwrap_or(0)
        }
        Value::Template(parts) => {
            let part = |part: &Part| if let Part::Statement(inner) = part { BODY + statement(inner) } else { 0 };
            parts.iter().map(part).max().unwrap_or(0)
        }
        _ => children(of).into_iter().map(term).max().unwrap_or(0),
    };
    LEVEL + inner
}

/// Returns the terms right inside another one, those of bodies left out.
fn children(term: &Term) -> Vec<&Term> {
    match &term.value {
        Value::Ref(items) | Value::Array(items) | Value::Set(items) => items.iter().collect(),
        Value::Object(fields) => fields.iter().flat_map(|(key, value)| [key, value]).collect(),
        Value::Call(call) => call.arguments.iter().collect(),
        Value::Constant(_) | Value::Variable(_) | Value::Builtin(_) | Value::Comprehension(_) | Value::Template(_) => {
            Vec::new()
        }
    }
}
