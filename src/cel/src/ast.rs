//! The syntax tree, with macros expanded.

use std::sync::Arc;

use crate::value::CelValue;

/// The index of an expression in tables by expression.
pub(crate) type ExprId = usize;

/// An expression with its position.
#[derive(Debug, Clone)]
pub(crate) struct CelExpr {
    pub(crate) id: ExprId,
    /// The offset in code points.
    pub(crate) offset: usize,
    pub(crate) kind: CelExprKind,
}

#[derive(Debug, Clone)]
pub(crate) enum CelExprKind {
    Literal(CelValue<'static>),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(CallExpr),
    List(Vec<ListElement>),
    Map(Vec<MapEntry>),
    /// A message, by the name of its type; none can be constructed.
    Struct(Arc<str>),
    Fold(Box<FoldExpr>),
}

/// A field of an operand.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    pub(crate) operand: CelExpr,
    pub(crate) field: Arc<str>,
    /// Whether only the existence is tested, by `has()`.
    pub(crate) test: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct CallExpr {
    pub(crate) function: Arc<str>,
    pub(crate) target: Option<Box<CelExpr>>,
    pub(crate) arguments: Vec<CelExpr>,
}

#[derive(Debug, Clone)]
pub(crate) struct ListElement {
    pub(crate) value: CelExpr,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct MapEntry {
    pub(crate) key: CelExpr,
    pub(crate) value: CelExpr,
    pub(crate) optional: bool,
}

/// A comprehension: an accumulator is updated for each element of a range while a condition holds.
#[derive(Debug, Clone)]
pub(crate) struct FoldExpr {
    pub(crate) range: CelExpr,
    pub(crate) variable: Arc<str>,
    /// Of comprehensions over keys and values, or indexes and elements.
    pub(crate) second: Option<Arc<str>>,
    pub(crate) accumulator: Arc<str>,
    pub(crate) init: CelExpr,
    pub(crate) condition: CelExpr,
    pub(crate) step: CelExpr,
    pub(crate) result: CelExpr,
}

impl CelExpr {
    /// Returns the dotted name that the expression spells, if it is one.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            CelExprKind::Ident(name) => Some(name.to_string()),
            CelExprKind::Select(select) if !select.test => {
                let mut name = select.operand.qualified_name()?;
                name.push('.');
                name.push_str(&select.field);
                Some(name)
            }
            _ => None,
        }
    }

    /// Calls a function for this expression and those below it, parents first.
    pub(crate) fn walk<'e>(&'e self, visit: &mut impl FnMut(&'e Self)) {
        visit(self);
        match &self.kind {
            CelExprKind::Literal(_) | CelExprKind::Ident(_) | CelExprKind::Struct(_) => {}
            CelExprKind::Select(select) => select.operand.walk(visit),
            CelExprKind::Call(call) => {
                call.target.iter().map(AsRef::as_ref).chain(&call.arguments).for_each(|e| e.walk(visit));
            }
            CelExprKind::List(elements) => elements.iter().for_each(|element| element.value.walk(visit)),
            CelExprKind::Map(entries) => entries.iter().for_each(|entry| {
                entry.key.walk(visit);
                entry.value.walk(visit);
            }),
            CelExprKind::Fold(fold) => {
                for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                    part.walk(visit);
                }
            }
        }
    }

    /// Returns the number of levels.
    pub(crate) fn depth(&self) -> usize {
        let below = |list: &mut dyn Iterator<Item = &Self>| list.map(Self::depth).max().unwrap_or(0);
        1 + match &self.kind {
            CelExprKind::Literal(_) | CelExprKind::Ident(_) | CelExprKind::Struct(_) => 0,
            CelExprKind::Select(select) => select.operand.depth(),
            CelExprKind::Call(call) => below(&mut call.target.iter().map(AsRef::as_ref).chain(&call.arguments)),
            CelExprKind::List(elements) => below(&mut elements.iter().map(|element| &element.value)),
            CelExprKind::Map(entries) => below(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value])),
            CelExprKind::Fold(fold) => {
                below(&mut [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result].into_iter())
            }
        }
    }
}
