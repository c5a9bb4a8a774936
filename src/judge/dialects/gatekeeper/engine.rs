//! The engine that evaluates templates with code for several.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The engine that is preferred for templates with code in both languages. A template with code in one of them is
/// evaluated anyway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GatekeeperEngine {
    /// CEL, as Gatekeeper does
    #[default]
    Cel,
    /// Rego
    Rego,
}

impl GatekeeperEngine {
    /// Returns its name, as in options.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cel => "cel",
            Self::Rego => "rego",
        }
    }
}
