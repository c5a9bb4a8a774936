//! Traces: how far the body of a definition gets, in how many ways, and the values on the way.
//!
//! Each branch of a definition (what precedes and follows `else`) becomes a rule of its own, in a copy of its module, with
//! notes between the statements: calls that note the values of expressions and always hold. One evaluation of that rule, with
//! statements in the order in which they are written, makes a list of notes, and the list is read as a [`TracedBody`].
//!
//! - here: what is traced; `model`: what is known of it.
//! - `instrument`: the notes.
//! - `needed`: which modules are compiled for it.
//! - `parts`: the expressions in a statement whose values explain it.
//! - `read`: from the list of notes to the model.
//! - `places`: fields of the input that the conditions of a body look at.
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

use regorus::Value;

use self::instrument::{BranchPoints, Instrument};
pub(crate) use self::model::{
    StatementKind, TracedBody, TracedBranch, TracedCase, TracedPart, TracedStatement, TracedValue,
};
pub(crate) use self::needed::ModuleUses;
use super::{
    compile,
    evaluator::Evaluator,
    file::File,
    program::SourceLocation,
    references::Path,
    syntax::{Body, Module, Position, Rule, Statement},
};

/// Modules whose definitions are traced, and what they are evaluated on.
pub(crate) struct Tracer<'t> {
    pub(crate) files: &'t [File],
    /// The modules of the files, in the same order.
    pub(crate) modules: &'t [Module],
    pub(crate) uses: &'t ModuleUses,
    /// Gives the data.
    pub(crate) evaluator: &'t Evaluator,
    pub(crate) input: &'t Value,
}

impl Tracer<'_> {
    /// Traces a definition, branch by branch; `None` for what cannot be evaluated by itself, as a function cannot.
    pub(crate) fn trace(&self, definition: SourceLocation) -> Vec<Option<TracedBranch>> {
        self.definition(definition).map(|rule| self.branches(definition.module, rule, |_| None)).unwrap_or_default()
    }

    /// Returns the first and the last line of a definition.
    pub(crate) fn lines(&self, definition: SourceLocation) -> Option<(u32, u32)> {
        self.definition(definition).map(|rule| (rule.at.line, rule.last_line))
    }

    /// Returns the rule that is written at a place.
    fn definition(&self, SourceLocation { module, at }: SourceLocation) -> Option<&Rule> {
        let rules = &self.modules.get(module)?.rules;
        let on_line = rules.iter().filter(|rule| rule.at.line == at.line);
        on_line.min_by_key(|rule| rule.at.column.abs_diff(at.column))
    }

    /// Traces branches, with a statement before that of an index if there is one.
    fn branches(
        &self,
        module: usize,
        rule: &Rule,
        extra: impl Fn(&Body) -> Option<(usize, Statement)>,
    ) -> Vec<Option<TracedBranch>> {
        let branches = std::iter::once(&rule.first).chain(&rule.others);
        let traced = branches.map(|branch| {
            let body = branch.body.as_ref();
            let extra = body.and_then(&extra);
            let value = branch.value.as_ref().map(|(_, value)| value);
            // Where values cannot be noted, it is known how far it gets.
            [true, false].into_iter().find_map(|with_values| {
                let mut instrument =
                    Instrument::new((self.modules, self.uses), module, &self.files[module].text, with_values);
                let (body, points) = instrument.branch(body, value, extra.clone());
                self.run(module, rule, body, &points)
            })
        });
        traced.collect()
    }

    fn run(&self, module: usize, rule: &Rule, body: Body, points: &BranchPoints) -> Option<TracedBranch> {
        let notes = self.notes(module, rule.at, body)?;
        Some(points.read(&notes))
    }

    /// Evaluates a body as that of a rule of its own; returns what was noted, also before an error.
    fn notes(&self, module: usize, at: Position, body: Body) -> Option<Vec<super::machine::TraceNote>> {
        let mut traced = self.modules[module].clone();
        traced.rules.push(instrument::rule(at, body));
        let path: Path = traced.package_path().into_iter().chain([instrument::RULE.to_owned()]).collect();
        let needed = self.uses.needed(module).into_iter();
        let modules: Vec<&Module> =
            needed.map(|index| if index == module { &traced } else { &self.modules[index] }).collect();
        let program = compile::compile(&modules, std::iter::empty()).ok()?.plan_traced(&path);
        let rule = *program.entries.get(&path)?.as_ref().ok()?;
        Some(self.evaluator.with_program(program).run_traced(self.input, rule).1.notes)
    }
}
