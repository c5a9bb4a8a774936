//! Targets of `with`, and their replacements.

use super::Resolver;
use crate::{
    builtins::declarations,
    compile::term::{DATA, INPUT, ResolvedTerm, ResolvedValue, ResolvedWith, WithTarget, WithTargetValue},
    syntax::{self, Expr, ExprKind},
};

impl Resolver<'_> {
    pub(super) fn withs(&mut self, withs: &[syntax::With]) -> Vec<ResolvedWith> {
        self.withs_of(withs, true)
    }

    /// Resolves the targets and replacements of `with`; in an assignment, variables as targets are not `seen`.
    pub(super) fn withs_of(&mut self, withs: &[syntax::With], seen: bool) -> Vec<ResolvedWith> {
        let with = |with: &syntax::With| {
            let target = self.target(&with.target, seen);
            ResolvedWith { target, value: self.replacement(&with.value) }
        };
        withs.iter().map(with).collect()
    }

    fn target(&mut self, target: &Expr, seen: bool) -> WithTarget {
        let path = target.path();
        let first = match &target.kind {
            ExprKind::Ref(head, _) => head.as_name(),
            _ => target.as_name(),
        };
        let value = match (first, path) {
            (Some(first), _) if matches!(&**first, "data" | "input") => match self.reference(target).value {
                ResolvedValue::Ref(mut items) => {
                    if let Some(head) = items.first_mut() {
                        head.value = ResolvedValue::Variable(if &**first == "data" { DATA } else { INPUT });
                    }
                    WithTargetValue::Ref(items)
                }
                _ => WithTargetValue::Ref(vec![ResolvedTerm::variable(
                    target.at,
                    if &**first == "data" { DATA } else { INPUT },
                )]),
            },
            (Some(first), _) if self.global(first).is_some() => match self.reference(target).value {
                ResolvedValue::Ref(items) => WithTargetValue::Ref(items),
                _ => WithTargetValue::Other,
            },
            (Some(first), Some(path))
                if !self.is_variable(first) && declarations::declaration(&path.join(".")).is_some() =>
            {
                WithTargetValue::Builtin(path.join(".").into())
            }
            (Some(_), _) if seen => match self.term(target) {
                ResolvedTerm { value: ResolvedValue::Variable(variable), .. } => WithTargetValue::Variable(variable),
                _ => WithTargetValue::Other,
            },
            _ => WithTargetValue::Other,
        };
        WithTarget { at: target.at, value }
    }

    /// Resolves a replacement of `with`: a value or a function.
    fn replacement(&mut self, expr: &Expr) -> ResolvedTerm {
        if let Some(path) = expr.path()
            && self.global(&path[0]).is_none()
            && !self.is_variable(&path[0])
            && declarations::declaration(&path.join(".")).is_some()
        {
            return ResolvedTerm::new(expr.at, ResolvedValue::Builtin(path.join(".").into()));
        }
        self.term(expr)
    }
}
