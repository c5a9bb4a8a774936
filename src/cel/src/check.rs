//! Checks the types of expressions as the API server does, and finds the overloads that a call can have.

mod unify;
mod validators;

use std::sync::Arc;

use self::unify::Unifier;
use crate::{
    ast::{Call, Element, Entry, Expr, ExprKind, Fold, Select},
    declarations::{self, Function, Overload},
    environment::{Environment, FieldType},
    error::CompileError,
    parse::Parsed,
    types::Type,
    value::Value,
};

/// What an expression refers to.
#[derive(Clone, Default)]
pub(crate) enum Reference {
    #[default]
    Nothing,
    /// A variable, possibly with a dotted name.
    Variable(Arc<str>),
    /// The name of a type.
    TypeName(Arc<str>),
    /// A function, and the overloads that the arguments may have.
    Function { function: &'static Function, overloads: Vec<&'static Overload> },
}

/// Types and references by the ids of expressions.
pub(crate) struct Checked {
    pub(crate) types: Vec<Type>,
    pub(crate) references: Vec<Reference>,
}

/// Checks an expression.
///
/// # Errors
/// All problems with their positions.
pub(crate) fn check(environment: &Environment, source: &str, parsed: &Parsed) -> Result<Checked, CompileError> {
    let mut checker = Checker {
        environment,
        source,
        types: vec![Type::Error; parsed.count],
        references: vec![Reference::Nothing; parsed.count],
        unifier: Unifier::default(),
        scopes: Vec::new(),
        problems: Vec::new(),
    };
    checker.check(&parsed.expr);
    let Checker { types, references, unifier, problems, .. } = checker;
    if let Some(problem) = CompileError::joined(problems) {
        return Err(problem);
    }
    let types = types.iter().map(|found| unifier.substitute(found, true)).collect();
    let result = Checked { types, references };
    match CompileError::joined(validators::validate(source, &parsed.expr, &result)) {
        Some(problem) => Err(problem),
        None => Ok(result),
    }
}

/// Returns the line and the column of an offset in code points, both from 1.
pub(crate) fn position(source: &str, offset: usize) -> (usize, usize) {
    let (mut line, mut column) = (1, 1);
    for c in source.chars().take(offset) {
        (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    (line, column)
}

/// Returns a problem at an expression.
fn problem(source: &str, at: &Expr, message: String) -> CompileError {
    let (line, column) = position(source, at.offset);
    CompileError { line, column, message, more: Vec::new() }
}

struct Checker<'e> {
    environment: &'e Environment,
    source: &'e str,
    types: Vec<Type>,
    references: Vec<Reference>,
    unifier: Unifier,
    /// Variables of comprehensions, the innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    problems: Vec<CompileError>,
}

impl Checker<'_> {
    fn refuse(&mut self, at: &Expr, message: String) {
        self.problems.push(problem(self.source, at, message));
    }

    fn type_of(&self, expr: &Expr) -> Type {
        self.types[expr.id].clone()
    }

    fn check(&mut self, expr: &Expr) {
        let found = match &expr.kind {
            ExprKind::Literal(value) => literal_type(value),
            ExprKind::Ident(name) => self.name(expr, name).unwrap_or_else(|| self.undeclared(expr, name)),
            ExprKind::Select(select) => self.select(expr, select),
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(elements) => self.list(elements),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct(name) if self.environment.name_type(name).is_none() => self.undeclared(expr, name),
            ExprKind::Struct(name) => {
                self.refuse(expr, format!("objects of type '{name}' cannot be constructed here"));
                Type::Error
            }
            ExprKind::Fold(fold) => self.fold(fold),
        };
        self.types[expr.id] = found;
    }

    /// Returns the type of a variable or of the name of a type, and records the reference.
    fn name(&mut self, expr: &Expr, name: &str) -> Option<Type> {
        if let Some((_, found)) = self.scopes.iter().rev().find(|(known, _)| &**known == name) {
            return Some(found.clone());
        }
        let found = self.environment.name_type(name)?;
        let reference = if matches!(found, Type::Type(_)) { Reference::TypeName } else { Reference::Variable };
        self.references[expr.id] = reference(name.into());
        Some(found)
    }

    fn undeclared(&mut self, at: &Expr, name: &str) -> Type {
        self.refuse(at, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn select(&mut self, expr: &Expr, select: &Select) -> Type {
        if let Some(found) = expr.qualified_name().and_then(|name| self.name(expr, &name)) {
            return found;
        }
        let found = self.field(expr, &select.operand, &select.field, false);
        if select.test { Type::Bool } else { self.unifier.substitute(&found, false) }
    }

    fn field(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.unifier.substitute(&self.type_of(operand), false);
        let (target, was_optional) = operand.unwrapped();
        let result = match target {
            Type::Map(entry) => entry.1.clone(),
            Type::Struct(name) => match self.environment.field_type(name, field) {
                FieldType::Known(found) => found,
                FieldType::Undefined => {
                    self.refuse(expr, format!("undefined field '{field}'"));
                    Type::Error
                }
                FieldType::NoFields => {
                    self.refuse(expr, format!("unexpected failed resolution of '{name}'"));
                    Type::Error
                }
            },
            Type::Param(_) => {
                self.unifier.is_assignable(&Type::Dyn, target);
                Type::Dyn
            }
            _ => {
                if !target.is_dyn_or_error() {
                    self.refuse(expr, format!("type '{target}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(result) } else { result }
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Type {
        if &*call.function == "_?._" {
            return self.optional_field(expr, call);
        }
        call.arguments.iter().for_each(|argument| self.check(argument));
        let Some(target) = &call.target else {
            return match declarations::function(&call.function) {
                Some(function) => self.resolve(expr, function, None, &call.arguments),
                None => self.undeclared(expr, &call.function),
            };
        };
        // A function in a namespace: its name contains dots.
        let qualified = target.qualified_name().map(|name| format!("{name}.{}", call.function));
        if let Some(function) = qualified.and_then(|name| declarations::function(&name)) {
            return self.resolve(expr, function, None, &call.arguments);
        }
        self.check(target);
        match declarations::function(&call.function) {
            Some(function) => self.resolve(expr, function, Some(target), &call.arguments),
            None => self.undeclared(expr, &call.function),
        }
    }

    fn optional_field(&mut self, expr: &Expr, call: &Call) -> Type {
        let [operand, field] = &call.arguments[..] else { return Type::Error };
        let ExprKind::Literal(Value::String(name)) = &field.kind else { return Type::Error };
        self.types[field.id] = Type::String;
        let found = self.field(expr, operand, name, true);
        self.unifier.substitute(&found, false)
    }

    fn resolve(&mut self, expr: &Expr, function: &'static Function, target: Option<&Expr>, rest: &[Expr]) -> Type {
        let arguments: Vec<&Expr> = target.into_iter().chain(rest).collect();
        let mut types: Vec<Type> = arguments.iter().map(|argument| self.type_of(argument)).collect();
        let mut overloads = Vec::new();
        let mut result: Option<Type> = None;
        for overload in &function.overloads {
            if overload.is_member != target.is_some() {
                continue;
            }
            if matches!(function.name, "_&&_" | "_||_") {
                return self.logical(expr, function, &arguments, &types);
            }
            let (parameters, overload_result) = self.unifier.instantiate(&overload.arguments, &overload.result);
            if !self.unifier.are_assignable(&types, &parameters) {
                continue;
            }
            overloads.push(overload);
            let found = self.unifier.substitute(&overload_result, false);
            result = Some(match result {
                None => found,
                Some(before) if before.is_dyn() || before == found => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            self.references[expr.id] = Reference::Function { function, overloads };
            return result;
        }
        for found in &mut types {
            *found = self.unifier.substitute(found, true);
        }
        let signature = signature(&types, target.is_some());
        self.refuse(expr, format!("found no matching overload for '{}' applied to '{signature}'", function.name));
        Type::Error
    }

    fn logical(&mut self, expr: &Expr, function: &'static Function, arguments: &[&Expr], types: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (argument, found) in arguments.iter().zip(types) {
            if !self.unifier.is_assignable(found, &Type::Bool) {
                self.refuse(argument, format!("expected type 'bool' but found '{found}'"));
                result = Type::Error;
            }
        }
        self.references[expr.id] = Reference::Function { function, overloads: function.overloads.iter().collect() };
        result
    }

    /// Returns the type of an element or value; that inside an optional one if it is marked as optional.
    fn element_type(&mut self, element: &Expr, optional: bool) -> Type {
        let found = self.type_of(element);
        if !optional {
            return found;
        }
        let (inner, is_optional) = found.unwrapped();
        if !is_optional && !inner.is_dyn() {
            self.refuse(element, format!("expected type 'optional_type({inner})' but found '{inner}'"));
        }
        inner.clone()
    }

    /// Returns the type that values of two types have in common.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.unifier.is_assignable(&previous, &current) => {
                unify::most_general(&previous, &current)
            }
            // Refused afterwards, but not in the arguments of `format`.
            Some(_) => Type::Dyn,
        }
    }

    fn list(&mut self, elements: &[Element]) -> Type {
        let mut of = None;
        for element in elements {
            self.check(&element.value);
            let found = self.element_type(&element.value, element.optional);
            of = Some(self.join(of, found));
        }
        Type::list(of.unwrap_or_else(|| self.unifier.new_variable()))
    }

    fn map(&mut self, entries: &[Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&entry.key);
            let found = self.type_of(&entry.key);
            keys = Some(self.join(keys, found));
            self.check(&entry.value);
            let found = self.element_type(&entry.value, entry.optional);
            values = Some(self.join(values, found));
        }
        let key = keys.unwrap_or_else(|| self.unifier.new_variable());
        Type::map(key, values.unwrap_or_else(|| self.unifier.new_variable()))
    }

    fn fold(&mut self, fold: &Fold) -> Type {
        self.check(&fold.range);
        self.check(&fold.init);
        let range = self.unifier.substitute(&self.type_of(&fold.range), false);
        let accumulator = self.type_of(&fold.init);
        let depth = self.scopes.len();
        self.scopes.push((Arc::clone(&fold.accumulator), accumulator.clone()));
        let (first, second) = self.iteration(fold, &range);
        self.scopes.push((Arc::clone(&fold.variable), first));
        if let Some(name) = &fold.second {
            self.scopes.push((Arc::clone(name), second));
        }
        self.check(&fold.condition);
        self.expect(&fold.condition, &Type::Bool);
        self.check(&fold.step);
        self.expect(&fold.step, &accumulator);
        self.scopes.truncate(depth + 1);
        self.check(&fold.result);
        self.scopes.truncate(depth);
        self.unifier.substitute(&self.type_of(&fold.result), false)
    }

    /// Returns the types of the variables of a comprehension.
    fn iteration(&mut self, fold: &Fold, range: &Type) -> (Type, Type) {
        match range {
            Type::List(element) if fold.second.is_some() => (Type::Int, Type::clone(element)),
            Type::List(element) => (Type::clone(element), Type::Error),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.unifier.is_assignable(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.refuse(&fold.range, message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn expect(&mut self, expr: &Expr, expected: &Type) {
        let found = self.type_of(expr);
        if !self.unifier.is_assignable(expected, &found) {
            self.refuse(expr, format!("expected type '{expected}' but found '{found}'"));
        }
    }
}

/// Returns how an error message shows the types of arguments.
fn signature(types: &[Type], is_member: bool) -> String {
    let (target, rest) = if is_member { types.split_at(1) } else { types.split_at(0) };
    let rest: Vec<_> = rest.iter().map(ToString::to_string).collect();
    let target: Vec<_> = target.iter().map(|target| format!("{target}.")).collect();
    format!("{}({})", target.concat(), rest.join(", "))
}

fn literal_type(value: &Value<'_>) -> Type {
    match value {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Null,
    }
}
