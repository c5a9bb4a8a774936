//! Macros: the expansions of the API server's environment, so that costs are the same.

use std::sync::Arc;

use super::convert::Converter;
use crate::{
    ast::{Call, Element, Expr, ExprKind, Fold, Select},
    value::Value,
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
pub(super) fn expand(converter: &mut Converter<'_>, offset: usize, call: Call) -> Expr {
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
        _ => ExprKind::Call(call),
    };
    converter.new_expr(offset, kind)
}

fn identifier(expr: &Expr) -> Option<Arc<str>> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(Arc::clone(name)),
        _ => None,
    }
}

/// Splits a call of a member into its target and arguments.
fn parts(call: Call) -> (Expr, std::vec::IntoIter<Expr>) {
    let missing = Expr { id: 0, offset: 0, kind: ExprKind::Literal(Value::Null) };
    (call.target.map_or(missing, |target| *target), call.arguments.into_iter())
}

struct Expander<'c, 'i> {
    converter: &'c mut Converter<'i>,
    offset: usize,
}

impl Expander<'_, '_> {
    fn expr(&mut self, kind: ExprKind) -> Expr {
        self.converter.new_expr(self.offset, kind)
    }

    fn literal(&mut self, value: Value<'static>) -> Expr {
        self.expr(ExprKind::Literal(value))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.expr(ExprKind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, arguments: Vec<Expr>) -> Expr {
        self.expr(ExprKind::Call(Call { function: function.into(), target: None, arguments }))
    }

    fn member(&mut self, function: &str, target: Expr, arguments: Vec<Expr>) -> Expr {
        self.expr(ExprKind::Call(Call { function: function.into(), target: Some(Box::new(target)), arguments }))
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        let elements = elements.into_iter().map(|value| Element { value, optional: false });
        let elements = elements.collect();
        self.expr(ExprKind::List(elements))
    }

    fn refuse(&mut self, at: &Expr, message: &str) -> ExprKind {
        self.converter.refuse(at.offset, message);
        ExprKind::Literal(Value::Null)
    }

    fn has(&mut self, mut call: Call) -> ExprKind {
        match call.arguments.pop() {
            Some(Expr { kind: ExprKind::Select(select), .. }) if !select.test => {
                ExprKind::Select(Box::new(Select { test: true, ..*select }))
            }
            Some(other) => self.refuse(&other, "invalid argument to has() macro"),
            None => ExprKind::Call(call),
        }
    }

    /// Returns the name of an iteration variable.
    fn variable(&mut self, expr: &Expr, otherwise: &str) -> Result<Arc<str>, ExprKind> {
        let Some(name) = identifier(expr) else { return Err(self.refuse(expr, otherwise)) };
        if matches!(&*name, ACCUMULATOR | OLD_ACCUMULATOR) {
            return Err(self.refuse(expr, "iteration variable overwrites accumulator variable"));
        }
        Ok(name)
    }

    /// Returns the names of the two iteration variables.
    fn variables(&mut self, first: &Expr, second: &Expr) -> Result<(Arc<str>, Arc<str>), ExprKind> {
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
        arguments: &mut std::vec::IntoIter<Expr>,
        pairs: bool,
        otherwise: &str,
    ) -> Result<(Arc<str>, Option<Arc<str>>), ExprKind> {
        let nothing = || ExprKind::Literal(Value::Null);
        let first = arguments.next().ok_or_else(nothing)?;
        if !pairs {
            return Ok((self.variable(&first, otherwise)?, None));
        }
        let second = arguments.next().ok_or_else(nothing)?;
        let (first, second) = self.variables(&first, &second)?;
        Ok((first, Some(second)))
    }

    fn quantifier(&mut self, function: &str, call: Call) -> ExprKind {
        let pairs = call.arguments.len() == 3;
        let (range, mut arguments) = parts(call);
        let (variable, second) = match self.take_variables(&mut arguments, pairs, NOT_SIMPLE) {
            Ok(names) => names,
            Err(refused) => return refused,
        };
        let Some(predicate) = arguments.next() else { return ExprKind::Literal(Value::Null) };
        let (init, condition, step, result) = match function {
            "all" => self.all(predicate),
            "exists" => self.exists(predicate),
            _ => self.exists_one(predicate),
        };
        fold(range, variable, second, ACCUMULATOR, init, condition, step, result)
    }

    fn all(&mut self, predicate: Expr) -> (Expr, Expr, Expr, Expr) {
        let init = self.literal(Value::Bool(true));
        let accumulator = self.accumulator();
        let condition = self.call("@not_strictly_false", vec![accumulator]);
        let accumulator = self.accumulator();
        let step = self.call("_&&_", vec![accumulator, predicate]);
        (init, condition, step, self.accumulator())
    }

    fn exists(&mut self, predicate: Expr) -> (Expr, Expr, Expr, Expr) {
        let init = self.literal(Value::Bool(false));
        let accumulator = self.accumulator();
        let negated = self.call("!_", vec![accumulator]);
        let condition = self.call("@not_strictly_false", vec![negated]);
        let accumulator = self.accumulator();
        let step = self.call("_||_", vec![accumulator, predicate]);
        (init, condition, step, self.accumulator())
    }

    fn exists_one(&mut self, predicate: Expr) -> (Expr, Expr, Expr, Expr) {
        let init = self.literal(Value::Int(0));
        let condition = self.literal(Value::Bool(true));
        let (accumulator, one) = (self.accumulator(), self.literal(Value::Int(1)));
        let increased = self.call("_+_", vec![accumulator, one]);
        let accumulator = self.accumulator();
        let step = self.call("_?_:_", vec![predicate, increased, accumulator]);
        let (accumulator, one) = (self.accumulator(), self.literal(Value::Int(1)));
        (init, condition, step, self.call("_==_", vec![accumulator, one]))
    }

    /// Builds a comprehension whose step is only done where a filter holds.
    fn collect(
        &mut self,
        range: Expr,
        names: (Arc<str>, Option<Arc<str>>),
        init: Expr,
        filter: Option<Expr>,
        step: Expr,
    ) -> ExprKind {
        let condition = self.literal(Value::Bool(true));
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
    fn append(&mut self, element: Expr) -> Expr {
        let accumulator = self.accumulator();
        let list = self.list(vec![element]);
        self.call("_+_", vec![accumulator, list])
    }

    fn map(&mut self, call: Call) -> ExprKind {
        let filtered = call.arguments.len() == 3;
        let (range, mut arguments) = parts(call);
        let names = match self.take_variables(&mut arguments, false, NOT_IDENTIFIER) {
            Ok(names) => names,
            Err(refused) => return refused,
        };
        let filter = if filtered { arguments.next() } else { None };
        let Some(transform) = arguments.next() else { return ExprKind::Literal(Value::Null) };
        let (init, step) = (self.list(Vec::new()), self.append(transform));
        self.collect(range, names, init, filter, step)
    }

    fn filter(&mut self, call: Call) -> ExprKind {
        let (range, mut arguments) = parts(call);
        let element = arguments.as_slice().first().cloned();
        let names = match self.take_variables(&mut arguments, false, NOT_IDENTIFIER) {
            Ok(names) => names,
            Err(refused) => return refused,
        };
        let (Some(element), filter) = (element, arguments.next()) else { return ExprKind::Literal(Value::Null) };
        let (init, step) = (self.list(Vec::new()), self.append(element));
        self.collect(range, names, init, filter, step)
    }

    fn transform(&mut self, function: &str, call: Call) -> ExprKind {
        let filtered = call.arguments.len() == 4;
        let (range, mut arguments) = parts(call);
        let names = match self.take_variables(&mut arguments, true, NOT_SIMPLE) {
            Ok(names) => names,
            Err(refused) => return refused,
        };
        let filter = if filtered { arguments.next() } else { None };
        let Some(transform) = arguments.next() else { return ExprKind::Literal(Value::Null) };
        if function == "transformList" {
            let (init, step) = (self.list(Vec::new()), self.append(transform));
            return self.collect(range, names, init, filter, step);
        }
        let init = self.expr(ExprKind::Map(Vec::new()));
        let mut inserted = vec![self.accumulator()];
        if function == "transformMap" {
            inserted.push(self.ident(&names.0));
        }
        inserted.push(transform);
        let step = self.call("cel.@mapInsert", inserted);
        self.collect(range, names, init, filter, step)
    }

    /// Returns a comprehension that evaluates an expression with a bound value.
    fn bound(&mut self, name: &str, value: Expr, within: Expr) -> ExprKind {
        let range = self.list(Vec::new());
        let condition = self.literal(Value::Bool(false));
        let step = self.ident(name);
        fold(range, UNUSED.into(), None, name, value, condition, step, within)
    }

    fn optional(&mut self, function: &str, call: Call) -> ExprKind {
        let (target, mut arguments) = parts(call);
        let (Some(name), Some(within)) = (arguments.next(), arguments.next()) else {
            return ExprKind::Literal(Value::Null);
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
        ExprKind::Call(Call { function: "_?_:_".into(), target: None, arguments: vec![has_value, result, none] })
    }

    fn sort_by(&mut self, call: Call) -> ExprKind {
        let (target, arguments) = parts(call);
        if matches!(target.kind, ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct(_)) {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.refuse(&target, message);
        }
        let input = self.ident(SORTED);
        let keys = Call { function: "map".into(), target: Some(Box::new(input)), arguments: arguments.collect() };
        let keys = self.map(keys);
        let keys = self.expr(keys);
        let input = self.ident(SORTED);
        let sorted = self.member("@sortByAssociatedKeys", input, vec![keys]);
        self.bound(SORTED, target, sorted)
    }

    /// Returns a copy with new ids.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copied = expr.clone();
        self.renumber(&mut copied);
        copied
    }

    fn renumber(&mut self, expr: &mut Expr) {
        expr.id = self.converter.new_expr(0, ExprKind::Literal(Value::Null)).id;
        match &mut expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Struct(_) => {}
            ExprKind::Select(select) => self.renumber(&mut select.operand),
            ExprKind::Call(call) => {
                call.target.iter_mut().for_each(|target| self.renumber(target));
                call.arguments.iter_mut().for_each(|argument| self.renumber(argument));
            }
            ExprKind::List(elements) => elements.iter_mut().for_each(|element| self.renumber(&mut element.value)),
            ExprKind::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key);
                    self.renumber(&mut entry.value);
                }
            }
            ExprKind::Fold(fold) => {
                let Fold { range, init, condition, step, result, .. } = &mut **fold;
                for part in [range, init, condition, step, result] {
                    self.renumber(part);
                }
            }
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the parts of a comprehension")]
fn fold(
    range: Expr,
    variable: Arc<str>,
    second: Option<Arc<str>>,
    accumulator: &str,
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
) -> ExprKind {
    let accumulator = accumulator.into();
    ExprKind::Fold(Box::new(Fold { range, variable, second, accumulator, init, condition, step, result }))
}
