//! Builds the model from the list of notes.

use regorus::Value;

use super::{
    instrument::{BodyPoints, BranchPoints, StatementPoints, ValuePoint},
    model::{TracedBody, TracedBranch, TracedPart, TracedStatement, TracedValue},
};
use crate::machine::TraceNote;

impl BranchPoints {
    pub(super) fn read(&self, notes: &[TraceNote]) -> TracedBranch {
        let body = self.body.read(notes);
        let value = self.value.as_ref().filter(|_| body.solutions > 0).map(|((line, last_line), parts, whole)| {
            let value = whole.first(notes).pop().map_or(Value::Undefined, |whole| whole.value);
            TracedValue { line: *line, last_line: *last_line, value, parts: parts.first(notes) }
        });
        TracedBranch { body, value }
    }
}

impl BodyPoints {
    fn read(&self, notes: &[TraceNote]) -> TracedBody {
        let counts = self.statements.iter().map(|statement| statement.before).chain([self.end]);
        let counts: Vec<(usize, u64)> = counts.map(|point| (point, count(notes, point))).collect();
        let solutions = counts.last().map_or(0, |(_, count)| *count);
        // The last notes before the first attempt that got furthest reached its end belong to that attempt.
        let furthest = counts.iter().rev().find(|(_, count)| *count > 0).map_or(self.end, |(point, _)| *point);
        let until = notes.iter().position(|note| note.point == furthest).unwrap_or(notes.len());
        let statements = self.statements.iter().zip(&counts);
        let statements = statements.map(|(points, (_, reached))| points.read(*reached, until, notes)).collect();
        TracedBody { statements, solutions }
    }
}

impl StatementPoints {
    fn read(&self, reached: u64, until: usize, notes: &[TraceNote]) -> TracedStatement {
        let mut parts = self.parts.first(notes);
        let given = self.given.first(notes).into_iter();
        parts.extend(given.filter(|given| parts.iter().all(|part| part.text != given.text)).collect::<Vec<_>>());
        TracedStatement {
            at: self.at,
            lines: self.lines,
            kind: self.kind,
            reached,
            held: self.held.last(&notes[..until]),
            hidden: self.hidden.last(&notes[..until]),
            parts,
            whole: self.whole.first(notes).pop().map(|whole| whole.value).filter(|value| *value != Value::Undefined),
            inside: self.inside(notes),
        }
    }

    /// Returns the element that ended an `every` when it was first reached, and how far the body gets with it.
    fn inside(&self, notes: &[TraceNote]) -> Option<(Vec<TracedPart>, TracedBody)> {
        let (element, body) = self.inside.as_ref()?;
        let mut reached =
            notes.iter().enumerate().filter(|(_, note)| note.point == self.before).map(|(index, _)| index);
        let first = reached.next()?;
        let own = &notes[first..reached.next().unwrap_or(notes.len())];
        let begin = element.point.or(body.statements.first().map(|statement| statement.before))?;
        let last = own.iter().rposition(|note| note.point == begin)?;
        Some((element.first(&own[last..]), body.read(&own[last..])))
    }
}

impl ValuePoint {
    /// Returns the values of the first note.
    fn first(&self, notes: &[TraceNote]) -> Vec<TracedPart> {
        self.named(notes.iter().find(|note| Some(note.point) == self.point))
    }

    /// Returns the values of the last note.
    fn last(&self, notes: &[TraceNote]) -> Vec<TracedPart> {
        self.named(notes.iter().rfind(|note| Some(note.point) == self.point))
    }

    fn named(&self, note: Option<&TraceNote>) -> Vec<TracedPart> {
        let values = note.into_iter().flat_map(|note| &note.values);
        self.texts
            .iter()
            .zip(values)
            .map(|(text, value)| TracedPart { text: text.clone(), value: value.clone() })
            .collect()
    }
}

fn count(notes: &[TraceNote], point: usize) -> u64 {
    notes.iter().filter(|note| note.point == point).count() as u64
}
