//! Why a definition is not true: the first statement that did not hold, and the values of its parts. `kaudit test` explains
//! failed tests with it, `kaudit explain` the rules of policies.

pub(super) mod masking;
pub(super) mod show;

use serde::Serialize;

use self::masking::SecretMask;
use crate::rego::{
    File,
    trace::{StatementKind, TracedBody, TracedBranch, TracedPart, TracedStatement, TracedValue},
};

/// The first statement of a definition that did not hold, and the values in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The file that it is in.
    pub file: String,
    /// Its first line.
    pub line: u32,
    /// What is wrong with it: `is false`, `is undefined`.
    pub reason: String,
    /// The statement, on one line.
    pub code: String,
    /// The values of its parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<NamedValue>,
}

/// A part of a statement and its value, as Rego.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedValue {
    /// The part as it is written.
    pub name: String,
    /// Its value, cut if it is long; `undefined` if it has none.
    pub value: String,
}

/// Explains traces of definitions in one file.
#[derive(Clone, Copy)]
pub(crate) struct Explainer<'e> {
    /// The name of the file, as results show it.
    pub(crate) file: &'e str,
    /// Its source.
    pub(crate) text: &'e str,
    /// The strings that are hidden.
    pub(crate) mask: Option<&'e SecretMask>,
}

impl<'e> From<&'e File> for Explainer<'e> {
    fn from(file: &'e File) -> Self {
        Self { file: &file.shown, text: &file.text, mask: None }
    }
}

impl Explainer<'_> {
    /// Explains why a definition is not true; `None` if nothing is found.
    pub(crate) fn explain(&self, branches: &[Option<TracedBranch>]) -> Option<Explanation> {
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
    pub(crate) fn failed(&self, body: &TracedBody) -> Option<Explanation> {
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
    pub(crate) fn add(&self, parts: &[TracedPart], values: &mut Vec<NamedValue>) {
        for part in parts {
            let name = show::code(&part.text);
            if values.iter().all(|known| known.name != name) {
                values.push(NamedValue { name, value: show::value(&part.value, self.mask) });
            }
        }
    }
}
