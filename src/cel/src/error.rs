//! Errors of compilation and of evaluation.

use std::fmt;

/// Why an expression was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct CompileError {
    /// The line of the first problem, from 1; 0 if the problem has no position.
    pub line: usize,
    /// Its column in code points, from 1.
    pub column: usize,
    /// What is wrong, in the words of the API server where these are stable.
    pub message: String,
    /// Problems after the first.
    pub more: Vec<Self>,
}

impl CompileError {
    pub(crate) fn without_position(message: impl Into<String>) -> Self {
        Self { line: 0, column: 0, message: message.into(), more: Vec::new() }
    }

    /// Joins problems, sorted by their positions.
    pub(crate) fn joined(mut problems: Vec<Self>) -> Option<Self> {
        problems.sort_by_key(|problem| (problem.line, problem.column));
        let mut problems = problems.into_iter();
        let mut first = problems.next()?;
        first.more.extend(problems);
        Some(first)
    }
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// An error of the expression, in the words of the API server where these are stable.
    #[error("{0}")]
    Failed(Box<str>),
    /// The evaluation exceeded the limit of one expression.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    /// The shared budget is exhausted.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    OutOfBudget,
    /// The deadline passed.
    #[error("operation interrupted")]
    Deadline,
    /// A string or list became larger than an evaluation may build.
    #[error("a string or list of the expression is too large")]
    TooLarge,
}

impl EvalError {
    /// Whether `&&`, `||` and comprehensions must not continue after it.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}

/// Returns an error of the expression.
pub(crate) fn failed<T>(message: impl fmt::Display) -> Result<T, EvalError> {
    Err(EvalError::Failed(message.to_string().into()))
}

/// Returns the error of operators for arguments that they do not have.
pub(crate) fn no_overload<T>() -> Result<T, EvalError> {
    Err(EvalError::Failed("no such overload".into()))
}
