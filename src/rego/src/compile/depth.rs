//! Estimates the stack that a rule needs: each operator, each loop of a body and each referenced rule occupies the
//! stack while its contents are planned and evaluated. A stack overflow would end the process, so it is estimated at
//! load; an evaluation also checks its actual use.

use super::term::{
    ResolvedBody, ResolvedCall, ResolvedEvery, ResolvedResult, ResolvedRule, ResolvedStatement, ResolvedStatementKind,
    ResolvedTerm, ResolvedValue, TemplatePart,
};

/// Bytes for one rule or function evaluated by another.
const RULE: usize = 4096;
/// Bytes for one body or comprehension.
const BODY: usize = 2048;
/// Bytes for one loop: `some x in xs`, `xs[_]`.
const LOOP: usize = 1536;
/// Bytes for one level of an expression.
const LEVEL: usize = 768;

/// Returns the bytes that one definition needs by itself.
pub(super) fn rule(rule: &ResolvedRule) -> usize {
    let branch = |rule: &ResolvedRule| {
        let (ResolvedResult::Value(result) | ResolvedResult::Element(result)) = &rule.result;
        body(&rule.body) + rule.path.iter().chain([result]).map(term).max().unwrap_or(0)
    };
    RULE + rule.chain().map(branch).max().unwrap_or(0)
}

fn body(statements: &ResolvedBody) -> usize {
    let loops = statements.iter().map(loops).sum::<usize>();
    BODY + loops * LOOP + statements.iter().map(statement).max().unwrap_or(0)
}

fn statement(statement: &ResolvedStatement) -> usize {
    let own = match &statement.kind {
        ResolvedStatementKind::Term(own) => term(own),
        ResolvedStatementKind::Call(own) => call(own),
        ResolvedStatementKind::Unify(left, right) => term(left).max(term(right)),
        ResolvedStatementKind::Every(every) => {
            let ResolvedEvery { domain, body: inner, .. } = &**every;
            term(domain).max(LOOP + body(inner))
        }
        ResolvedStatementKind::Not(inner) => body(inner),
    };
    statement.with.iter().map(|with| term(&with.value)).fold(own, usize::max)
}

/// Returns the number of loops that a statement may need: one for each key that is not a constant.
fn loops(statement: &ResolvedStatement) -> usize {
    let of_call = |call: &ResolvedCall| 1 + call.arguments.iter().map(loops_of).sum::<usize>();
    match &statement.kind {
        ResolvedStatementKind::Term(term) => loops_of(term),
        ResolvedStatementKind::Call(call) => of_call(call),
        ResolvedStatementKind::Unify(left, right) => loops_of(left) + loops_of(right),
        ResolvedStatementKind::Every(_) | ResolvedStatementKind::Not(_) => 0,
    }
}

fn loops_of(term: &ResolvedTerm) -> usize {
    let own = match &term.value {
        ResolvedValue::Ref(items) => {
            items.iter().skip(1).filter(|key| !matches!(key.value, ResolvedValue::Constant(_))).count()
        }
        ResolvedValue::Call(_) => 1,
        _ => 0,
    };
    own + children(term).into_iter().map(loops_of).sum::<usize>()
}

fn call(call: &ResolvedCall) -> usize {
    LEVEL + call.arguments.iter().map(term).max().unwrap_or(0)
}

fn term(whole: &ResolvedTerm) -> usize {
    let inner = match &whole.value {
        ResolvedValue::Comprehension(comprehension) => {
            let terms = comprehension.key.iter().chain([&comprehension.term]);
            body(&comprehension.body) + terms.map(term).max().unwrap_or(0)
        }
        ResolvedValue::Template(parts) => {
            let part = |part: &TemplatePart| {
                if let TemplatePart::Statement(inner) = part { BODY + statement(inner) } else { 0 }
            };
            parts.iter().map(part).max().unwrap_or(0)
        }
        _ => children(whole).into_iter().map(term).max().unwrap_or(0),
    };
    LEVEL + inner
}

/// Returns the direct subterms of a term, without those in bodies.
fn children(term: &ResolvedTerm) -> Vec<&ResolvedTerm> {
    match &term.value {
        ResolvedValue::Ref(items) | ResolvedValue::Array(items) | ResolvedValue::Set(items) => items.iter().collect(),
        ResolvedValue::Object(fields) => fields.iter().flat_map(|(key, value)| [key, value]).collect(),
        ResolvedValue::Call(call) => call.arguments.iter().collect(),
        ResolvedValue::Constant(_)
        | ResolvedValue::Variable(_)
        | ResolvedValue::Builtin(_)
        | ResolvedValue::Comprehension(_)
        | ResolvedValue::Template(_) => Vec::new(),
    }
}
