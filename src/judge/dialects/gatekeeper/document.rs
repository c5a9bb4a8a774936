//! A Gatekeeper object among the policies, and how its problems and positions are reported.

use std::sync::Arc;

use super::node::{At, YamlNode};
use crate::{
    judge::unjudged::Unjudged,
    model::verdict::Source,
    rego::{File, Problem, ProblemSeverity},
};

/// One document of a file.
pub(crate) struct GatekeeperDocument<'f> {
    pub(crate) file: &'f File,
    pub(crate) node: YamlNode,
    /// Whether the same directory or one above contains a test suite.
    pub(crate) example: bool,
}

impl GatekeeperDocument<'_> {
    pub(crate) fn name(&self) -> &str {
        self.node.at(&["metadata", "name"]).text().unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.node.get("kind").text().unwrap_or_default()
    }

    /// Returns the API group and the kind.
    pub(crate) fn type_of(&self) -> (&str, &str) {
        let version = self.node.get("apiVersion").text().unwrap_or_default();
        (version.split_once('/').map_or("", |(group, _)| group), self.kind())
    }

    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.kind(), self.name()).trim_end().to_owned()
    }

    pub(crate) fn problem(&self, node: &YamlNode, message: impl Into<String>) -> Problem {
        self.problem_at(node.at, message)
    }

    pub(crate) fn problem_at(&self, at: At, message: impl Into<String>) -> Problem {
        Problem::refused(&self.file.shown, message).at(&self.file.text, at.line, at.column)
    }

    /// Returns the problem of a Constraint whose template is refused.
    pub(crate) fn left_out(&self, template: &Self) -> Problem {
        let message = format!(
            "left out: {} uses {} of {}, which is not loaded",
            self.label(),
            template.label(),
            template.file.shown
        );
        Problem { line: self.node.at.line, ..Problem::left_out(&self.file.shown, message) }
    }

    /// Returns a problem of the whole document, without an excerpt: its first line would explain nothing.
    pub(crate) fn whole(&self, message: impl Into<String>) -> Problem {
        Problem { line: self.node.at.line, ..Problem::refused(&self.file.shown, message) }
    }

    pub(crate) fn source(&self) -> Source {
        Source { file: Arc::clone(&self.file.shown), line: self.node.at.line }
    }

    pub(crate) fn unjudged(&self, reason: impl Into<String>) -> Unjudged {
        Unjudged { name: self.label(), reason: reason.into(), source: self.source(), controls: Vec::new() }
    }
}

/// Turns a problem into a warning.
pub(crate) fn warning(problem: Problem) -> Problem {
    Problem { severity: ProblemSeverity::Warning, ..problem }
}
