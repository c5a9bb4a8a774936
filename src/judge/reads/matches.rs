//! The kinds that a rule can have results for.

use std::{collections::BTreeSet, fmt, sync::Arc};

/// The kinds that a rule can have results for, as found by static analysis.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Matches {
    /// Any kind, including those unknown at load time.
    #[default]
    All,
    /// The kinds with these names, of any group and version.
    Kinds(BTreeSet<Arc<str>>),
}

impl Matches {
    /// Whether it includes a kind.
    pub fn matches(&self, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::Kinds(kinds) => kinds.contains(kind),
        }
    }

    /// Whether it lists a kind by name.
    pub fn names(&self, kind: &str) -> bool {
        matches!(self, Self::Kinds(kinds) if kinds.contains(kind))
    }

    /// Keeps only the kinds that are also among `names`; `None` means no limit.
    pub(crate) fn and(self, names: Option<Vec<&str>>) -> Self {
        let Some(names) = names else { return self };
        Self::Kinds(names.into_iter().filter(|name| self.matches(name)).map(Arc::from).collect())
    }

    /// Returns the union of both.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Kinds(mut kinds), Self::Kinds(more)) => {
                kinds.extend(more.iter().cloned());
                Self::Kinds(kinds)
            }
            _ => Self::All,
        }
    }
}

/// Shows the names, or `*` for all.
impl fmt::Display for Matches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Kinds(kinds) => f.write_str(&kinds.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ")),
        }
    }
}
