//! Plans comprehensions.

use std::sync::Arc;

use super::{Collect, Fold, PlanNode, Quantifier, Slots, build::Planner};
use crate::{
    ast::{self, CelExpr, CelExprKind},
    parse::ACCUMULATOR,
};

/// The element that a step appends to the accumulator, and the condition for it.
struct Appended<'e> {
    filter: Option<&'e CelExpr>,
    element: &'e CelExpr,
}

impl Planner<'_> {
    pub(super) fn fold(&mut self, fold: &ast::FoldExpr) -> Result<PlanNode, String> {
        let range = self.node(&fold.range)?;
        if let Some((predicate, exists)) = predicate(fold) {
            let (slots, predicate) = self.inside(fold, |planner| planner.node(predicate))?;
            return Ok(PlanNode::Quantifier(Box::new(Quantifier { range, slots, predicate, exists })));
        }
        if let Some(appended) = appended(fold) {
            let (slots, (filter, element)) = self.inside(fold, |planner| {
                let filter = appended.filter.map(|filter| planner.node(filter)).transpose()?;
                Ok((filter, planner.node(appended.element)?))
            })?;
            return Ok(PlanNode::Collect(Box::new(Collect { range, slots, filter, element })));
        }
        let init = self.node(&fold.init)?;
        let accumulator = self.new_slot();
        self.scopes.push((Arc::clone(&fold.accumulator), accumulator));
        let (slots, (condition, step)) = self.inside(fold, |planner| {
            let outer = std::mem::replace(&mut planner.takes, false);
            let condition = planner.node(&fold.condition)?;
            planner.takes = true;
            let step = planner.node(&fold.step)?;
            planner.takes = outer;
            Ok((condition, step))
        })?;
        let result = self.node(&fold.result)?;
        self.scopes.pop();
        Ok(PlanNode::Fold(Box::new(Fold { range, slots, accumulator, init, condition, step, result })))
    }

    /// Plans a part in which the variables of a comprehension are known.
    fn inside<T>(
        &mut self,
        fold: &ast::FoldExpr,
        plan: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<(Slots, T), String> {
        let depth = self.scopes.len();
        let first = self.new_slot();
        self.scopes.push((Arc::clone(&fold.variable), first));
        let second = fold.second.as_ref().map(|name| {
            let slot = self.new_slot();
            self.scopes.push((Arc::clone(name), slot));
            slot
        });
        let planned = plan(self);
        self.scopes.truncate(depth);
        Ok((Slots { first, second }, planned?))
    }
}

fn is_accumulator(expr: &CelExpr) -> bool {
    matches!(&expr.kind, CelExprKind::Ident(name) if &**name == ACCUMULATOR)
}

/// Returns the arguments of a call of an operator.
fn arguments<'e>(expr: &'e CelExpr, function: &str) -> Option<&'e [CelExpr]> {
    match &expr.kind {
        CelExprKind::Call(call) if &*call.function == function && call.target.is_none() => Some(&call.arguments),
        _ => None,
    }
}

/// Returns the predicate of `all` or `exists`, and whether it is `exists`.
fn predicate(fold: &ast::FoldExpr) -> Option<(&CelExpr, bool)> {
    if &*fold.accumulator != ACCUMULATOR {
        return None;
    }
    [("_&&_", false), ("_||_", true)].into_iter().find_map(|(operator, exists)| {
        match arguments(&fold.step, operator)? {
            [accumulator, predicate] if is_accumulator(accumulator) => Some((predicate, exists)),
            _ => None,
        }
    })
}

/// Returns what `map`, `filter` and `transformList` append.
fn appended(fold: &ast::FoldExpr) -> Option<Appended<'_>> {
    if &*fold.accumulator != ACCUMULATOR {
        return None;
    }
    let (filter, step) = match arguments(&fold.step, "_?_:_") {
        Some([filter, step, _]) => (Some(filter), step),
        _ => (None, &fold.step),
    };
    let [accumulator, list] = arguments(step, "_+_")? else { return None };
    let CelExprKind::List(elements) = &list.kind else { return None };
    let [element] = &elements[..] else { return None };
    is_accumulator(accumulator).then_some(Appended { filter, element: &element.value })
}
