//! Declarations of variables: `:=`, `some … in` and `every`.

use std::collections::BTreeSet;

use super::{Resolver, kind_name, pattern_names};
use crate::{
    compile::{
        fault::{Code, Fault},
        scope::{Occurrence, each_name},
        term::{
            ResolvedEvery, ResolvedStatement, ResolvedStatementKind, ResolvedTerm, ResolvedValue, Variable, VariableSet,
        },
    },
    constant::Constant,
    syntax::{self, Expr, ExprKind, Name, Position},
};

impl Resolver<'_> {
    /// Resolves `some key, value in collection`, which unifies a pattern with each element.
    pub(super) fn some_in(
        &mut self,
        at: Position,
        key: Option<&Expr>,
        value: &Expr,
        collection: &Expr,
        with: &[syntax::With],
    ) -> Option<ResolvedStatement> {
        let mut bound = BTreeSet::new();
        key.into_iter().chain([value]).for_each(|pattern| pattern_names(pattern, &mut bound));
        let mut twice: Vec<(Name, bool)> = Vec::new();
        each_name(collection, &mut |name, inside| {
            if bound.contains(name) {
                twice.push((name.clone(), inside));
            }
        });
        if let Some((name, _)) = twice.iter().find(|(_, inside)| !inside) {
            self.fault(at, format!("var {name} assigned before"));
            return None;
        }
        // A name that also occurs in a body inside the collection counts as declared before.
        let mut declared = bound.iter().filter(|name| !twice.iter().any(|(twice, _)| twice == *name));
        declared.try_for_each(|name| self.declare(name, Occurrence::Declared, at).map(|_| ()))?;
        let value = self.term(value);
        let mut domain = self.term(collection);
        let key = match key {
            Some(key) => self.term(key),
            None => ResolvedTerm::variable(at, self.variables.generated()),
        };
        let element = match &mut domain.value {
            ResolvedValue::Ref(items) => {
                items.push(key);
                domain
            }
            _ => ResolvedTerm::new(domain.at, ResolvedValue::Ref(vec![domain, key])),
        };
        let kind = ResolvedStatementKind::Unify(value, element);
        Some(ResolvedStatement { with: self.withs(with), ..ResolvedStatement::new(at, kind) })
    }

    /// Resolves `every key, value in collection { body }`.
    pub(super) fn every(
        &mut self,
        at: Position,
        key: Option<&Name>,
        value: &Name,
        collection: &Expr,
        body: &syntax::SyntaxBody,
        with: &[syntax::With],
    ) -> Option<ResolvedStatement> {
        let mut domain = self.term(collection);
        let names_of: Vec<Name> = std::iter::once(value).chain(key).cloned().collect();
        let names = key.into_iter().chain([value]).cloned().collect();
        self.scopes.enter(names);
        let mut bind = |name: &Name| match &**name {
            "_" => Some(self.variables.free(name)),
            _ => self.declare(name, Occurrence::Declared, at),
        };
        let bound = (key.map(&mut bind), bind(value));
        let (key, Some(value)) = bound else {
            self.scopes.leave();
            return None;
        };
        let key = key.flatten();
        // A name in the collection that is not declared around it is the variable of the element.
        for (name, variable) in names_of.iter().zip(key.into_iter().chain([value]).rev()) {
            if let Some(free) = self.scopes.free(name) {
                substitute(&mut domain, free, variable);
            }
        }
        let faults = self.faults.len();
        let inner = self.body(body);
        if self.faults.len() == faults {
            self.unused(body, &inner, &VariableSet::new());
        }
        // `with` sees the variables declared in the body.
        let with = self.withs(with);
        self.scopes.leave();
        let kind = ResolvedStatementKind::Every(Box::new(ResolvedEvery { key, value, domain, body: inner }));
        Some(ResolvedStatement { with, ..ResolvedStatement::new(at, kind) })
    }

    /// Declares a variable of the innermost scope; `None` if it is already known there.
    pub(super) fn declare(&mut self, name: &Name, occurrence: Occurrence, at: Position) -> Option<Variable> {
        let before = match self.scopes.occurrence(name) {
            Some(Occurrence::Seen) => Some(format!("var {name} referenced above")),
            Some(Occurrence::Assigned) => Some(format!("var {name} assigned above")),
            Some(Occurrence::Declared) => Some(format!("var {name} declared above")),
            Some(Occurrence::Parameter) => Some(format!("arg {name} redeclared")),
            None => None,
        };
        if let Some(message) = before {
            let fault = Fault::new(Code::Compile, self.module, at, message);
            self.faults.push(fault.help("give it another name, or compare with `==`"));
            return None;
        }
        let variable = self.variables.declared(name);
        self.scopes.insert(name, variable, occurrence);
        Some(variable)
    }

    /// Declares the left side of `:=`.
    pub(super) fn assigned(&mut self, expr: &Expr) -> ResolvedTerm {
        let value = match &expr.kind {
            ExprKind::Name(name) if &**name == "_" => ResolvedValue::Variable(self.variables.free(name)),
            ExprKind::Name(name) => {
                let variable = self.declare(name, Occurrence::Assigned, expr.at);
                ResolvedValue::Variable(variable.unwrap_or_else(|| self.scopes.variable(name, self.variables)))
            }
            ExprKind::Array(items) => ResolvedValue::Array(items.iter().map(|item| self.assigned(item)).collect()),
            ExprKind::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (self.term(key), self.assigned(value)));
                ResolvedValue::Object(fields.collect())
            }
            other => {
                self.fault(expr.at, format!("cannot assign to {}", kind_name(other)));
                ResolvedValue::Constant(Constant::Null)
            }
        };
        ResolvedTerm::new(expr.at, value)
    }
}

/// Replaces a variable by another one, except in bodies.
fn substitute(term: &mut ResolvedTerm, from: Variable, to: Variable) {
    match &mut term.value {
        ResolvedValue::Variable(variable) if *variable == from => *variable = to,
        ResolvedValue::Ref(items) | ResolvedValue::Array(items) | ResolvedValue::Set(items) => {
            for item in items {
                substitute(item, from, to);
            }
        }
        ResolvedValue::Object(fields) => {
            for (key, value) in fields {
                substitute(key, from, to);
                substitute(value, from, to);
            }
        }
        ResolvedValue::Call(call) => {
            for argument in &mut call.arguments {
                substitute(argument, from, to);
            }
        }
        _ => {}
    }
}
