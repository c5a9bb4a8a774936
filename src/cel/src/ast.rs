//! The syntax tree, with macros expanded.

use std::sync::Arc;

use crate::value::Value;

/// The index of an expression in tables by expression.
pub(crate) type ExprId = usize;

/// An expression with its position.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) id: ExprId,
    /// The offset in code points.
    pub(crate) offset: usize,
    pub(crate) kind: ExprKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ExprKind {
    Literal(Value<'static>),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(Call),
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// A message, by the name of its type; none can be constructed.
    Struct(Arc<str>),
    Fold(Box<Fold>),
}

/// A field of an operand.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    pub(crate) operand: Expr,
    pub(crate) field: Arc<str>,
    /// Whether only the existence is tested, by `has()`.
    pub(crate) test: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) function: Arc<str>,
    pub(crate) target: Option<Box<Expr>>,
    pub(crate) arguments: Vec<Expr>,
}

#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A comprehension: an accumulator is updated for each element of a range while a condition holds.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    pub(crate) variable: Arc<str>,
    /// Of comprehensions over keys and values, or indexes and elements.
    pub(crate) second: Option<Arc<str>>,
    pub(crate) accumulator: Arc<str>,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    /// Returns the dotted name that the expression spells, if it is one.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select(select) if !select.test => {
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
            ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Struct(_) => {}
            ExprKind::Select(select) => select.operand.walk(visit),
            ExprKind::Call(call) => {
                call.target.iter().map(AsRef::as_ref).chain(&call.arguments).for_each(|e| e.walk(visit));
            }
            ExprKind::List(elements) => elements.iter().for_each(|element| element.value.walk(visit)),
            ExprKind::Map(entries) => entries.iter().for_each(|entry| {
                entry.key.walk(visit);
                entry.value.walk(visit);
            }),
            ExprKind::Fold(fold) => {
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
            ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Struct(_) => 0,
            ExprKind::Select(select) => select.operand.depth(),
            ExprKind::Call(call) => below(&mut call.target.iter().map(AsRef::as_ref).chain(&call.arguments)),
            ExprKind::List(elements) => below(&mut elements.iter().map(|element| &element.value)),
            ExprKind::Map(entries) => below(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value])),
            ExprKind::Fold(fold) => {
                below(&mut [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result].into_iter())
            }
        }
    }
}
