//! Macros: the expansions of the API server's environment, so that costs are the same.

use std::sync::Arc;

use super::convert::Converter;
use crate::{
    ast::{CallExpr, CelExpr, CelExprKind, FoldExpr, ListElement, Select},
    value::CelValue,
};

/// The accumulator of comprehensions; no variable can have this name.
pub(crate) const ACCUMULATOR: &str = "@result";
const OLD_ACCUMULATOR: &str = "__result__";
/// The variable of comprehensions that only bind a value.
const UNUSED: &str = "#unused";
const SORTED: &str = "@__sortBy_input__";
/// Of problems of macros with one variable, and with two.
const NOT_SIMPLE: &str = "argument must be a simple name";
const NOT_IDENTIFIER: &str = "argument is not an identifier";

/// Expands a call that is a macro; returns others as they are.
pub(super) fn expand(converter: &mut Converter<'_>, offset: usize, call: CallExpr) -> CelExpr {
    let mut expander = Expander { converter, offset };
    let function = Arc::clone(&call.function);
    let kind = match (&*function, call.target.is_some(), call.arguments.len()) {
        ("has", false, 1) => expander.has(call),
        ("all" | "exists" | "exists_one", true, 2 | 3) | ("existsOne", true, 3) => expander.quantifier(&function, call),
        ("map", true, 2 | 3) => expander.map(call),
        ("filter", true, 2) => expander.filter(call),
        ("transformList" | "transformMap" | "transformMapEntry", true, 3 | 4) => expander.transform(&function, call),
        ("optMap" | "optFlatMap", true, 2) => expander.optional(&function, call),
        ("sortBy", true, 2) => expander.sort_by(call),
        _ => CelExprKind::Call(call),
    };
    converter.new_expr(offset, kind)
}

fn identifier(expr: &CelExpr) -> Option<Arc<str>> {
    match &expr.kind {
        CelExprKind::Ident(name) => Some(Arc::clone(name)),
        _ => None,
    }
}

/// Splits a call of a member into its target and arguments.
fn parts(call: CallExpr) -> (CelExpr, std::vec::IntoIter<CelExpr>) {
    let missing = CelExpr { id: 0, offset: 0, kind: CelExprKind::Literal(CelValue::Null) };
    (call.target.map_or(missing, |target| *target), call.arguments.into_iter())
}

struct Expander<'c, 'i> {
    converter: &'c mut Converter<'i>,
    offset: usize,
}

impl Expander<'_, '_> {
    fn expr(&mut self, kind: CelExprKind) -> CelExpr {
        self.converter.new_expr(self.offset, kind)
    }

    fn literal(&mut self, value: CelValue<'static>) -> CelExpr {
        self.expr(CelExprKind::Literal(value))
    }

    fn ident(&mut self, name: &str) -> CelExpr {
        self.expr(CelExprKind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> CelExpr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, arguments: Vec<CelExpr>) -> CelExpr {
        self.expr(CelExprKind::Call(CallExpr { function: function.into(), target: None, arguments }))
    }

    fn member(&mut self, function: &str, target: CelExpr, arguments: Vec<CelExpr>) -> CelExpr {
        self.expr(CelExprKind::Call(CallExpr { function: function.into(), target: Some(Box::new(target)), arguments }))
    }

    fn list(&mut self, elements: Vec<CelExpr>) -> CelExpr {
        let elements = elements.into_iter().map(|value| ListElement { value, optional: false });
        let elements = elements.collect();
        self.expr(CelExprKind::List(elements))
    }

    fn refuse(&mut self, at: &CelExpr, message: &str) -> CelExprKind {
        self.converter.refuse(at.offset, message);
        CelExprKind::Literal(CelValue::Null)
    }

    fn has(&mut self, mut call: CallExpr) -> CelExprKind {
        match call.arguments.pop() {
            Some(CelExpr { kind: CelExprKind::Select(select), .. }) if !select.test => {
                CelExprKind::Select(Box::new(Select { test: true, ..*select }))
            }
            Some(other) => self.refuse(&other, "invalid argument to has() macro"),
            None => CelExprKind::Call(call),
        }
    }

    /// Returns the name of an iteration variable.
    fn variable(&mut self, expr: &CelExpr, otherwise: &str) -> Result<Arc<str>, CelExprKind> {
        let Some(name) = identifier(expr) else { return Err(self.refuse(expr, otherwise)) };
        if matches!(&*name, ACCUMULATOR | OLD_ACCUMULATOR) {
            return Err(self.refuse(expr, "iteration variable overwrites accumulator variable"));
        }
        Ok(name)
    }

    /// Returns the names of the two iteration variables.
    fn variables(&mut self, first: &CelExpr, second: &CelExpr) -> Result<(Arc<str>, Arc<str>), CelExprKind> {
        for expr in [first, second] {
            if identifier(expr).is_none() {
                return Err(self.refuse(expr, NOT_SIMPLE));
            }
        }
        if let (Some(one), Some(other)) = (identifier(first), identifier(second))
            && one == other
        {
            return Err(self.refuse(second, &format!("duplicate variable name: {one}")));
        }
        Ok((self.variable(first, NOT_SIMPLE)?, self.variable(second, NOT_SIMPLE)?))
    }

    /// Takes the iteration variables from the arguments: two if `pairs`.
    fn take_variables(
        &mut self,
        arguments: &mut std::vec::IntoIter<CelExpr>,
        pairs: bool,
        otherwise: &str,
    ) -> Result<(Arc<str>, Option<Arc<str>>), CelExprKind> {
        let nothing = || CelExprKind::Literal(CelValue::Null);
        let first = arguments.next().ok_or_else(nothing)?;
        if !pairs {
            return Ok((self.variable(&first, otherwise)?, None));
        }
        let second = arguments.next().ok_or_else(nothing)?;
        let (first, second) = self.variables(&first, &second)?;
        Ok((first, Some(second)))
    }

    fn quantifier(&mut self, function: &str, call: CallExpr) -> CelExprKind {
        let pairs = call.arguments.len() == 3;
        let (range, mut arguments) = parts(call);
        let (variable, second) = match self.take_variables(&mut arguments, pairs, NOT_SIMPLE) {
            Ok(names) => names,
            Err(refused) => return refused,
        };
        let Some(predicate) = arguments.next() else { return CelExprKind::Literal(CelValue::Null) };
        let (init, condition, step, result) = match function {
            "all" => self.all(predicate),
            "exists" => self.exists(predicate),
            _ => self.exists_one(predicate),
        };
        fold(range, variable, second, ACCUMULATOR, init, condition, step, result)
    }

    fn all(&mut self, predicate: CelExpr) -> (CelExpr, CelExpr, CelExpr, CelExpr) {
        let init = self.literal(CelValue::Bool(true));
        let accumulator = self.accumulator();
        let condition = self.call("@not_strictly_false", vec![accumulator]);
        let accumulator = self.accumulator();
        let step = self.call("_&&_", vec![accumulator, predicate]);
        (init, condition, step, self.accumulator())
    }

    fn exists(&mut self, predicate: CelExpr) -> (CelExpr, CelExpr, CelExpr, CelExpr) {
        let init = self.literal(CelValue::Bool(false));
        let accumulator = self.accumulator();
        let negated = self.call("!_", vec![accumulator]);
        let condition = self.call("@not_strictly_false", vec![negated]);
        let accumulator = self.accumulator();
        let step = self.call("_||_", vec![accumulator, predicate]);
        (init, condition, step, self.accumulator())
    }

    fn exists_one(&mut self, predicate: CelExpr) -> (CelExpr, CelExpr, CelExpr, CelExpr) {
        let init = self.literal(CelValue::Int(0));
        let condition = self.literal(CelValue::Bool(true));
        let (accumulator, one) = (self.accumulator(), self.literal(CelValue::Int(1)));
        let increased = self.call("_+_", vec![accumulator, one]);
        let accumulator = self.accumulator();
        let step = self.call("_?_:_", vec![predicate, increased, accumulator]);
        let (accumulator, one) = (self.accumulator(), self.literal(CelValue::Int(1)));
        (init, condition, step, self.call("_==_", vec![accumulator, one]))
    }

    /// Builds a comprehension whose step is only done where a filter holds.
    fn collect(
        &mut self,
        range: CelExpr,
        names: (Arc<str>, Option<Arc<str>>),
        init: CelExpr,
        filter: Option<CelExpr>,
        step: CelExpr,
    ) -> CelExprKind {
        let condition = self.literal(CelValue::Bool(true));
        let step = match filter {
            Some(filter) => {
                let accumulator = self.accumulator();
                self.call("_?_:_", vec![filter, step, accumulator])
            }
            None => step,
        };
        let result = self.accumulator();
        fold(range, names.0, names.1, ACCUMULATOR, init, condition, step, result)
    }

    /// Returns the step that appends an element.
    fn append(&mut self, element: CelExpr) -> CelExpr {
        let accumulator = self.accumulator();
        let list = self.list(vec![element]);
        self.call("_+_", vec![accumulator, list])
    }

    fn map(&mut self, call: CallExpr) -> CelExprKind {
        let filtered = call.arguments.len() == 3;
        let (range, mut arguments) = parts(call);
        let names = match self.take_variables(&mut arguments, false, NOT_IDENTIFIER) {
            Ok(names) => names,
            Err(refused) => return refused,
        };
        let filter = if filtered { arguments.next() } else { None };
        let Some(transform) = arguments.next() else { return CelExprKind::Literal(CelValue::Null) };
        let (init, step) = (self.list(Vec::new()), self.append(transform));
        self.collect(range, names, init, filter, step)
    }

    fn filter(&mut self, call: CallExpr) -> CelExprKind {
        let (range, mut arguments) = parts(call);
        let element = arguments.as_slice().first().cloned();
        let names = match self.take_variables(&mut arguments, false, NOT_IDENTIFIER) {
            Ok(names) => names,
            Err(refused) => return refused,
        };
        let (Some(element), filter) = (element, arguments.next()) else { return CelExprKind::Literal(CelValue::Null) };
        let (init, step) = (self.list(Vec::new()), self.append(element));
        self.collect(range, names, init, filter, step)
    }

    fn transform(&mut self, function: &str, call: CallExpr) -> CelExprKind {
        let filtered = call.arguments.len() == 4;
        let (range, mut arguments) = parts(call);
        let names = match self.take_variables(&mut arguments, true, NOT_SIMPLE) {
            Ok(names) => names,
            Err(refused) => return refused,
        };
        let filter = if filtered { arguments.next() } else { None };
        let Some(transform) = arguments.next() else { return CelExprKind::Literal(CelValue::Null) };
        if function == "transformList" {
            let (init, step) = (self.list(Vec::new()), self.append(transform));
            return self.collect(range, names, init, filter, step);
        }
        let init = self.expr(CelExprKind::Map(Vec::new()));
        let mut inserted = vec![self.accumulator()];
        if function == "transformMap" {
            inserted.push(self.ident(&names.0));
        }
        inserted.push(transform);
        let step = self.call("cel.@mapInsert", inserted);
        self.collect(range, names, init, filter, step)
    }

    /// Returns a comprehension that evaluates an expression with a bound value.
    fn bound(&mut self, name: &str, value: CelExpr, within: CelExpr) -> CelExprKind {
        let range = self.list(Vec::new());
        let condition = self.literal(CelValue::Bool(false));
        let step = self.ident(name);
        fold(range, UNUSED.into(), None, name, value, condition, step, within)
    }

    fn optional(&mut self, function: &str, call: CallExpr) -> CelExprKind {
        let (target, mut arguments) = parts(call);
        let (Some(name), Some(within)) = (arguments.next(), arguments.next()) else {
            return CelExprKind::Literal(CelValue::Null);
        };
        let Some(variable) = identifier(&name) else {
            return self.refuse(&name, &format!("{function}() variable name must be a simple identifier"));
        };
        let again = self.copy(&target);
        let has_value = self.member("hasValue", target, Vec::new());
        let value = self.member("value", again, Vec::new());
        let bound = self.bound(&variable, value, within);
        let mut result = self.expr(bound);
        if function == "optMap" {
            result = self.call("optional.of", vec![result]);
        }
        let none = self.call("optional.none", Vec::new());
        CelExprKind::Call(CallExpr { function: "_?_:_".into(), target: None, arguments: vec![has_value, result, none] })
    }

    fn sort_by(&mut self, call: CallExpr) -> CelExprKind {
        let (target, arguments) = parts(call);
        if matches!(target.kind, CelExprKind::Literal(_) | CelExprKind::Map(_) | CelExprKind::Struct(_)) {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.refuse(&target, message);
        }
        let input = self.ident(SORTED);
        let keys = CallExpr { function: "map".into(), target: Some(Box::new(input)), arguments: arguments.collect() };
        let keys = self.map(keys);
        let keys = self.expr(keys);
        let input = self.ident(SORTED);
        let sorted = self.member("@sortByAssociatedKeys", input, vec![keys]);
        self.bound(SORTED, target, sorted)
    }

    /// Returns a copy with new ids.
    fn copy(&mut self, expr: &CelExpr) -> CelExpr {
        let mut copied = expr.clone();
        self.renumber(&mut copied);
        copied
    }

    fn renumber(&mut self, expr: &mut CelExpr) {
        expr.id = self.converter.new_expr(0, CelExprKind::Literal(CelValue::Null)).id;
        match &mut expr.kind {
            CelExprKind::Literal(_) | CelExprKind::Ident(_) | CelExprKind::Struct(_) => {}
            CelExprKind::Select(select) => self.renumber(&mut select.operand),
            CelExprKind::Call(call) => {
                call.target.iter_mut().for_each(|target| self.renumber(target));
                call.arguments.iter_mut().for_each(|argument| self.renumber(argument));
            }
            CelExprKind::List(elements) => elements.iter_mut().for_each(|element| self.renumber(&mut element.value)),
            CelExprKind::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key);
                    self.renumber(&mut entry.value);
                }
            }
            CelExprKind::Fold(fold) => {
                let FoldExpr { range, init, condition, step, result, .. } = &mut **fold;
                for part in [range, init, condition, step, result] {
                    self.renumber(part);
                }
            }
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the parts of a comprehension")]
fn fold(
    range: CelExpr,
    variable: Arc<str>,
    second: Option<Arc<str>>,
    accumulator: &str,
    init: CelExpr,
    condition: CelExpr,
    step: CelExpr,
    result: CelExpr,
) -> CelExprKind {
    let accumulator = accumulator.into();
    CelExprKind::Fold(Box::new(FoldExpr { range, variable, second, accumulator, init, condition, step, result }))
}
