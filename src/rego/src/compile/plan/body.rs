//! Sequences of statements: each step that iterates has the steps after it as its block.

use std::collections::BTreeMap;

use super::{PlanKind, Planned, ProgramPlanner, unsupported};
use crate::{
    builtins::{Callee, declarations},
    compile::{
        calls,
        term::{
            Function, ResolvedCall, ResolvedEvery, ResolvedStatement, ResolvedStatementKind, ResolvedTerm,
            ResolvedValue, Variable,
        },
    },
    constant::Constant,
    program::{Block, ComparisonOperator, Operand, ProgramStep, Register, SourceLocation, UnsupportedFeature},
    syntax::Position,
};

/// A body while it is planned.
pub(super) struct BodyPlanner<'p, 'a> {
    pub(super) planner: &'p mut ProgramPlanner<'a>,
    module: usize,
    at: Position,
    /// The operands that hold the values of variables.
    pub(super) variables: BTreeMap<Variable, Operand>,
    registers: usize,
    /// The steps of each nesting level, and the iteration around them.
    levels: Vec<(Option<Opener>, Vec<ProgramStep>)>,
}

/// A step that iterates, without its block.
enum Opener {
    Each { operand: Operand, key: Register, value: Register },
    Walk { operand: Operand, path: Register, value: Register },
}

impl<'p, 'a> BodyPlanner<'p, 'a> {
    /// Starts a body; the first registers hold the arguments.
    pub(super) fn new(planner: &'p mut ProgramPlanner<'a>, module: usize, arity: usize) -> Self {
        let at = super::START.at;
        Self { planner, module, at, variables: BTreeMap::new(), registers: arity, levels: vec![(None, Vec::new())] }
    }

    pub(super) fn parameters(&mut self, parameters: &[ResolvedTerm]) -> Planned<()> {
        for (register, parameter) in parameters.iter().enumerate() {
            self.at = parameter.at;
            self.bind(parameter, &Operand::Register(register))?;
        }
        Ok(())
    }

    /// Finishes a body; returns its block and the number of its registers.
    pub(super) fn finish(mut self, last: ProgramStep) -> (Block, usize) {
        (close(&mut self.levels, last), self.registers)
    }

    pub(super) fn unsupported(&self, reason: impl Into<String>) -> UnsupportedFeature {
        unsupported(self.location(self.at), reason)
    }

    /// Returns a location in the module of the body.
    pub(super) fn location(&self, at: Position) -> SourceLocation {
        SourceLocation { module: self.module, at }
    }

    pub(super) fn register(&mut self) -> Register {
        self.registers += 1;
        self.registers - 1
    }

    pub(super) fn push(&mut self, step: ProgramStep) {
        if let Some((_, steps)) = self.levels.last_mut() {
            steps.push(step);
        }
    }

    /// Puts all further steps into a loop over the elements; returns key and value.
    pub(super) fn each(&mut self, operand: Operand) -> (Operand, Operand) {
        let (key, value) = (self.register(), self.register());
        self.levels.push((Some(Opener::Each { operand, key, value }), Vec::new()));
        (Operand::Register(key), Operand::Register(value))
    }

    /// Plans statements as a block of their own, which sees the variables around it. `last` returns its last step.
    pub(super) fn inner(
        &mut self,
        statements: &[ResolvedStatement],
        last: impl FnOnce(&mut Self) -> Planned<ProgramStep>,
    ) -> Planned<Block> {
        let variables = self.variables.clone();
        let levels = std::mem::replace(&mut self.levels, vec![(None, Vec::new())]);
        for statement in statements.iter().filter(|statement| !statement.erased) {
            self.statement(statement)?;
        }
        let last = last(self)?;
        let mut own = std::mem::replace(&mut self.levels, levels);
        self.variables = variables;
        Ok(close(&mut own, last))
    }

    /// Adds a step that records that a location is evaluated, if coverage is measured.
    pub(super) fn reached(&mut self, at: Position) {
        if self.planner.kind == PlanKind::Covered {
            self.push(ProgramStep::Reached(self.location(at)));
        }
    }

    pub(super) fn statement(&mut self, statement: &ResolvedStatement) -> Planned<()> {
        self.at = statement.at;
        self.reached(statement.at);
        if !statement.with.is_empty() {
            return self.with(statement);
        }
        if statement.negated {
            let plain = ResolvedStatement { negated: false, ..statement.clone() };
            let block = self.inner(std::slice::from_ref(&plain), |_| Ok(found()))?;
            self.push(ProgramStep::Not(block));
            return Ok(());
        }
        match &statement.kind {
            ResolvedStatementKind::Term(term) => {
                let operand = self.operand(term)?;
                self.push(ProgramStep::Test(operand));
                Ok(())
            }
            ResolvedStatementKind::Unify(left, right) => self.unify(left, right),
            ResolvedStatementKind::Call(call) => self.call(call),
            ResolvedStatementKind::Every(every) => self.every(every),
            ResolvedStatementKind::Not(inner) => {
                let block = self.inner(inner, |_| Ok(found()))?;
                self.push(ProgramStep::Not(block));
                Ok(())
            }
        }
    }

    fn every(&mut self, every: &ResolvedEvery) -> Planned<()> {
        let operand = self.operand(&every.domain)?;
        let (key, value) = (self.register(), self.register());
        let before = self.variables.clone();
        self.variables.extend(every.key.map(|variable| (variable, Operand::Register(key))));
        self.variables.insert(every.value, Operand::Register(value));
        let block = self.inner(&every.body, |_| Ok(found()))?;
        self.variables = before;
        self.push(ProgramStep::Every { operand, key, value, block });
        Ok(())
    }

    /// Plans a `print`, or a note at a point of a trace.
    fn note(&mut self, call: &ResolvedCall) -> Planned<()> {
        let (point, arguments) = match call.arguments.split_first() {
            Some((ResolvedTerm { value: ResolvedValue::Constant(Constant::Number(point)), .. }, others))
                if calls::is_note(call) =>
            {
                (point.0.parse().ok(), others)
            }
            _ => (None, call.arguments.as_slice()),
        };
        let arguments = self.operands(arguments)?.into();
        self.push(ProgramStep::Note { point, arguments });
        Ok(())
    }

    fn call(&mut self, call: &ResolvedCall) -> Planned<()> {
        if calls::is_print(call) || calls::is_note(call) {
            return self.note(call);
        }
        let arity = match &call.function {
            Function::Builtin(name) => match declarations::declaration(name) {
                Some(declaration) if !declaration.is_variadic() => declaration.arity,
                _ => return Err(self.unsupported(format!("the builtin {name}"))),
            },
            Function::Rule(_) | Function::Unknown(_) => usize::MAX,
        };
        match &call.function {
            Function::Builtin(name) if &**name == "walk" => self.walk(call),
            Function::Builtin(name) => {
                let (arguments, result) = call.arguments.split_at(arity.min(call.arguments.len()));
                let is_replaced = self.planner.replaced.contains(name);
                if let ("equal" | "eq", [left, right], [], false) = (&**name, arguments, result, is_replaced) {
                    return self.unify(left, right);
                }
                let operands = self.operands(arguments)?;
                if let (Some(by), [left, right], false) =
                    (ComparisonOperator::of(name), operands.as_slice(), is_replaced)
                {
                    let (left, right) = (left.clone(), right.clone());
                    return self.with_result(result, |into| ProgramStep::Compare { by, left, right, into });
                }
                let Some(callee) = Callee::find(name) else {
                    return Err(self.unsupported(format!("the builtin {name}")));
                };
                let (arguments, at) = (operands.into(), self.location(self.at));
                self.with_result(result, |into| ProgramStep::Call { callee, arguments, into, at })
            }
            Function::Rule(path) => {
                let tree = self.planner.tree;
                let Some(node) = tree.at(path).filter(|node| !node.rules.is_empty()) else {
                    return Err(self.unsupported("a missing function"));
                };
                let function = self.planner.rule(node)?;
                let arity = self.planner.program.rules[function.0].arity;
                let (arguments, result) = call.arguments.split_at(arity.min(call.arguments.len()));
                let arguments = self.operands(arguments)?.into();
                self.with_result(result, |into| ProgramStep::Invoke { function, arguments, into })
            }
            Function::Unknown(name) => Err(self.unsupported(format!("the function {name}"))),
        }
    }

    /// Adds a call; an argument after its parameters is unified with its value.
    fn with_result(
        &mut self,
        result: &[ResolvedTerm],
        step: impl FnOnce(Option<Register>) -> ProgramStep,
    ) -> Planned<()> {
        let Some(result) = result.first() else {
            self.push(step(None));
            return Ok(());
        };
        let into = self.register();
        self.push(step(Some(into)));
        self.bind(result, &Operand::Register(into))
    }

    /// Plans `walk(x, [path, value])`.
    fn walk(&mut self, call: &ResolvedCall) -> Planned<()> {
        let Some((operand, found)) = call.arguments.split_first() else {
            return Err(self.unsupported("`walk` without an argument"));
        };
        let operand = self.operand(operand)?;
        let (path, value) = (self.register(), self.register());
        self.levels.push((Some(Opener::Walk { operand, path, value }), Vec::new()));
        // As a condition, it holds once for each value.
        found.first().map_or(Ok(()), |found| self.bind_pair(found, &Operand::Register(path), &Operand::Register(value)))
    }

    pub(super) fn operands(&mut self, terms: &[ResolvedTerm]) -> Planned<Vec<Operand>> {
        terms.iter().map(|term| self.operand(term)).collect()
    }
}

/// Returns the last step of a block that only has to hold.
pub(super) fn found() -> ProgramStep {
    ProgramStep::Yield { keys: Box::default(), value: Operand::Constant(regorus::Value::Bool(true)) }
}

/// Nests each level into the iteration around it.
fn close(levels: &mut Vec<(Option<Opener>, Vec<ProgramStep>)>, last: ProgramStep) -> Block {
    let mut last = last;
    while let Some((opener, mut steps)) = levels.pop() {
        steps.push(last);
        let block: Block = steps.into();
        last = match opener {
            Some(Opener::Each { operand, key, value }) => {
                ProgramStep::Each { operand, key, value, block, filter: None }
            }
            Some(Opener::Walk { operand, path, value }) => ProgramStep::Walk { operand, path, value, block },
            None => return block,
        };
    }
    Box::new([last])
}
