//! The trace of each body of a rule: the statements that hold, with their values, and the first that does not.

use serde::Serialize;

use crate::{
    commands::explainer::{Explainer, Explanation, NamedValue},
    rego::trace::{TracedBody, TracedBranch},
};

/// One body of a definition.
#[derive(Debug, Serialize)]
pub(super) struct ShownBody {
    /// In how many ways all of it holds; `None` if that could not be evaluated.
    pub(super) holds: Option<u64>,
    /// The statements that hold, with the values of the first way.
    pub(super) statements: Vec<ShownStatement>,
    /// The first statement that does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<Explanation>,
}

/// One statement.
#[derive(Debug, Serialize)]
pub(super) struct ShownStatement {
    /// Its last line.
    pub(super) line: u32,
    pub(super) values: Vec<NamedValue>,
}

/// Returns what is shown of a branch of a definition; `None` if it has no conditions.
pub(super) fn body(explainer: Explainer<'_>, branch: Option<&TracedBranch>) -> Option<ShownBody> {
    let Some(branch) = branch else { return Some(ShownBody { holds: None, statements: Vec::new(), failed: None }) };
    let body = &branch.body;
    if body.statements.is_empty() {
        return None;
    }
    let failed = if body.solutions > 0 { None } else { explainer.failed(body) };
    Some(ShownBody { holds: Some(body.solutions), statements: statements(explainer, body), failed })
}

fn statements(explainer: Explainer<'_>, body: &TracedBody) -> Vec<ShownStatement> {
    let passed = body.statements.iter().take(body.passed());
    let shown = passed.map(|statement| {
        let mut values = Vec::new();
        explainer.add(&statement.held, &mut values);
        // All of these statements hold: `true` adds nothing to that.
        let is_plain = |name: &str| name.chars().all(|c| c.is_alphanumeric() || "_.".contains(c));
        values.retain(|named| named.value != "true" || is_plain(&named.name));
        ShownStatement { line: statement.lines.1, values }
    });
    shown.collect()
}
