//! Flattens nested expressions into a list of statements: whatever a term needs is evaluated before it, into a
//! variable.
//!
//! These are OPA's stages `RewriteRuleHeadRefs`, `RewriteTemplateStrings`, `RewriteExprTerms`,
//! `RewriteComprehensionTerms` and `RewriteRefsInHead`, and finally, after the safety checks, `RewriteDynamicTerms`.

use super::{
    calls,
    term::{
        Function, ResolvedBody, ResolvedCall, ResolvedComprehension, ResolvedEvery, ResolvedResult, ResolvedRule,
        ResolvedStatement, ResolvedStatementKind, ResolvedTerm, ResolvedValue, ResolvedWith, TemplatePart, Variables,
    },
};
use crate::syntax::{ComprehensionKind, Position};

/// Flattens a definition and its `else` branches.
pub(super) fn rule(rule: &mut ResolvedRule, keeps_prints: bool, variables: &mut Variables) {
    let mut next = Some(rule);
    while let Some(rule) = next {
        let mut flattener = Flattener { variables, keeps_prints };
        flattener.rule(rule);
        next = rule.otherwise.as_deref_mut();
    }
}

/// Moves each reference and comprehension in a statement into a variable of its own.
pub(super) fn dynamics(rule: &mut ResolvedRule, variables: &mut Variables) {
    let mut next = Some(rule);
    while let Some(rule) = next {
        let body = std::mem::take(&mut rule.body);
        rule.body = Flattener { variables, keeps_prints: false }.dynamics(body);
        next = rule.otherwise.as_deref_mut();
    }
}

/// Adds statements to a body, replacing the `true` of an empty one.
fn append(body: &mut ResolvedBody, statements: Vec<ResolvedStatement>) {
    if !statements.is_empty() && body.len() == 1 && body.first().is_some_and(ResolvedStatement::is_true) {
        body.clear();
    }
    body.extend(statements);
}

struct Flattener<'a> {
    variables: &'a mut Variables,
    keeps_prints: bool,
}

impl Flattener<'_> {
    fn rule(&mut self, rule: &mut ResolvedRule) {
        let mut keys = Vec::new();
        for key in &mut rule.path {
            if !matches!(key.value, ResolvedValue::Constant(_) | ResolvedValue::Variable(_)) {
                keys.push(self.capture(key));
            }
        }
        append(&mut rule.body, keys);
        for parameter in rule.parameters.iter_mut().flatten() {
            let support = self.expand(parameter);
            append(&mut rule.body, support);
        }
        let (ResolvedResult::Value(result) | ResolvedResult::Element(result)) = &mut rule.result;
        let support = self.expand(result);
        append(&mut rule.body, support);
        let body = std::mem::take(&mut rule.body);
        rule.body = self.body(body);
        let (ResolvedResult::Value(result) | ResolvedResult::Element(result)) = &mut rule.result;
        if result.requires_evaluation() {
            let capture = self.capture(result);
            append(&mut rule.body, vec![capture]);
        }
        for parameter in rule.parameters.iter_mut().flatten().filter(|parameter| parameter.requires_evaluation()) {
            let capture = self.capture(parameter);
            append(&mut rule.body, vec![capture]);
        }
    }

    /// Replaces a term by a variable, and returns the statement that assigns it.
    fn capture(&mut self, term: &mut ResolvedTerm) -> ResolvedStatement {
        let variable = self.variables.generated();
        let at = term.at;
        let value = std::mem::replace(term, ResolvedTerm::variable(at, variable));
        ResolvedStatement::capture(variable, value)
    }

    fn body(&mut self, body: ResolvedBody) -> ResolvedBody {
        body.into_iter().flat_map(|statement| self.statement(statement)).collect()
    }

    fn statement(&mut self, mut statement: ResolvedStatement) -> ResolvedBody {
        if matches!(&statement.kind, ResolvedStatementKind::Call(call) if calls::is_print(call)) {
            // OPA ignores it.
            statement.with.clear();
            statement.erased = !self.keeps_prints;
        }
        self.collect_noted(&mut statement);
        let mut body = Vec::new();
        for with in &mut statement.with {
            body.extend(self.expand(&mut with.value));
        }
        let mut support = Vec::new();
        match &mut statement.kind {
            ResolvedStatementKind::Term(term) => support.extend(self.expand(term)),
            ResolvedStatementKind::Call(call) => {
                for argument in &mut call.arguments {
                    support.extend(self.expand(argument));
                }
            }
            ResolvedStatementKind::Unify(left, right) => {
                support.extend(self.expand(left));
                support.extend(self.expand(right));
            }
            ResolvedStatementKind::Every(every) => {
                let ResolvedEvery { domain, body, .. } = &mut **every;
                let mut capture = self.capture(domain);
                capture.with.clone_from(&statement.with);
                support.extend(self.statement(capture));
                let inner = std::mem::take(body);
                *body = self.body(inner);
            }
            ResolvedStatementKind::Not(inner) => {
                let taken = std::mem::take(inner);
                *inner = self.body(taken);
            }
        }
        for statement_of_part in &mut support {
            statement_of_part.erased |= statement.erased;
            if !statement.with.is_empty() {
                statement_of_part.with.clone_from(&statement.with);
            }
        }
        body.extend(support);
        body.push(statement);
        body
    }

    /// Returns the statements that have to precede a term, and replaces the moved parts of the term by their variables.
    fn expand(&mut self, term: &mut ResolvedTerm) -> ResolvedBody {
        let at = term.at;
        match &mut term.value {
            ResolvedValue::Constant(_) | ResolvedValue::Variable(_) | ResolvedValue::Builtin(_) => Vec::new(),
            ResolvedValue::Call(call) => {
                let mut support = Vec::new();
                for argument in &mut call.arguments {
                    support.extend(self.expand(argument));
                }
                let variable = self.variables.generated();
                let ResolvedValue::Call(mut call) =
                    std::mem::replace(&mut term.value, ResolvedValue::Variable(variable))
                else {
                    return support;
                };
                call.arguments.push(ResolvedTerm::variable(at, variable));
                support.push(ResolvedStatement {
                    generated: true,
                    ..ResolvedStatement::new(at, ResolvedStatementKind::Call(*call))
                });
                support
            }
            ResolvedValue::Ref(items) => self.expand_ref(items),
            ResolvedValue::Array(items) | ResolvedValue::Set(items) => {
                items.iter_mut().flat_map(|item| self.expand(item)).collect()
            }
            ResolvedValue::Object(fields) => {
                let mut support = Vec::new();
                for (key, value) in fields {
                    support.extend(self.expand(key));
                    support.extend(self.expand(value));
                }
                support
            }
            ResolvedValue::Comprehension(comprehension) => {
                self.comprehension(comprehension);
                Vec::new()
            }
            ResolvedValue::Template(parts) => {
                let parts = std::mem::take(parts);
                term.value = self.template(at, parts);
                self.expand(term)
            }
        }
    }

    fn expand_ref(&mut self, items: &mut [ResolvedTerm]) -> ResolvedBody {
        let mut support: ResolvedBody = items.iter_mut().flat_map(|item| self.expand(item)).collect();
        if let Some(head) = items.first_mut()
            && !matches!(head.value, ResolvedValue::Variable(_) | ResolvedValue::Constant(_) | ResolvedValue::Ref(_))
        {
            support.push(self.capture(head));
        }
        support
    }

    fn comprehension(&mut self, comprehension: &mut ResolvedComprehension) {
        let ResolvedComprehension { key, term, body, .. } = comprehension;
        for term in key.iter_mut().chain([&mut *term]) {
            let support = self.expand(term);
            append(body, support);
        }
        let inner = std::mem::take(body);
        *body = self.body(inner);
        for term in key.iter_mut().chain([term]).filter(|term| term.requires_evaluation()) {
            let capture = self.capture(term);
            append(body, vec![capture]);
        }
    }

    /// Rewrites a template string as a call; each part that may be undefined is put into a set.
    fn template(&mut self, at: Position, parts: Vec<TemplatePart>) -> ResolvedValue {
        let mut items = Vec::new();
        for part in parts {
            match part {
                TemplatePart::Constant(constant) => {
                    items.push(ResolvedTerm::new(at, ResolvedValue::Constant(constant)));
                }
                TemplatePart::Statement(statement) => items.push(self.in_set(*statement)),
            }
        }
        let function = Function::Builtin("internal.template_string".into());
        ResolvedValue::Call(Box::new(ResolvedCall {
            function,
            arguments: vec![ResolvedTerm::new(at, ResolvedValue::Array(items))],
        }))
    }

    fn in_set(&mut self, statement: ResolvedStatement) -> ResolvedTerm {
        let at = statement.at;
        let term = match statement.kind {
            ResolvedStatementKind::Call(call) => ResolvedTerm::new(at, ResolvedValue::Call(Box::new(call))),
            ResolvedStatementKind::Term(term) => term,
            _ => ResolvedTerm::truth(at),
        };
        if let ResolvedValue::Variable(_) = term.value {
            return ResolvedTerm::new(at, ResolvedValue::Set(vec![term]));
        }
        self.set_of(term, statement.with)
    }

    /// Puts each argument of a `print` or a note into a collection of its values, which is empty if it is undefined.
    fn collect_noted(&mut self, statement: &mut ResolvedStatement) {
        let ResolvedStatementKind::Call(call) = &mut statement.kind else { return };
        if statement.erased || !calls::is_print(call) && !calls::is_note(call) {
            return;
        }
        let form = if calls::is_print(call) { ComprehensionKind::Set } else { ComprehensionKind::Array };
        let with = std::mem::take(&mut statement.with);
        for argument in std::mem::take(&mut call.arguments) {
            let argument = match argument.value {
                ResolvedValue::Constant(_) => argument,
                _ => self.collection_of(form, argument, with.clone()),
            };
            call.arguments.push(argument);
        }
    }

    /// Returns `{variable | variable = term}`, which has a value even if the term is undefined.
    fn set_of(&mut self, term: ResolvedTerm, with: Vec<ResolvedWith>) -> ResolvedTerm {
        self.collection_of(ComprehensionKind::Set, term, with)
    }

    fn collection_of(&mut self, form: ComprehensionKind, term: ResolvedTerm, with: Vec<ResolvedWith>) -> ResolvedTerm {
        let at = term.at;
        let variable = self.variables.generated();
        let capture = ResolvedStatement { generated: false, with, ..ResolvedStatement::capture(variable, term) };
        let term = ResolvedTerm::variable(at, variable);
        let comprehension = ResolvedComprehension { form, key: None, term, body: vec![capture] };
        ResolvedTerm::new(at, ResolvedValue::Comprehension(Box::new(comprehension)))
    }

    fn dynamics(&mut self, body: ResolvedBody) -> ResolvedBody {
        let mut result = Vec::new();
        for mut statement in body {
            let (before, erased) = (result.len(), statement.erased);
            let ResolvedStatement { kind, with, .. } = &mut statement;
            match kind {
                ResolvedStatementKind::Unify(left, right) => {
                    self.dynamic_operand(with, left, &mut result);
                    self.dynamic_operand(with, right, &mut result);
                }
                ResolvedStatementKind::Call(call) if call.as_equality().is_some() => {
                    for argument in &mut call.arguments {
                        self.dynamic_operand(with, argument, &mut result);
                    }
                }
                ResolvedStatementKind::Call(call) => {
                    for argument in &mut call.arguments {
                        self.dynamic(with, argument, &mut result);
                    }
                }
                ResolvedStatementKind::Term(term) => self.dynamic_operand(with, term, &mut result),
                ResolvedStatementKind::Every(every) => {
                    self.dynamic(with, &mut every.domain, &mut result);
                    let inner = std::mem::take(&mut every.body);
                    every.body = self.dynamics(inner);
                }
                ResolvedStatementKind::Not(body) => {
                    let inner = std::mem::take(body);
                    *body = self.dynamics(inner);
                }
            }
            for part in result.iter_mut().skip(before) {
                part.erased |= erased;
            }
            result.push(statement);
        }
        result
    }

    /// Keeps a top-level reference or comprehension, but moves the ones inside it.
    fn dynamic_operand(&mut self, with: &[ResolvedWith], term: &mut ResolvedTerm, result: &mut ResolvedBody) {
        match &mut term.value {
            ResolvedValue::Ref(items) => items.iter_mut().skip(1).for_each(|key| self.dynamic(with, key, result)),
            ResolvedValue::Comprehension(comprehension) => {
                let body = std::mem::take(&mut comprehension.body);
                comprehension.body = self.dynamics(body);
            }
            _ => self.dynamic(with, term, result),
        }
    }

    fn dynamic(&mut self, with: &[ResolvedWith], term: &mut ResolvedTerm, result: &mut ResolvedBody) {
        match &mut term.value {
            ResolvedValue::Ref(_) | ResolvedValue::Comprehension(_) => {
                self.dynamic_operand(with, term, result);
                let capture = self.capture(term);
                result.push(ResolvedStatement { with: with.to_vec(), ..capture });
            }
            ResolvedValue::Array(items) | ResolvedValue::Set(items) => {
                for item in items.iter_mut() {
                    self.dynamic(with, item, result);
                }
            }
            ResolvedValue::Object(fields) => {
                for (key, value) in fields {
                    self.dynamic(with, key, result);
                    self.dynamic(with, value, result);
                }
            }
            _ => {}
        }
    }
}
