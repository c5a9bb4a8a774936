//! Expressions as the machine evaluates them: variables have slots, constants are folded, and each call knows its
//! implementations and its cost.

mod build;
mod folds;

use std::{collections::BTreeSet, sync::Arc};

use regex::Regex;

pub(crate) use self::build::{PlannedExpression, plan};
use crate::{
    cost::CallCost,
    declarations::{DeclaredFunction, FunctionOverload},
    environment::Root,
    value::{CelValue, MapKey},
};

/// The place of a variable of a comprehension.
pub(crate) type VariableSlot = usize;

#[derive(Debug)]
pub(crate) enum PlanNode {
    Constant(CelValue<'static>),
    /// A variable, or any other value, with fields and elements of it.
    Attribute(Attribute),
    /// `has()`.
    Test(Attribute),
    And(Vec<Self>),
    Or(Vec<Self>),
    /// `==` and `!=`.
    Equality {
        negated: bool,
        sides: Box<(Self, Self)>,
    },
    Call(Box<Call>),
    /// `in` with a constant list.
    Member {
        element: Box<Self>,
        set: BTreeSet<MapKey<'static>>,
    },
    /// Elements, and whether each is optional.
    List(Vec<(Self, bool)>),
    /// Keys, values, and whether each is optional.
    Map(Vec<(Self, Self, bool)>),
    /// `or` and `orValue`.
    OrElse {
        unwrap: bool,
        sides: Box<(Self, Self)>,
    },
    Quantifier(Box<Quantifier>),
    Collect(Box<Collect>),
    Fold(Box<Fold>),
}

/// A value with qualifiers.
#[derive(Debug, Clone)]
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Qualifier>,
}

impl Attribute {
    /// Adds a qualifier; a condition passes it on to both branches.
    fn add(&mut self, qualifier: Qualifier) {
        // Nothing else has a reference to the branches while an expression is planned.
        let branches = match &mut self.base {
            Base::Conditional(parts) => Arc::get_mut(parts),
            _ => None,
        };
        match branches {
            Some((_, yes, no)) => {
                yes.add(qualifier.clone());
                no.add(qualifier);
            }
            None => self.qualifiers.push(qualifier),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Base {
    Root(Root),
    /// A variable of a comprehension; `take` if nothing reads it afterwards.
    Local {
        slot: VariableSlot,
        take: bool,
    },
    Node(Arc<PlanNode>),
    /// A condition and its two branches, which have the qualifiers.
    Conditional(Arc<(PlanNode, Attribute, Attribute)>),
}

/// A field or an index.
#[derive(Debug, Clone)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    /// Whether a missing value makes the result `optional.none()`.
    pub(crate) optional: bool,
    /// Whether only the existence is tested.
    pub(crate) test: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum QualifierKey {
    Field(Arc<str>),
    Constant(CelValue<'static>),
    Attribute(Arc<Attribute>),
    Node(Arc<PlanNode>),
}

pub(crate) struct Call {
    pub(crate) function: &'static DeclaredFunction,
    /// The overload, if only one is possible.
    pub(crate) overload: Option<&'static FunctionOverload>,
    pub(crate) arguments: Vec<PlanNode>,
    /// Whether arguments after one that fails are not evaluated.
    pub(crate) stops_early: bool,
    pub(crate) cost: CallCost,
    /// A constant pattern.
    pub(crate) regex: Option<Regex>,
    /// Whether the size of the result has to be limited.
    pub(crate) is_limited: bool,
    /// Whether the implementation checks the types of its arguments itself.
    pub(crate) is_unguarded: bool,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("function", &self.function.name)
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

/// `all` and `exists`.
#[derive(Debug)]
pub(crate) struct Quantifier {
    pub(crate) range: PlanNode,
    pub(crate) slots: Slots,
    pub(crate) predicate: PlanNode,
    /// Whether it is `exists`.
    pub(crate) exists: bool,
}

/// `map`, `filter` and `transformList`.
#[derive(Debug)]
pub(crate) struct Collect {
    pub(crate) range: PlanNode,
    pub(crate) slots: Slots,
    pub(crate) filter: Option<PlanNode>,
    pub(crate) element: PlanNode,
}

/// Every other comprehension.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: PlanNode,
    pub(crate) slots: Slots,
    pub(crate) accumulator: VariableSlot,
    pub(crate) init: PlanNode,
    pub(crate) condition: PlanNode,
    pub(crate) step: PlanNode,
    pub(crate) result: PlanNode,
}

/// The slots of the variables of a comprehension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    pub(crate) first: VariableSlot,
    pub(crate) second: Option<VariableSlot>,
}
