//! Nested expressions become a list of statements: what has to be evaluated for a term comes before it, in a variable.
//!
//! These are OPA's stages `RewriteRuleHeadRefs`, `RewriteTemplateStrings`, `RewriteExprTerms`, `RewriteComprehensionTerms` and
//! `RewriteRefsInHead`, and at last, when all is safe, `RewriteDynamicTerms`.

use super::{
    calls,
    term::{
        Body, Call, Comprehension, Every, Function, Outcome, Part, Rule, Statement, Term, Value, Variables, What, With,
    },
};
use crate::syntax::{ComprehensionKind, Position};

/// Flattens a definition and those behind `else`.
pub(super) fn rule(rule: &mut Rule, keeps_prints: bool, variables: &mut Variables) {
    let mut next = Some(rule);
    while let Some(rule) = next {
        let mut flattener = Flattener { variables, keeps_prints };
        flattener.rule(rule);
        next = rule.otherwise.as_deref_mut();
    }
}

/// Gives each reference and comprehension in a statement a variable of its own.
pub(super) fn dynamics(rule: &mut Rule, variables: &mut Variables) {
    let mut next = Some(rule);
    while let Some(rule) = next {
        let body = std::mem::take(&mut rule.body);
        rule.body = Flattener { variables, keeps_prints: false }.dynamics(body);
        next = rule.otherwise.as_deref_mut();
    }
}

/// Adds statements to a body; the `true` of an empty one goes.
fn append(body: &mut Body, statements: Vec<Statement>) {
    if !statements.is_empty() && body.len() == 1 && body.first().is_some_and(Statement::is_true) {
        body.clear();
    }
    body.extend(statements);
}

struct Flattener<'a> {
    variables: &'a mut Variables,
    keeps_prints: bool,
}

impl Flattener<'_> {
    fn rule(&mut self, rule: &mut Rule) {
        let mut keys = Vec::new();
        for key in &mut rule.path {
            if !matches!(key.value, Value::Constant(_) | Value::Variable(_)) {
                keys.push(self.capture(key));
            }
        }
        append(&mut rule.body, keys);
        for parameter in rule.parameters.iter_mut().flatten() {
            let support = self.expand(parameter);
            append(&mut rule.body, support);
        }
        let (Outcome::Value(result) | Outcome::Element(result)) = &mut rule.result;
        let support = self.expand(result);
        append(&mut rule.body, support);
        let body = std::mem::take(&mut rule.body);
        rule.body = self.body(body);
        let (Outcome::Value(result) | Outcome::Element(result)) = &mut rule.result;
        if result.requires_evaluation() {
            let capture = self.capture(result);
            append(&mut rule.body, vec![capture]);
        }
        for parameter in rule.parameters.iter_mut().flatten().filter(|parameter| parameter.requires_evaluation()) {
            let capture = self.capture(parameter);
            append(&mut rule.body, vec![capture]);
        }
    }

    /// Puts a variable in the place of a term, and returns the statement that gives it its value.
    fn capture(&mut self, term: &mut Term) -> Statement {
        let variable = self.variables.generated();
        let at = term.at;
        let value = std::mem::replace(term, Term::variable(at, variable));
        Statement::capture(variable, value)
    }

    fn body(&mut self, body: Body) -> Body {
        body.into_iter().flat_map(|statement| self.statement(statement)).collect()
    }

    fn statement(&mut self, mut statement: Statement) -> Body {
        if matches!(&statement.what, What::Call(call) if calls::is_print(call)) {
            // OPA forgets it.
            statement.with.clear();
            statement.erased = !self.keeps_prints;
        }
        self.collect_noted(&mut statement);
        let mut body = Vec::new();
        for with in &mut statement.with {
            body.extend(self.expand(&mut with.value));
        }
        let mut support = Vec::new();
        match &mut statement.what {
            What::Term(term) => support.extend(self.expand(term)),
            What::Call(call) => {
                for argument in &mut call.arguments {
                    support.extend(self.expand(argument));
                }
            }
            What::Unify(left, right) => {
                support.extend(self.expand(left));
                support.extend(self.expand(right));
            }
            What::Every(every) => {
                let Every { domain, body, .. } = &mut **every;
                let mut capture = self.capture(domain);
                capture.with.clone_from(&statement.with);
                support.extend(self.statement(capture));
                let inner = std::mem::take(body);
                *body = self.body(inner);
            }
            What::Not(inner) => {
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

    /// Returns the statements that have to come before a term, and leaves only what they give in it.
    fn expand(&mut self, term: &mut Term) -> Body {
        let at = term.at;
        match &mut term.value {
            Value::Constant(_) | Value::Variable(_) | Value::Builtin(_) => Vec::new(),
            Value::Call(call) => {
                let mut support = Vec::new();
                for argument in &mut call.arguments {
                    support.extend(self.expand(argument));
                }
                let variable = self.variables.generated();
                let Value::Call(mut call) = std::mem::replace(&mut term.value, Value::Variable(variable)) else {
                    return support;
                };
                call.arguments.push(Term::variable(at, variable));
                support.push(Statement { generated: true, ..Statement::new(at, What::Call(*call)) });
                support
            }
            Value::Ref(items) => self.expand_ref(items),
            Value::Array(items) | Value::Set(items) => items.iter_mut().flat_map(|item| self.expand(item)).collect(),
            Value::Object(fields) => {
                let mut support = Vec::new();
                for (key, value) in fields {
                    support.extend(self.expand(key));
                    support.extend(self.expand(value));
                }
                support
            }
            Value::Comprehension(comprehension) => {
                self.comprehension(comprehension);
                Vec::new()
            }
            Value::Template(parts) => {
                let parts = std::mem::take(parts);
                term.value = self.template(at, parts);
                self.expand(term)
            }
        }
    }

    fn expand_ref(&mut self, items: &mut [Term]) -> Body {
        let mut support: Body = items.iter_mut().flat_map(|item| self.expand(item)).collect();
        if let Some(head) = items.first_mut()
            && !matches!(head.value, Value::Variable(_) | Value::Constant(_) | Value::Ref(_))
        {
            support.push(self.capture(head));
        }
        support
    }

    fn comprehension(&mut self, comprehension: &mut Comprehension) {
        let Comprehension { key, term, body, .. } = comprehension;
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

    /// A template string is a call; each part that may have no value is in a set.
    fn template(&mut self, at: Position, parts: Vec<Part>) -> Value {
        let mut items = Vec::new();
        for part in parts {
            match part {
                Part::Constant(constant) => items.push(Term::new(at, Value::Constant(constant))),
                Part::Statement(statement) => items.push(self.in_set(*statement)),
            }
        }
        let function = Function::Builtin("internal.template_string".into());
        Value::Call(Box::new(Call { function, arguments: vec![Term::new(at, Value::Array(items))] }))
    }

    fn in_set(&mut self, statement: Statement) -> Term {
        let at = statement.at;
        let term = match statement.what {
            What::Call(call) => Term::new(at, Value::Call(Box::new(call))),
            What::Term(term) => term,
            _ => Term::truth(at),
        };
        if let Value::Variable(_) = term.value {
            return Term::new(at, Value::Set(vec![term]));
        }
        self.set_of(term, statement.with)
    }

    /// Puts each argument of a `print` or a note into a collection of its values, which is empty where it is undefined.
    fn collect_noted(&mut self, statement: &mut Statement) {
        let What::Call(call) = &mut statement.what else { return };
        if statement.erased || !calls::is_print(call) && !calls::is_note(call) {
            return;
        }
        let form = if calls::is_print(call) { ComprehensionKind::Set } else { ComprehensionKind::Array };
        let with = std::mem::take(&mut statement.with);
        for argument in std::mem::take(&mut call.arguments) {
            let argument = match argument.value {
                Value::Constant(_) => argument,
                _ => self.collection_of(form, argument, with.clone()),
            };
            call.arguments.push(argument);
        }
    }

    /// `{variable | variable = term}`: whatever becomes of the term, this has a value.
    fn set_of(&mut self, term: Term, with: Vec<With>) -> Term {
        self.collection_of(ComprehensionKind::Set, term, with)
    }

    fn collection_of(&mut self, form: ComprehensionKind, term: Term, with: Vec<With>) -> Term {
        let at = term.at;
        let variable = self.variables.generated();
        let capture = Statement { generated: false, with, ..Statement::capture(variable, term) };
        let term = Term::variable(at, variable);
        let comprehension = Comprehension { form, key: None, term, body: vec![capture] };
        Term::new(at, Value::Comprehension(Box::new(comprehension)))
    }

    fn dynamics(&mut self, body: Body) -> Body {
        let mut result = Vec::new();
        for mut statement in body {
            let (before, erased) = (result.len(), statement.erased);
            let Statement { what, with, .. } = &mut statement;
            match what {
                What::Unify(left, right) => {
                    self.dynamic_operand(with, left, &mut result);
                    self.dynamic_operand(with, right, &mut result);
                }
                What::Call(call) if call.as_equality().is_some() => {
                    for argument in &mut call.arguments {
                        self.dynamic_operand(with, argument, &mut result);
                    }
                }
                What::Call(call) => {
                    for argument in &mut call.arguments {
                        self.dynamic(with, argument, &mut result);
                    }
                }
                What::Term(term) => self.dynamic_operand(with, term, &mut result),
                What::Every(every) => {
                    self.dynamic(with, &mut every.domain, &mut result);
                    let inner = std::mem::take(&mut every.body);
                    every.body = self.dynamics(inner);
                }
                What::Not(body) => {
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

    /// A reference or comprehension that stands alone may stay; what is in it may not.
    fn dynamic_operand(&mut self, with: &[With], term: &mut Term, result: &mut Body) {
        match &mut term.value {
            Value::Ref(items) => items.iter_mut().skip(1).for_each(|key| self.dynamic(with, key, result)),
            Value::Comprehension(comprehension) => {
                let body = std::mem::take(&mut comprehension.body);
                comprehension.body = self.dynamics(body);
            }
            _ => self.dynamic(with, term, result),
        }
    }

    fn dynamic(&mut self, with: &[With], term: &mut Term, result: &mut Body) {
        match &mut term.value {
            Value::Ref(_) | Value::Comprehension(_) => {
                self.dynamic_operand(with, term, result);
                let capture = self.capture(term);
                result.push(Statement { with: with.to_vec(), ..capture });
            }
            Value::Array(items) | Value::Set(items) => {
                for item in items.iter_mut() {
                    self.dynamic(with, item, result);
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.dynamic(with, key, result);
                    self.dynamic(with, value, result);
                }
            }
            _ => {}
        }
    }
}
