//! Compiled expressions.

use std::{collections::BTreeSet, time::Instant};

use crate::{
    ast::{CelExpr, CelExprKind},
    bindings::Bindings,
    budget::{Budget, Meter},
    check::{CheckedExpression, Reference},
    environment::{Environment, Root},
    error::{CompileError, EvalError},
    machine::{CelMachine, EvaluatedValue},
    parse,
    plan::{self, PlanNode, PlannedExpression},
    reads::{self, Abstract, Analysis, CelReads},
    types::CelType,
    value::CelValue,
};

/// The nesting up to which an expression is evaluated on the stack of the caller.
const SHALLOW: usize = 64;

/// The deepest nesting of an expression with the variables that it uses: a variable is evaluated inside the expression that
/// reads it first, and its value can have as many levels.
const DEEPEST: usize = 2000;

/// A compiled expression.
#[derive(Debug)]
pub struct CelProgram {
    node: PlanNode,
    slots: usize,
    /// The number of levels, including those of the variables that it uses.
    depth: usize,
    output: CelType,
    reads: CelReads,
    lazy_reads: CelReads,
    /// What the value consists of, for the reads of expressions that use it as a variable.
    result: Abstract,
    /// The variables that it names.
    roots: BTreeSet<Root>,
}

impl CelProgram {
    pub(crate) fn new(
        environment: &Environment,
        expr: &CelExpr,
        checked: &CheckedExpression,
    ) -> Result<Self, CompileError> {
        let planned = plan::plan(expr, checked)
            .map_err(|message| CompileError::without_position(format!("program instantiation failed: {message}")));
        let PlannedExpression { node, slots } = planned?;
        let Analysis { reads, lazy_reads, result } = reads::analyse(environment, expr, checked);
        let depth = depth(environment, expr);
        if depth > DEEPEST {
            let message =
                format!("the expression and the variables that it uses are nested deeper than {DEEPEST} levels");
            return Err(CompileError::without_position(message));
        }
        let roots = checked.references.iter().filter_map(|reference| match reference {
            Reference::Variable(name) => Root::named(name),
            _ => None,
        });
        let roots = roots.collect();
        Ok(Self { node, slots, depth, output: checked.types[expr.id].clone(), reads, lazy_reads, result, roots })
    }

    /// Returns the type of its values.
    pub fn output_type(&self) -> &CelType {
        &self.output
    }

    /// Returns the fields that an evaluation can read, including those of the variables that it uses.
    pub fn reads(&self) -> &CelReads {
        &self.reads
    }

    /// Whether it names a variable, even if no evaluation reads it.
    pub fn names(&self, root: Root) -> bool {
        self.roots.contains(&root)
    }

    /// Evaluates the expression for an object.
    ///
    /// The bindings must be those of the environment that compiled it. Deeply nested expressions are evaluated on a
    /// thread of their own.
    ///
    /// # Errors
    /// An error of the expression, or the limit that was exceeded.
    pub fn evaluate<'v>(&'v self, bindings: &Bindings<'v>, budget: &mut Budget) -> Result<CelValue<'v>, EvalError> {
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
    fn run<'v>(&'v self, bindings: &Bindings<'v>, deadline: Option<Instant>) -> (EvaluatedValue<'v>, u64) {
        let mut machine = CelMachine::new(bindings, self.slots, Meter::new(deadline));
        let value = machine.eval(&self.node);
        (value, machine.cost())
    }

    pub(crate) fn node(&self) -> &PlanNode {
        &self.node
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the fields that an evaluation reads even if its value is not used.
    pub(crate) fn lazy_reads(&self) -> &CelReads {
        &self.lazy_reads
    }

    pub(crate) fn result(&self) -> &Abstract {
        &self.result
    }

    /// Returns the type that `variables.NAME` has: types with fields become dynamic.
    pub(crate) fn declared_type(&self) -> CelType {
        declared(&self.output)
    }
}

/// Returns the number of levels of an expression, including those of the variables that it uses.
fn depth(environment: &Environment, expr: &CelExpr) -> usize {
    let mut below = 0;
    expr.walk(&mut |part| {
        if let CelExprKind::Select(select) = &part.kind
            && matches!(&select.operand.kind, CelExprKind::Ident(name) if **name == *Root::Variables.name())
            && let Some(variable) = environment.variable(&select.field)
        {
            below = below.max(variable.program.depth);
        }
    });
    expr.depth() + below
}

fn declared(of: &CelType) -> CelType {
    match of {
        CelType::List(element) => CelType::list(declared(element)),
        CelType::Map(entry) => CelType::map(declared(&entry.0), declared(&entry.1)),
        CelType::Bool
        | CelType::Int
        | CelType::Uint
        | CelType::Double
        | CelType::String
        | CelType::Bytes
        | CelType::Duration
        | CelType::Timestamp
        | CelType::Null => of.clone(),
        _ => CelType::Dyn,
    }
}
