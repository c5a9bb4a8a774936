//! Values recorded while a program runs.

use std::collections::BTreeSet;

use regorus::Value;

use crate::{builtins, program::SourceLocation};

/// The most notes that are kept.
const MOST_NOTES: usize = 100_000;
/// The most lines of `print` that are kept.
const MOST_LINES: usize = 10_000;

/// Everything that was recorded during an evaluation.
#[derive(Debug, Default)]
pub struct Trace {
    /// The recorded values, in the order of evaluation.
    pub(crate) notes: Vec<TraceNote>,
    /// Whether notes beyond the limit were dropped.
    pub(crate) is_cut: bool,
    /// The lines printed by `print`.
    pub prints: Vec<String>,
    /// The evaluated locations, if the program records them.
    pub reached: BTreeSet<SourceLocation>,
}

/// The values of expressions at a point of a trace.
#[derive(Debug)]
pub(crate) struct TraceNote {
    pub(crate) point: usize,
    /// The first value of each expression; `Undefined` if there is none.
    pub(crate) values: Vec<Value>,
}

impl Trace {
    /// Adds collections of values at a point, or the lines of a `print`.
    pub(super) fn add(&mut self, point: Option<usize>, given: Vec<Value>) {
        match point {
            Some(point) if self.notes.len() < MOST_NOTES => {
                self.notes.push(TraceNote { point, values: given.into_iter().map(first).collect() });
            }
            Some(_) => self.is_cut = true,
            None => print(&given, &mut self.prints),
        }
    }
}

/// Returns the first value of a collection.
fn first(collection: Value) -> Value {
    match collection {
        Value::Array(items) => items.first().cloned().unwrap_or(Value::Undefined),
        constant => constant,
    }
}

/// Adds a line for each combination of values, as OPA does.
fn print(given: &[Value], lines: &mut Vec<String>) {
    let mut made = vec![String::new()];
    for (index, argument) in given.iter().enumerate() {
        let texts: Vec<String> = match argument {
            Value::Set(values) if values.is_empty() => vec!["<undefined>".to_owned()],
            Value::Set(values) => values.iter().map(builtins::plain).collect(),
            constant => vec![builtins::plain(constant)],
        };
        let separator = if index == 0 { "" } else { " " };
        let all = made.iter().flat_map(|line| texts.iter().map(move |text| format!("{line}{separator}{text}")));
        made = all.take(MOST_LINES).collect();
    }
    lines.extend(made.into_iter().take(MOST_LINES.saturating_sub(lines.len())));
}
