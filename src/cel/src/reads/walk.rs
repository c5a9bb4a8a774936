//! The walk of the analysis.

use std::sync::Arc;

use super::{Abstract, Analysis, CelReadPath, CelReads, ReadStep};
use crate::{
    ast::{CallExpr, CelExpr, CelExprKind, FoldExpr, Select},
    check::{CheckedExpression, Reference},
    environment::{Environment, Root},
    parse::ACCUMULATOR,
    value::CelValue,
};

/// The number of parts of which a value is followed; of more, everything is read.
const MOST_PATHS: usize = 64;

/// Returns what an expression reads if its value is used completely, and what that value is.
pub(crate) fn analyse(environment: &Environment, expr: &CelExpr, checked: &CheckedExpression) -> Analysis {
    let mut walker = ReadWalker { environment, checked, reads: CelReads::default(), scopes: Vec::new() };
    let result = walker.walk(expr);
    let lazy_reads = walker.reads.clone();
    walker.consume(&result);
    Analysis { reads: walker.reads, lazy_reads, result }
}

fn is_null(expr: &CelExpr) -> bool {
    matches!(expr.kind, CelExprKind::Literal(CelValue::Null))
}

struct ReadWalker<'e> {
    environment: &'e Environment,
    checked: &'e CheckedExpression,
    reads: CelReads,
    scopes: Vec<(Arc<str>, Abstract)>,
}

impl Abstract {
    fn of_root(root: Root) -> Self {
        Self { paths: [CelReadPath { root, steps: Vec::new() }].into(), elements: None }
    }

    fn list(elements: Self) -> Self {
        Self { elements: Some(Box::new(elements)), ..Self::default() }
    }

    /// Adds what another value can be.
    fn join(&mut self, other: Self) {
        self.paths.extend(other.paths);
        match (&mut self.elements, other.elements) {
            (Some(own), Some(elements)) => own.join(*elements),
            (own @ None, Some(elements)) => *own = Some(elements),
            (_, None) => {}
        }
    }

    /// Returns a field or any element of it.
    fn step(&self, step: &ReadStep) -> Self {
        let mut below = self.elements.as_deref().cloned().unwrap_or_default();
        below.paths.extend(self.paths.iter().map(|path| {
            let steps = path.steps.iter().chain([step]).cloned().collect();
            CelReadPath { root: path.root, steps }
        }));
        below
    }
}

impl ReadWalker<'_> {
    /// Records that a value is read completely.
    fn consume(&mut self, value: &Abstract) {
        if value.paths.contains(&CelReadPath { root: Root::Variables, steps: Vec::new() }) {
            for variable in self.environment.variables() {
                self.reads.extend(variable.program.reads());
            }
        }
        self.reads.whole.extend(value.paths.iter().cloned());
        if let Some(elements) = &value.elements {
            self.consume(elements);
        }
    }

    /// Records that the existence and the type of a value are read.
    fn see(&mut self, value: &Abstract) {
        self.reads.seen.extend(value.paths.iter().cloned());
    }

    /// Limits the number of parts that are followed.
    fn limited(&mut self, value: Abstract) -> Abstract {
        if value.paths.len() <= MOST_PATHS {
            return value;
        }
        self.consume(&value);
        Abstract::default()
    }

    /// Walks an expression whose value is read completely.
    fn read(&mut self, expr: &CelExpr) {
        let value = self.walk(expr);
        self.consume(&value);
    }

    fn walk(&mut self, expr: &CelExpr) -> Abstract {
        let value = match &expr.kind {
            CelExprKind::Literal(_) | CelExprKind::Struct(_) => Abstract::default(),
            CelExprKind::Ident(name) => self.name(expr, name),
            CelExprKind::Select(select) => self.select(expr, select),
            CelExprKind::Call(call) => self.call(expr, call),
            CelExprKind::List(elements) => {
                let mut all = Abstract::default();
                for element in elements {
                    all.join(self.walk(&element.value));
                }
                Abstract::list(all)
            }
            CelExprKind::Map(entries) => {
                let mut all = Abstract::default();
                for entry in entries {
                    self.read(&entry.key);
                    all.join(self.walk(&entry.value));
                }
                Abstract::list(all)
            }
            CelExprKind::Fold(fold) => self.fold(fold),
        };
        self.limited(value)
    }

    fn name(&mut self, expr: &CelExpr, name: &str) -> Abstract {
        match &self.checked.references[expr.id] {
            Reference::Variable(name) => Root::named(name).map_or_else(Abstract::default, Abstract::of_root),
            Reference::TypeName(_) => Abstract::default(),
            _ => self
                .scopes
                .iter()
                .rev()
                .find(|(known, _)| &**known == name)
                .map_or_else(Abstract::default, |(_, value)| value.clone()),
        }
    }

    fn select(&mut self, expr: &CelExpr, select: &Select) -> Abstract {
        if !matches!(self.checked.references[expr.id], Reference::Nothing) {
            return self.name(expr, &select.field);
        }
        let operand = self.walk(&select.operand);
        let field = self.field(&operand, &select.field);
        if !select.test {
            return field;
        }
        self.see(&field);
        Abstract::default()
    }

    /// Returns a field; a variable of the policy is replaced by what it is.
    fn field(&mut self, operand: &Abstract, name: &Arc<str>) -> Abstract {
        self.see(operand);
        let mut field = operand.step(&ReadStep::Field(Arc::clone(name)));
        let variables = CelReadPath { root: Root::Variables, steps: vec![ReadStep::Field(Arc::clone(name))] };
        if field.paths.remove(&variables)
            && let Some(variable) = self.environment.variable(name)
        {
            self.reads.seen.insert(variables);
            self.reads.extend(variable.program.lazy_reads());
            field.join(variable.program.result().clone());
        }
        // The existence of the part is read also if its value is not used.
        self.see(&field);
        field
    }

    fn any(&mut self, operand: &Abstract) -> Abstract {
        self.see(operand);
        // Variables of the policy that are read by a computed name.
        if operand.paths.contains(&CelReadPath { root: Root::Variables, steps: Vec::new() }) {
            for variable in self.environment.variables() {
                self.reads.extend(variable.program.reads());
            }
        }
        let any = operand.step(&ReadStep::Any);
        self.see(&any);
        any
    }

    fn index(&mut self, arguments: &[CelExpr]) -> Abstract {
        let [operand, index] = arguments else { return Abstract::default() };
        let operand = self.walk(operand);
        if let CelExprKind::Literal(CelValue::String(name)) = &index.kind {
            return self.field(&operand, &(&**name).into());
        }
        self.read(index);
        self.any(&operand)
    }

    fn call(&mut self, expr: &CelExpr, call: &CallExpr) -> Abstract {
        let function = match &self.checked.references[expr.id] {
            Reference::Function { function, .. } => function.name,
            _ => &call.function,
        };
        if let Reference::Function { overloads, .. } = &self.checked.references[expr.id] {
            self.reads.add_call(call, overloads);
        }
        let is_member = matches!(&self.checked.references[expr.id],
            Reference::Function { overloads, .. } if overloads.iter().any(|overload| overload.is_member));
        let target = call.target.iter().map(AsRef::as_ref).filter(|_| is_member);
        let arguments: Vec<&CelExpr> = target.chain(&call.arguments).collect();
        match (function, &arguments[..]) {
            ("_[_]" | "_[?_]" | "_?._", _) => self.index(&call.arguments),
            ("_?:_" | "_?_:_", [condition, yes, no]) => {
                self.read(condition);
                let mut either = self.walk(yes);
                either.join(self.walk(no));
                either
            }
            // Whether a value is null is a matter of its type.
            ("_==_" | "_!=_", [one, other]) if [one, other].iter().any(|side| is_null(side)) => {
                for side in [one, other] {
                    let value = self.walk(side);
                    self.see(&value);
                }
                Abstract::default()
            }
            ("_+_" | "or" | "orValue", [one, other]) => {
                let mut both = self.walk(one);
                both.join(self.walk(other));
                self.see(&both);
                both
            }
            ("dyn" | "optional.of" | "value", [one]) => {
                let value = self.walk(one);
                self.see(&value);
                value
            }
            ("hasValue", [one]) => {
                let value = self.walk(one);
                self.see(&value);
                Abstract::default()
            }
            ("size", [one]) => {
                let value = self.walk(one);
                self.any(&value);
                Abstract::default()
            }
            ("first" | "last", [one]) => {
                let value = self.walk(one);
                self.any(&value)
            }
            (_, arguments) => {
                for argument in arguments {
                    self.read(argument);
                }
                Abstract::default()
            }
        }
    }

    fn fold(&mut self, fold: &FoldExpr) -> Abstract {
        let range = self.walk(&fold.range);
        let element = self.any(&range);
        let depth = self.scopes.len();
        let is_collected = &*fold.accumulator == ACCUMULATOR;
        let init = self.walk(&fold.init);
        self.scopes.push((Arc::clone(&fold.accumulator), init.clone()));
        self.scopes.push((Arc::clone(&fold.variable), element.clone()));
        if let Some(name) = &fold.second {
            self.scopes.push((Arc::clone(name), element));
        }
        self.read(&fold.condition);
        let step = self.walk(&fold.step);
        self.scopes.truncate(depth + 1);
        if is_collected {
            // What a step adds to the accumulator does not depend on what the accumulator was.
            let mut accumulated = init;
            accumulated.join(step);
            self.scopes[depth].1 = accumulated;
        }
        let result = self.walk(&fold.result);
        self.scopes.truncate(depth);
        result
    }
}
