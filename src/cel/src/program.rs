//! Compiled expressions.

use std::time::Instant;

use crate::{
    ast::Expr,
    bindings::Bindings,
    budget::{Budget, Meter},
    check::Checked,
    environment::Environment,
    error::{CompileError, EvalError},
    machine::{Evaluated, Machine},
    parse,
    plan::{self, Node, Planned},
    reads::{self, Abstract, Analysis, Reads},
    types::Type,
    value::Value,
};

/// The nesting up to which an expression is evaluated on the stack of the caller.
const SHALLOW: usize = 64;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    node: Node,
    slots: usize,
    depth: usize,
    output: Type,
    reads: Reads,
    lazy_reads: Reads,
    /// What the value consists of, for the reads of expressions that use it as a variable.
    result: Abstract,
}

impl Program {
    pub(crate) fn new(environment: &Environment, expr: &Expr, checked: &Checked) -> Result<Self, CompileError> {
        let planned = plan::plan(expr, checked)
            .map_err(|message| CompileError::without_position(format!("program instantiation failed: {message}")));
        let Planned { node, slots } = planned?;
        let Analysis { reads, lazy_reads, result } = reads::analyse(environment, expr, checked);
        let depth = expr.depth();
        Ok(Self { node, slots, depth, output: checked.types[expr.id].clone(), reads, lazy_reads, result })
    }

    /// Returns the type of its values.
    pub fn output_type(&self) -> &Type {
        &self.output
    }

    /// Returns the fields that an evaluation can read, including those of the variables that it uses.
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Evaluates the expression for an object.
    ///
    /// The bindings must be those of the environment that compiled it. Deeply nested expressions are evaluated on a
    /// thread of their own.
    ///
    /// # Errors
    /// An error of the expression, or the limit that was exceeded.
    pub fn evaluate<'v>(&'v self, bindings: &Bindings<'v>, budget: &mut Budget) -> Result<Value<'v>, EvalError> {
        let deadline = budget.deadline();
        let (value, cost) = if self.depth <= SHALLOW {
            self.run(bindings, deadline)
        } else {
            parse::on_large_stack(|| self.run(bindings, deadline))
                .unwrap_or_else(|message| (Err(EvalError::Failed(message.into())), 0))
        };
        let spent = budget.spend(bindings.take_cost()).and_then(|()| budget.spend(cost));
        match value {
            Err(EvalError::Deadline) => Err(EvalError::Deadline),
            value => spent.and(value),
        }
    }

    /// Returns the value and the cost, without that of variables.
    fn run<'v>(&'v self, bindings: &Bindings<'v>, deadline: Option<Instant>) -> (Evaluated<'v>, u64) {
        let mut machine = Machine::new(bindings, self.slots, Meter::new(deadline));
        let value = machine.eval(&self.node);
        (value, machine.cost())
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the fields that an evaluation reads even if its value is not used.
    pub(crate) fn lazy_reads(&self) -> &Reads {
        &self.lazy_reads
    }

    pub(crate) fn result(&self) -> &Abstract {
        &self.result
    }

    /// Returns the type that `variables.NAME` has: types with fields become dynamic.
    pub(crate) fn declared_type(&self) -> Type {
        declared(&self.output)
    }
}

fn declared(of: &Type) -> Type {
    match of {
        Type::List(element) => Type::list(declared(element)),
        Type::Map(entry) => Type::map(declared(&entry.0), declared(&entry.1)),
        Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Duration
        | Type::Timestamp
        | Type::Null => of.clone(),
        _ => Type::Dyn,
    }
}
