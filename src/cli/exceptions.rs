//! What may stay as it is: exceptions.

use std::path::PathBuf;

use clap::Args;

/// What is excused.
#[derive(Debug, Args)]
#[command(next_help_heading = "Exceptions")]
pub struct ExceptionArgs {
    /// Excuse what the PolicyExceptions in this file are about; repeatable
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    #[arg(id = "exceptions", long = "exceptions", value_name = "FILE", env = "KAUDIT_EXCEPTIONS")]
    pub files: Vec<PathBuf>,
}
