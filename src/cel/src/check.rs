//! Checks the types of expressions as the API server does, and finds the overloads that a call can have.

mod unify;
mod validators;

use std::sync::Arc;

use self::unify::TypeUnifier;
use crate::{
    ast::{CallExpr, CelExpr, CelExprKind, FoldExpr, ListElement, MapEntry, Select},
    declarations::{DeclaredFunction, FunctionOverload},
    environment::{DeclaredFieldType, Environment},
    error::CompileError,
    parse::Parsed,
    types::CelType,
    value::CelValue,
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
    Function { function: &'static DeclaredFunction, overloads: Vec<&'static FunctionOverload> },
}

/// Types and references by the ids of expressions.
pub(crate) struct CheckedExpression {
    pub(crate) types: Vec<CelType>,
    pub(crate) references: Vec<Reference>,
}

/// Checks an expression.
///
/// # Errors
/// All problems with their positions.
pub(crate) fn check(
    environment: &Environment,
    source: &str,
    parsed: &Parsed,
) -> Result<CheckedExpression, CompileError> {
    let mut checker = TypeChecker {
        environment,
        source,
        types: vec![CelType::Error; parsed.count],
        references: vec![Reference::Nothing; parsed.count],
        unifier: TypeUnifier::default(),
        scopes: Vec::new(),
        problems: Vec::new(),
    };
    checker.check(&parsed.expr);
    let TypeChecker { types, references, unifier, problems, .. } = checker;
    if let Some(problem) = CompileError::joined(problems) {
        return Err(problem);
    }
    let types = types.iter().map(|found| unifier.substitute(found, true)).collect();
    let result = CheckedExpression { types, references };
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
fn problem(source: &str, at: &CelExpr, message: String) -> CompileError {
    let (line, column) = position(source, at.offset);
    CompileError { line, column, message, more: Vec::new() }
}

struct TypeChecker<'e> {
    environment: &'e Environment,
    source: &'e str,
    types: Vec<CelType>,
    references: Vec<Reference>,
    unifier: TypeUnifier,
    /// Variables of comprehensions, the innermost last.
    scopes: Vec<(Arc<str>, CelType)>,
    problems: Vec<CompileError>,
}

impl TypeChecker<'_> {
    fn refuse(&mut self, at: &CelExpr, message: String) {
        self.problems.push(problem(self.source, at, message));
    }

    fn type_of(&self, expr: &CelExpr) -> CelType {
        self.types[expr.id].clone()
    }

    fn check(&mut self, expr: &CelExpr) {
        let found = match &expr.kind {
            CelExprKind::Literal(value) => literal_type(value),
            CelExprKind::Ident(name) => self.name(expr, name).unwrap_or_else(|| self.undeclared(expr, name)),
            CelExprKind::Select(select) => self.select(expr, select),
            CelExprKind::Call(call) => self.call(expr, call),
            CelExprKind::List(elements) => self.list(elements),
            CelExprKind::Map(entries) => self.map(entries),
            CelExprKind::Struct(name) if self.environment.name_type(name).is_none() => self.undeclared(expr, name),
            CelExprKind::Struct(name) => {
                self.refuse(expr, format!("objects of type '{name}' cannot be constructed here"));
                CelType::Error
            }
            CelExprKind::Fold(fold) => self.fold(fold),
        };
        self.types[expr.id] = found;
    }

    /// Returns the type of a variable or of the name of a type, and records the reference.
    fn name(&mut self, expr: &CelExpr, name: &str) -> Option<CelType> {
        if let Some((_, found)) = self.scopes.iter().rev().find(|(known, _)| &**known == name) {
            return Some(found.clone());
        }
        let found = self.environment.name_type(name)?;
        let reference = if matches!(found, CelType::Type(_)) { Reference::TypeName } else { Reference::Variable };
        self.references[expr.id] = reference(name.into());
        Some(found)
    }

    fn undeclared(&mut self, at: &CelExpr, name: &str) -> CelType {
        self.refuse(at, format!("undeclared reference to '{name}' (in container '')"));
        CelType::Error
    }

    fn select(&mut self, expr: &CelExpr, select: &Select) -> CelType {
        if let Some(found) = expr.qualified_name().and_then(|name| self.name(expr, &name)) {
            return found;
        }
        let found = self.field(expr, &select.operand, &select.field, false);
        if select.test { CelType::Bool } else { self.unifier.substitute(&found, false) }
    }

    fn field(&mut self, expr: &CelExpr, operand: &CelExpr, field: &str, optional: bool) -> CelType {
        self.check(operand);
        let operand = self.unifier.substitute(&self.type_of(operand), false);
        let (target, was_optional) = operand.unwrapped();
        let result = match target {
            CelType::Map(entry) => entry.1.clone(),
            CelType::Struct(name) => match self.environment.field_type(name, field) {
                DeclaredFieldType::Known(found) => found,
                DeclaredFieldType::Undefined => {
                    self.refuse(expr, format!("undefined field '{field}'"));
                    CelType::Error
                }
                DeclaredFieldType::NoFields => {
                    self.refuse(expr, format!("unexpected failed resolution of '{name}'"));
                    CelType::Error
                }
            },
            CelType::Param(_) => {
                self.unifier.is_assignable(&CelType::Dyn, target);
                CelType::Dyn
            }
            _ => {
                if !target.is_dyn_or_error() {
                    self.refuse(expr, format!("type '{target}' does not support field selection"));
                }
                CelType::Dyn
            }
        };
        if was_optional || optional { CelType::optional(result) } else { result }
    }

    fn call(&mut self, expr: &CelExpr, call: &CallExpr) -> CelType {
        if &*call.function == "_?._" {
            return self.optional_field(expr, call);
        }
        call.arguments.iter().for_each(|argument| self.check(argument));
        let Some(target) = &call.target else {
            return match self.environment.function(&call.function) {
                Some(function) => self.resolve(expr, function, None, &call.arguments),
                None => self.undeclared(expr, &call.function),
            };
        };
        // A function in a namespace: its name contains dots.
        let qualified = target.qualified_name().map(|name| format!("{name}.{}", call.function));
        if let Some(function) = qualified.and_then(|name| self.environment.function(&name)) {
            return self.resolve(expr, function, None, &call.arguments);
        }
        self.check(target);
        match self.environment.function(&call.function) {
            Some(function) => self.resolve(expr, function, Some(target), &call.arguments),
            None => self.undeclared(expr, &call.function),
        }
    }

    fn optional_field(&mut self, expr: &CelExpr, call: &CallExpr) -> CelType {
        let [operand, field] = &call.arguments[..] else { return CelType::Error };
        let CelExprKind::Literal(CelValue::String(name)) = &field.kind else { return CelType::Error };
        self.types[field.id] = CelType::String;
        let found = self.field(expr, operand, name, true);
        self.unifier.substitute(&found, false)
    }

    fn resolve(
        &mut self,
        expr: &CelExpr,
        function: &'static DeclaredFunction,
        target: Option<&CelExpr>,
        rest: &[CelExpr],
    ) -> CelType {
        let arguments: Vec<&CelExpr> = target.into_iter().chain(rest).collect();
        let mut types: Vec<CelType> = arguments.iter().map(|argument| self.type_of(argument)).collect();
        let mut overloads = Vec::new();
        let mut result: Option<CelType> = None;
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
                Some(_) => CelType::Dyn,
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
        CelType::Error
    }

    fn logical(
        &mut self,
        expr: &CelExpr,
        function: &'static DeclaredFunction,
        arguments: &[&CelExpr],
        types: &[CelType],
    ) -> CelType {
        let mut result = CelType::Bool;
        for (argument, found) in arguments.iter().zip(types) {
            if !self.unifier.is_assignable(found, &CelType::Bool) {
                self.refuse(argument, format!("expected type 'bool' but found '{found}'"));
                result = CelType::Error;
            }
        }
        self.references[expr.id] = Reference::Function { function, overloads: function.overloads.iter().collect() };
        result
    }

    /// Returns the type of an element or value; that inside an optional one if it is marked as optional.
    fn element_type(&mut self, element: &CelExpr, optional: bool) -> CelType {
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
    fn join(&mut self, previous: Option<CelType>, current: CelType) -> CelType {
        match previous {
            None => current,
            Some(previous) if self.unifier.is_assignable(&previous, &current) => {
                unify::most_general(&previous, &current)
            }
            // Refused afterwards, but not in the arguments of `format`.
            Some(_) => CelType::Dyn,
        }
    }

    fn list(&mut self, elements: &[ListElement]) -> CelType {
        let mut of = None;
        for element in elements {
            self.check(&element.value);
            let found = self.element_type(&element.value, element.optional);
            of = Some(self.join(of, found));
        }
        CelType::list(of.unwrap_or_else(|| self.unifier.new_variable()))
    }

    fn map(&mut self, entries: &[MapEntry]) -> CelType {
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
        CelType::map(key, values.unwrap_or_else(|| self.unifier.new_variable()))
    }

    fn fold(&mut self, fold: &FoldExpr) -> CelType {
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
        self.expect(&fold.condition, &CelType::Bool);
        self.check(&fold.step);
        self.expect(&fold.step, &accumulator);
        self.scopes.truncate(depth + 1);
        self.check(&fold.result);
        self.scopes.truncate(depth);
        self.unifier.substitute(&self.type_of(&fold.result), false)
    }

    /// Returns the types of the variables of a comprehension.
    fn iteration(&mut self, fold: &FoldExpr, range: &CelType) -> (CelType, CelType) {
        match range {
            CelType::List(element) if fold.second.is_some() => (CelType::Int, CelType::clone(element)),
            CelType::List(element) => (CelType::clone(element), CelType::Error),
            CelType::Map(entry) => (entry.0.clone(), entry.1.clone()),
            CelType::Dyn | CelType::Error | CelType::Param(_) => {
                self.unifier.is_assignable(&CelType::Dyn, range);
                (CelType::Dyn, CelType::Dyn)
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.refuse(&fold.range, message);
                (CelType::Error, CelType::Error)
            }
        }
    }

    fn expect(&mut self, expr: &CelExpr, expected: &CelType) {
        let found = self.type_of(expr);
        if !self.unifier.is_assignable(expected, &found) {
            self.refuse(expr, format!("expected type '{expected}' but found '{found}'"));
        }
    }
}

/// Returns how an error message shows the types of arguments.
fn signature(types: &[CelType], is_member: bool) -> String {
    let (target, rest) = if is_member { types.split_at(1) } else { types.split_at(0) };
    let rest: Vec<_> = rest.iter().map(ToString::to_string).collect();
    let target: Vec<_> = target.iter().map(|target| format!("{target}.")).collect();
    format!("{}({})", target.concat(), rest.join(", "))
}

fn literal_type(value: &CelValue<'_>) -> CelType {
    match value {
        CelValue::Bool(_) => CelType::Bool,
        CelValue::Int(_) => CelType::Int,
        CelValue::Uint(_) => CelType::Uint,
        CelValue::Double(_) => CelType::Double,
        CelValue::String(_) => CelType::String,
        CelValue::Bytes(_) => CelType::Bytes,
        _ => CelType::Null,
    }
}
