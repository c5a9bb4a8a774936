//! Errors of OPA's compiler, with their positions.

use crate::{file::File, problem::Problem, syntax::Position};

/// An error of the compiler.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Index of the module.
    pub module: usize,
    /// The position of the error.
    pub at: Position,
    /// The message, which begins with an error code of OPA's documentation.
    pub message: String,
    /// How to fix it; may be empty.
    pub help: &'static str,
    /// Whether the compiler continues with later stages.
    pub(super) recoverable: bool,
}

/// The codes of OPA's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Compile,
    Type,
    Unsafe,
}

impl Code {
    fn text(self) -> &'static str {
        match self {
            Self::Compile => "rego_compile_error",
            Self::Type => "rego_type_error",
            Self::Unsafe => "rego_unsafe_var_error",
        }
    }
}

impl Fault {
    /// Converts the fault into a problem of the file of its module.
    pub fn problem(&self, file: &File) -> Problem {
        let problem = Problem::refused(&file.shown, self.message.as_str());
        problem.at(&file.text, self.at.line, self.at.column).help(self.help)
    }

    pub(super) fn new(code: Code, module: usize, at: Position, message: impl std::fmt::Display) -> Self {
        Self { module, at, message: format!("{}: {message}", code.text()), help: "", recoverable: false }
    }

    pub(super) fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    pub(super) fn recoverable(self) -> Self {
        Self { recoverable: true, ..self }
    }
}
