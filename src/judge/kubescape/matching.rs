//! Which objects a rule is about, by `match` of its metadata.

use std::sync::Arc;

use serde::Deserialize;

use crate::model::object::Kind;

/// An entry of `match` or `dynamicMatch`: any of the groups, of the versions and of the resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceMatch {
    #[serde(default)]
    pub(super) api_groups: Vec<String>,
    #[serde(default)]
    pub(super) api_versions: Vec<String>,
    /// Names of kinds or of resources, in upper or lower case; `*` is every kind.
    #[serde(default)]
    pub(super) resources: Vec<String>,
}

/// A kind as far as an object shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownKind<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    /// The name of the resource, where it is known.
    pub(crate) plural: Option<&'a str>,
}

impl<'a> From<&'a Kind> for ShownKind<'a> {
    fn from(kind: &'a Kind) -> Self {
        Self { group: &kind.group, version: &kind.version, kind: &kind.kind, plural: Some(&kind.plural) }
    }
}

impl<'a> ShownKind<'a> {
    /// Returns the kind of an object by its `apiVersion` and `kind`.
    pub(crate) fn of(api_version: &'a str, kind: &'a str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group, version, kind, plural: None }
    }
}

impl ResourceMatch {
    /// Whether objects of a kind are among those that the rule is given.
    pub(crate) fn matches(&self, shown: ShownKind<'_>) -> bool {
        let is = |wanted: &String, own: &str| wanted == "*" || wanted == own || wanted == "core" && own.is_empty();
        self.api_groups.iter().any(|group| is(group, shown.group))
            && self.api_versions.iter().any(|version| is(version, shown.version))
            && self.resources.iter().any(|resource| names(resource, shown))
    }

    /// Returns the names of the kinds, as far as `match` names kinds; `None` if it may be any.
    pub(crate) fn kind_names(&self) -> Option<Vec<Arc<str>>> {
        self.resources.iter().map(|name| kinds_of(name)).collect::<Option<Vec<_>>>().map(|names| names.concat())
    }
}

/// Returns the kinds that a name stands for: `Gateway`, or `Gateways`, as some write it; `None` for the name of a resource, whose
/// kind is known only when it is met.
fn kinds_of(name: &str) -> Option<Vec<Arc<str>>> {
    name.chars().next().filter(|first| first.is_uppercase())?;
    let singular = name.strip_suffix('s').filter(|singular| !singular.ends_with('s'));
    Some([name].into_iter().chain(singular).map(Arc::from).collect())
}

/// Whether a name in `resources` is that of a kind or of its resource.
fn names(name: &str, shown: ShownKind<'_>) -> bool {
    match kinds_of(name) {
        Some(kinds) => kinds.iter().any(|kind| **kind == *shown.kind),
        None if name == "*" || name.eq_ignore_ascii_case(shown.kind) => true,
        None => match shown.plural {
            Some(plural) => name == plural,
            // An object does not show it.
            None => {
                let kind = shown.kind.to_lowercase();
                let endings = [("", "s"), ("", "es"), ("y", "ies")];
                endings.iter().any(|(end, plural)| {
                    kind.strip_suffix(end).is_some_and(|stem| name.strip_suffix(plural) == Some(stem))
                })
            }
        },
    }
}
