//! The results of a trace.

use regorus::Value;

use crate::syntax::Position;

/// One branch of a definition.
#[derive(Debug)]
pub struct TracedBranch {
    /// How far evaluation of its body gets.
    pub body: TracedBody,
    /// The value of the head in the first solution; `None` if the head has no value, or the body does not hold.
    pub value: Option<TracedValue>,
}

/// Statements in evaluation order.
#[derive(Debug, Default)]
pub struct TracedBody {
    /// The statements.
    pub statements: Vec<TracedStatement>,
    /// The number of attempts in which all of them hold.
    pub solutions: u64,
}

/// One statement.
#[derive(Debug)]
pub struct TracedStatement {
    /// Where it begins.
    pub(super) at: Position,
    /// Its first and last line, from 1.
    pub lines: (u32, u32),
    /// The kind of the statement.
    pub kind: StatementKind,
    /// The number of attempts that reached it.
    pub reached: u64,
    /// The values of its parts when it holds, in the first of the attempts that got furthest.
    pub held: Vec<TracedPart>,
    /// The values that are not shown, by the text of the expression.
    pub(super) hidden: Vec<TracedPart>,
    /// The values of its parts in the first attempt that reached it.
    pub parts: Vec<TracedPart>,
    /// Its own value in that attempt.
    pub whole: Option<Value>,
    /// For an `every`: the element for which the body does not hold.
    pub inside: Option<(Vec<TracedPart>, TracedBody)>,
}

/// The kind of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// `some x`
    Declaration,
    /// `some x in xs`
    Iteration,
    /// `every x in xs { … }`
    Every,
    /// `x := y` and `x = y`
    Assignment,
    /// Any other condition.
    Condition,
    /// `not …`
    Negation,
}

/// The source text of an expression, and its value; `Undefined` if it has none.
#[derive(Debug, Clone)]
pub struct TracedPart {
    /// The expression.
    pub text: String,
    /// Its value.
    pub value: Value,
}

/// The value of a head.
#[derive(Debug)]
pub struct TracedValue {
    /// The first line of the value, from 1.
    pub line: u32,
    /// The last line of the value, from 1.
    pub last_line: u32,
    /// The value.
    pub value: Value,
    /// The values of its parts.
    pub parts: Vec<TracedPart>,
}

impl TracedBranch {
    /// Calls `visit` for each value that an explanation may show.
    pub fn each_value(&self, visit: &mut dyn FnMut(&Value)) {
        self.body.each_value(visit);
        if let Some(TracedValue { value, parts, .. }) = &self.value {
            visit(value);
            values(parts).for_each(visit);
        }
    }
}

impl TracedBody {
    fn each_value(&self, visit: &mut dyn FnMut(&Value)) {
        for statement in &self.statements {
            values(&statement.held).chain(values(&statement.parts)).for_each(&mut *visit);
            if let Some((element, body)) = &statement.inside {
                values(element).for_each(&mut *visit);
                body.each_value(visit);
            }
        }
    }

    /// Returns the number of leading statements that hold together.
    pub fn passed(&self) -> usize {
        let after = self.statements.iter().skip(1).map(|statement| statement.reached).chain([self.solutions]);
        after.take_while(|reached| *reached > 0).count()
    }
}

fn values(parts: &[TracedPart]) -> impl Iterator<Item = &Value> {
    parts.iter().map(|part| &part.value)
}

/// A case of a table: the values of the keys after the name of the test.
pub type TracedCase = Vec<Value>;
