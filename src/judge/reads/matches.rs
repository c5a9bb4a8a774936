//! The kinds that a rule can give results for.

use std::{collections::BTreeSet, fmt, sync::Arc};

/// Which kinds a rule can give results for, as far as its code shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Matches {
    /// Any kind, also those of which nothing is known at load.
    #[default]
    All,
    /// The kinds of these names, of any group and version.
    Kinds(BTreeSet<Arc<str>>),
}

impl Matches {
    /// Whether a kind is among them.
    pub fn matches(&self, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::Kinds(kinds) => kinds.contains(kind),
        }
    }

    /// Whether a kind is named, and not only one of all.
    pub fn names(&self, kind: &str) -> bool {
        matches!(self, Self::Kinds(kinds) if kinds.contains(kind))
    }

    /// Leaves only the kinds that are also among `names`; `None` limits nothing.
    pub(crate) fn and(self, names: Option<Vec<&str>>) -> Self {
        let Some(names) = names else { return self };
        Self::Kinds(names.into_iter().filter(|name| self.matches(name)).map(Arc::from).collect())
    }

    /// Returns the kinds of both.
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
