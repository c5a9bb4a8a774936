//! Why a test failed: the first statement that did not hold, and the values of its parts.

use super::{
    masking::SecretMask,
    result::{Explanation, NamedValue},
    show,
};
use crate::rego::{
    File,
    trace::{StatementKind, TracedBody, TracedBranch, TracedPart, TracedStatement, TracedValue},
};

/// Explains traces of definitions in one file.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Explainer<'e> {
    /// The name of the file, as results show it.
    pub(in crate::commands) file: &'e str,
    /// Its source.
    pub(in crate::commands) text: &'e str,
    /// The strings that are hidden.
    pub(in crate::commands) mask: Option<&'e SecretMask>,
}

impl<'e> From<&'e File> for Explainer<'e> {
    fn from(file: &'e File) -> Self {
        Self { file: &file.shown, text: &file.text, mask: None }
    }
}

impl Explainer<'_> {
    /// Explains why a definition is not true; `None` if nothing is found.
    pub(super) fn explain(&self, branches: &[Option<TracedBranch>]) -> Option<Explanation> {
        let mut first = None;
        for branch in branches.iter().flatten() {
            if branch.body.solutions > 0 {
                // The body holds, so its value is what is wrong.
                return branch.value.as_ref().map(|value| self.value(value));
            }
            first = first.or_else(|| self.failed(&branch.body));
        }
        first
    }

    /// Explains the first statement after which no solution is left; `None` if there is none.
    pub(in crate::commands) fn failed(&self, body: &TracedBody) -> Option<Explanation> {
        let statement = body.statements.get(body.passed())?;
        let inside = statement.inside.as_ref().and_then(|(element, body)| {
            let mut found = self.failed(body)?;
            self.add(element, &mut found.values);
            Some(found)
        });
        inside.or_else(|| (statement.reached > 0).then(|| self.statement(statement)))
    }

    fn statement(&self, statement: &TracedStatement) -> Explanation {
        let mut reason = match (statement.kind, &statement.whole) {
            (StatementKind::Negation, Some(_)) => "does not hold: the negated expression is true",
            (StatementKind::Iteration, _) => "finds nothing",
            (_, Some(_)) => "is false",
            (_, None) => "is undefined",
        }
        .to_owned();
        if statement.reached > 1 {
            reason = format!("{reason} for all {} solutions before it; values of the first:", statement.reached);
        }
        self.explanation(statement.lines, reason, &statement.parts)
    }

    /// Explains a value that is not true.
    fn value(&self, value: &TracedValue) -> Explanation {
        let reason = match &value.value {
            regorus::Value::Undefined => "is undefined".to_owned(),
            other => format!("is {}", show::value(other, self.mask)),
        };
        self.explanation((value.line, value.last_line), reason, &value.parts)
    }

    fn explanation(&self, (first, last): (u32, u32), reason: String, parts: &[TracedPart]) -> Explanation {
        let (skip, count) = (first.saturating_sub(1) as usize, (last.saturating_sub(first) + 1) as usize);
        let written = self.text.lines().skip(skip).take(count).collect::<Vec<_>>().join(" ");
        let mut values = Vec::new();
        self.add(parts, &mut values);
        Explanation { file: self.file.to_owned(), line: first, reason, code: show::code(&written), values }
    }

    /// Adds the values of parts.
    pub(in crate::commands) fn add(&self, parts: &[TracedPart], values: &mut Vec<NamedValue>) {
        for part in parts {
            let name = show::code(&part.text);
            if values.iter().all(|known| known.name != name) {
                values.push(NamedValue { name, value: show::value(&part.value, self.mask) });
            }
        }
    }
}
