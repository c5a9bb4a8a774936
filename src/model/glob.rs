//! Globs over names: `*` matches any text, including none, and `?` one character.

use std::{convert::Infallible, fmt, str::FromStr};

use wildmatch::WildMatch;

/// A glob over names of namespaces, policies or rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Glob(WildMatch);

/// Patterns are compared as texts.
impl Eq for Glob {}

impl Glob {
    /// Compiles a glob. Every text is valid.
    pub fn new(pattern: &str) -> Self {
        Self(WildMatch::new(pattern))
    }

    /// Whether the whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}

impl FromStr for Glob {
    type Err = Infallible;

    fn from_str(pattern: &str) -> Result<Self, Infallible> {
        Ok(Self::new(pattern))
    }
}

/// Shows the pattern.
impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
