//! Problems of policy files: what is wrong, where, and how to fix it.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    file::{Declared, File, FileText},
    limits::Version,
    syntax::{self, SyntaxError},
};

/// The effect of a problem on loading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemSeverity {
    /// The file is not loaded until the problem is fixed.
    Refused,
    /// The file is not loaded because it uses a refused one.
    LeftOut,
    /// The file is loaded nevertheless.
    Warning,
}

/// One problem of one file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// Line, from 1; 0 for the whole file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line: u32,
    /// Column, from 1; 0 for the whole line.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub column: u32,
    /// The effect on loading the file.
    pub severity: ProblemSeverity,
    /// The description of the problem.
    pub message: String,
    /// How to fix it; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub help: String,
    /// The source line; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
}

impl Problem {
    /// Whether the file is not loaded.
    pub fn is_refusal(&self) -> bool {
        self.severity != ProblemSeverity::Warning
    }

    /// Returns the location as `file:line:column`, as far as it is known.
    pub fn place(&self) -> String {
        match (self.line, self.column) {
            (0, _) => self.file.to_string(),
            (line, 0) => format!("{}:{line}", self.file),
            (line, column) => format!("{}:{line}:{column}", self.file),
        }
    }

    /// Returns a problem of a refused file.
    pub fn refused(file: &Arc<str>, message: impl Into<String>) -> Self {
        Self {
            file: Arc::clone(file),
            line: 0,
            column: 0,
            severity: ProblemSeverity::Refused,
            message: message.into(),
            help: String::new(),
            excerpt: String::new(),
        }
    }

    /// Returns the problem of a module that cannot be parsed.
    pub fn unreadable(file: &File, error: &SyntaxError) -> Self {
        if let Some(Declared { version: Version::V0, by, help }) = file.declared
            && syntax::read(&file.text, Some(Version::V1)).is_ok()
        {
            return Self::refused(&file.shown, format!("this is Rego v1, but {by} declares it as v0")).help(help);
        }
        let problem = Self::refused(&file.shown, error.why.as_str()).at(&file.text, error.at.line, error.at.column);
        problem.help(error.help.unwrap_or_default())
    }

    /// Returns a problem of a file that uses a refused one.
    pub fn left_out(file: &Arc<str>, message: impl Into<String>) -> Self {
        Self { severity: ProblemSeverity::LeftOut, ..Self::refused(file, message) }
    }

    /// Returns a problem of a file that is loaded nevertheless.
    pub fn warning(file: &Arc<str>, message: impl Into<String>) -> Self {
        Self { severity: ProblemSeverity::Warning, ..Self::refused(file, message) }
    }

    /// Adds a hint how to fix the problem.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// Adds the location, with the source line from `text`. The column counts characters, from 1.
    #[must_use]
    pub fn at(mut self, text: &FileText, line: u32, column: u32) -> Self {
        (self.line, self.column) = (line, column);
        self.excerpt = excerpt(text.line(line));
        self
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Returns a line as shown in messages; empty if it is too long, as a caret below a wrapped line would be misplaced.
fn excerpt(line: &str) -> String {
    let line = line.trim_end();
    if line.chars().count() > 160 { String::new() } else { line.to_owned() }
}

/// Formats as `file:line:column: message`, the source line with a caret, and `help: …`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warning = if self.severity == ProblemSeverity::Warning { "warning: " } else { "" };
        write!(f, "{}: {warning}{}", self.place(), self.message)?;
        if !self.excerpt.is_empty() {
            let width = self.line.to_string().len();
            // A tab is one character but several columns on a screen.
            write!(f, "\n  {} | {}", self.line, self.excerpt.replace('\t', " "))?;
            if self.column > 0 {
                write!(f, "\n  {:width$} | {:>column$}", "", "^", column = self.column as usize)?;
            }
        }
        if self.help.is_empty() { Ok(()) } else { write!(f, "\n  help: {}", self.help) }
    }
}

/// Why the policies were not loaded: every problem of every file, so that one run finds all of them.
#[derive(Debug, Clone, thiserror::Error)]
pub struct LoadError {
    /// The problems, sorted by file and line, warnings last; never empty.
    pub problems: Vec<Problem>,
}

/// The most problems in a summary.
const NAMED: usize = 5;

/// Returns a summary on one line: the first problems of refused files, and the number of others.
pub fn summary<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> String {
    let refused: Vec<&Problem> = problems.into_iter().filter(|problem| problem.is_refusal()).collect();
    let named = refused.iter().take(NAMED).map(|problem| format!("{}: {}", problem.place(), problem.message));
    let more = refused.len().checked_sub(NAMED).filter(|more| *more > 0).map(|more| format!("and {more} more"));
    named.chain(more).collect::<Vec<_>>().join("; ")
}

impl LoadError {
    /// Returns an error with all problems that do not merely follow from others.
    pub fn new(mut problems: Vec<Problem>) -> Self {
        problems.retain(|problem| problem.severity != ProblemSeverity::LeftOut);
        problems.sort_by_key(|problem| !problem.is_refusal());
        Self { problems }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// Converts a line or column to the type of [`Problem`], saturating.
pub fn number(n: impl TryInto<u32>) -> u32 {
    n.try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_location_and_the_fix() {
        let problem = Problem::refused(&"p/a.rego".into(), "no such function")
            .at(&"package a\n\tdeny contains nope(1)\n".to_owned().into(), 2, 16)
            .help("write another");
        assert_eq!(
            problem.to_string(),
            "p/a.rego:2:16: no such function\n  2 |  deny contains nope(1)\n    |                ^\n  help: write another"
        );
    }

    #[test]
    fn many_problems_are_summarized() {
        let problems: Vec<Problem> =
            (1..=7).map(|line| Problem::refused(&"a".into(), "x").at(&FileText::default(), line, 2)).collect();
        assert_eq!(summary(&problems[..2]), "a:1:2: x; a:2:2: x");
        assert_eq!(summary(&problems), "a:1:2: x; a:2:2: x; a:3:2: x; a:4:2: x; a:5:2: x; and 2 more");
        assert_eq!(summary(&[Problem::warning(&"a".into(), "x")]), "");
    }

    #[test]
    fn problems_of_a_whole_file_have_no_line() {
        assert_eq!(Problem::warning(&"a".into(), "empty").to_string(), "a: warning: empty");
    }
}
