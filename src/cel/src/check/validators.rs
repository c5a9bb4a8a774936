//! Checks of constants after the check of types: durations, timestamps, regular expressions, formats, and lists and maps
//! of several types.

use super::{CheckedExpression, problem};
use crate::{
    ast::{CelExpr, CelExprKind},
    error::CompileError,
    library,
    types::CelType,
    value::CelValue,
};

/// The functions with arguments of any types.
const EXEMPT: [&str; 2] = ["format", "cel.@block"];

pub(super) fn validate(source: &str, expr: &CelExpr, checked: &CheckedExpression) -> Vec<CompileError> {
    let mut validator = Validator { source, checked, problems: Vec::new() };
    expr.walk(&mut |inner| validator.call(inner));
    validator.aggregates(expr);
    validator.problems
}

struct Validator<'c> {
    source: &'c str,
    checked: &'c CheckedExpression,
    problems: Vec<CompileError>,
}

impl<'c> Validator<'c> {
    fn refuse(&mut self, at: &CelExpr, message: String) {
        self.problems.push(problem(self.source, at, message));
    }

    fn call(&mut self, expr: &CelExpr) {
        let CelExprKind::Call(call) = &expr.kind else { return };
        let Some(first) = call.arguments.first() else { return };
        if let CelExprKind::Literal(value) = &first.kind {
            let is_valid = match &*call.function {
                "duration" => library::convert::to_duration(value).is_ok(),
                "timestamp" => library::convert::to_timestamp(value).is_ok(),
                // The first argument, also where that is the text.
                "matches" => value.as_str().is_none_or(|pattern| library::regex::compile(pattern).is_ok()),
                _ => return,
            };
            if !is_valid {
                self.refuse(first, format!("invalid {} argument", call.function));
            }
        }
        if &*call.function == "format"
            && let (Some(target), CelExprKind::List(elements)) = (&call.target, &first.kind)
            && let CelExprKind::Literal(CelValue::String(text)) = &target.kind
        {
            let arguments: Vec<&CelExpr> = elements.iter().map(|element| &element.value).collect();
            if let Err(wrong) = library::format::check(text, &arguments, &self.checked.types) {
                self.refuse(wrong.0.unwrap_or(expr), wrong.1);
            }
        }
    }

    /// Checks that the elements of each list, and the keys and values of each map, have one type.
    fn aggregates(&mut self, expr: &CelExpr) {
        match &expr.kind {
            CelExprKind::Call(call) => {
                if EXEMPT.contains(&&*call.function) {
                    return;
                }
                call.target.iter().map(AsRef::as_ref).chain(&call.arguments).for_each(|inner| self.aggregates(inner));
            }
            CelExprKind::List(elements) => {
                let mut first: Option<&CelType> = None;
                for element in elements {
                    let found = self.element_type(&element.value, element.optional);
                    if self.differs(&element.value, &mut first, found) {
                        break;
                    }
                }
                for element in elements {
                    self.aggregates(&element.value);
                }
            }
            CelExprKind::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for entry in entries {
                    let (key, value) = (&entry.key, &entry.value);
                    let found = self.element_type(key, false);
                    self.differs(key, &mut keys, found);
                    let found = self.element_type(value, entry.optional);
                    self.differs(value, &mut values, found);
                }
                for entry in entries {
                    self.aggregates(&entry.key);
                    self.aggregates(&entry.value);
                }
            }
            CelExprKind::Select(select) => self.aggregates(&select.operand),
            CelExprKind::Fold(fold) => {
                for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                    self.aggregates(part);
                }
            }
            CelExprKind::Literal(_) | CelExprKind::Ident(_) | CelExprKind::Struct(_) => {}
        }
    }

    /// Records a problem if a type is not the first one.
    fn differs(&mut self, at: &CelExpr, first: &mut Option<&'c CelType>, found: &'c CelType) -> bool {
        match first {
            None => *first = Some(found),
            Some(expected) if *expected != found => {
                self.refuse(at, format!("expected type '{expected}' but found '{found}'"));
                return true;
            }
            Some(_) => {}
        }
        false
    }

    fn element_type(&self, element: &CelExpr, optional: bool) -> &'c CelType {
        let found = &self.checked.types[element.id];
        if optional { found.unwrapped().0 } else { found }
    }
}
