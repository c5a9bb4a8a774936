//! Traces: how far evaluation gets in the body of a definition, in how many attempts, and the intermediate values.
//!
//! An attempt is one combination of values for the variables. Each branch of a definition (the parts before and after
//! `else`) becomes a rule of its own, in a copy of its module, with notes between the statements: calls that record the
//! values of expressions and always hold. Statements are first put into evaluation order. One evaluation of the rule
//! produces a list of notes, from which a [`TracedBody`] is built.
//!
//! - here: compiling and running the traced rule; `model`: the results.
//! - `instrument`: the notes.
//! - `needed`: the modules that are compiled with it.
//! - `parts`: the expressions in a statement whose values explain it.
//! - `read`: from the list of notes to the model.
//! - `places`: the fields of the input that the conditions of a body read.
//! - `table`: the cases of tests that are tables.

mod instrument;
mod model;
mod needed;
mod parts;
mod places;
mod read;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;

use self::instrument::Instrument;
pub use self::model::{StatementKind, TracedBody, TracedBranch, TracedCase, TracedPart, TracedStatement, TracedValue};
pub use self::needed::ModuleUses;
use super::{
    compile::{self, Compiled, Fault},
    evaluator::Evaluator,
    file::File,
    machine::TraceNote,
    program::SourceLocation,
    references::Path,
    syntax::{Expr, Module, Position, Statement, SyntaxBody, SyntaxRule},
};
pub use crate::machine::Trace;

/// Modules whose definitions are traced, and the data and input of the evaluations.
pub struct Tracer<'t> {
    /// The files of the modules.
    pub files: &'t [File],
    /// The modules of the files, in the same order.
    pub modules: &'t [Module],
    /// The modules that each of them needs.
    pub uses: &'t ModuleUses,
    /// The evaluator with the data.
    pub evaluator: &'t Evaluator,
    /// The input of the evaluations.
    pub input: &'t Value,
}

impl Tracer<'_> {
    /// Traces a definition, branch by branch; `None` if it cannot be evaluated by itself, as for a function.
    pub fn trace(&self, definition: SourceLocation) -> Vec<Option<TracedBranch>> {
        self.definition(definition).map(|rule| self.branches(definition.module, rule, |_| None)).unwrap_or_default()
    }

    /// Returns the first and the last line of a definition.
    pub fn lines(&self, definition: SourceLocation) -> Option<(u32, u32)> {
        self.definition(definition).map(|rule| (rule.at.line, rule.last_line))
    }

    /// Returns the rule at a location.
    fn definition(&self, SourceLocation { module, at }: SourceLocation) -> Option<&SyntaxRule> {
        let rules = &self.modules.get(module)?.rules;
        let on_line = rules.iter().filter(|rule| rule.at.line == at.line);
        on_line.min_by_key(|rule| rule.at.column.abs_diff(at.column))
    }

    /// Traces branches, with the extra statement inserted before the given index, if there is one.
    fn branches(
        &self,
        module: usize,
        rule: &SyntaxRule,
        extra: impl Fn(&SyntaxBody) -> Option<(usize, Statement)>,
    ) -> Vec<Option<TracedBranch>> {
        let branches = std::iter::once(&rule.first).chain(&rule.others);
        let traced = branches.map(|branch| {
            let value = branch.value.as_ref().map(|(_, value)| value);
            self.branch(module, rule.at, branch.body.clone(), value, &extra)
        });
        traced.collect()
    }

    fn branch(
        &self,
        module: usize,
        at: Position,
        mut body: Option<SyntaxBody>,
        value: Option<&Expr>,
        extra: &impl Fn(&SyntaxBody) -> Option<(usize, Statement)>,
    ) -> Option<TracedBranch> {
        let mut without_values = BTreeSet::new();
        let mut is_ordered = false;
        loop {
            let mut instrument =
                Instrument::new((self.modules, self.uses), module, &self.files[module].text, &without_values);
            let (noted, points) = instrument.branch(body.as_ref(), value, body.as_ref().and_then(extra));
            match self.compile(module, at, noted) {
                Ok(compiled) => {
                    let order = compiled.statement_order(&self.path(module));
                    if !is_ordered && body.as_mut().is_some_and(|body| reorder(body, &order)) {
                        is_ordered = true;
                        continue;
                    }
                    return self.run(module, &compiled).map(|notes| points.read(&notes));
                }
                // Where values cannot be noted, the trace still shows how far evaluation gets.
                Err(faults) => {
                    let places = body.iter().flatten().map(|statement| statement.at).chain(value.map(|value| value.at));
                    let places: BTreeSet<Position> = places.collect();
                    let wrong = faults.iter().filter_map(|fault| places.range(..=fault.at).next_back().copied());
                    let before = without_values.len();
                    without_values.extend(wrong);
                    if without_values.len() == before {
                        return None;
                    }
                }
            }
        }
    }

    /// Returns the path of the traced rule.
    fn path(&self, module: usize) -> Path {
        self.modules[module].package_path().into_iter().chain([instrument::RULE.to_owned()]).collect()
    }

    /// Compiles a body as a rule of its own.
    fn compile(&self, module: usize, at: Position, body: SyntaxBody) -> Result<Compiled, Vec<Fault>> {
        let mut traced = self.modules[module].clone();
        traced.rules.push(instrument::rule(at, body));
        let needed = self.uses.needed(module).into_iter();
        let modules: Vec<&Module> =
            needed.map(|index| if index == module { &traced } else { &self.modules[index] }).collect();
        compile::compile(&modules, std::iter::empty())
    }

    /// Evaluates the traced rule; returns all notes, also those before an error, but `None` if there were too many.
    fn run(&self, module: usize, compiled: &Compiled) -> Option<Vec<TraceNote>> {
        let path = self.path(module);
        let program = compiled.plan_traced(&path);
        let rule = *program.entries.get(&path)?.as_ref().ok()?;
        let trace = self.evaluator.with_program(program).run_traced(self.input, rule).1;
        (!trace.is_cut).then_some(trace.notes)
    }
}

/// Puts statements into the evaluation order of the given positions; returns whether the order changed.
fn reorder(body: &mut SyntaxBody, order: &[Position]) -> bool {
    let places: BTreeSet<Position> = body.iter().map(|statement| statement.at).collect();
    let mut ranks: BTreeMap<Position, usize> = BTreeMap::new();
    for (rank, at) in order.iter().enumerate() {
        if let Some(statement) = places.range(..=*at).next_back() {
            ranks.insert(*statement, rank);
        }
    }
    let mut last = 0;
    // A declaration is not evaluated, and keeps its place.
    let keys: Vec<usize> = body
        .iter()
        .map(|statement| {
            last = ranks.get(&statement.at).copied().unwrap_or(last);
            last
        })
        .collect();
    if keys.is_sorted() {
        return false;
    }
    let mut keyed: Vec<(usize, Statement)> = keys.into_iter().zip(std::mem::take(body)).collect();
    keyed.sort_by_key(|(rank, _)| *rank);
    body.extend(keyed.into_iter().map(|(_, statement)| statement));
    true
}
