//! The objects that a rule in Kubescape's layout applies to, by `match` of its metadata.

use std::sync::Arc;

use serde::Deserialize;

use crate::model::object::Kind;

/// An entry of `match` or `dynamicMatch`: all combinations of its groups, versions and resources.
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

impl ResourceMatch {
    /// Whether the rule's input includes objects of a kind.
    pub(crate) fn matches(&self, kind: &Kind) -> bool {
        let is = |wanted: &String, own: &str| wanted == "*" || wanted == own || wanted == "core" && own.is_empty();
        self.api_groups.iter().any(|group| is(group, &kind.group))
            && self.api_versions.iter().any(|version| is(version, &kind.version))
            && self.resources.iter().any(|resource| names(resource, kind))
    }

    /// Whether it lists kinds, rather than matching every kind.
    pub(crate) fn names_kinds(&self) -> bool {
        !self.resources.iter().any(|resource| resource == "*")
    }

    /// Returns an entry with a single name for each kind or resource that it lists.
    pub(crate) fn single(&self) -> impl Iterator<Item = Self> {
        let named = self.resources.iter().filter(|resource| *resource != "*");
        named.map(|resource| Self { resources: vec![resource.clone()], ..self.clone() })
    }

    /// Whether it lists a group.
    pub(crate) fn names_group(&self, group: &str) -> bool {
        self.api_groups.iter().any(|own| own == group)
    }

    /// Returns the names of the kinds, as far as `match` contains kinds; `None` if it may match any.
    pub(crate) fn kind_names(&self) -> Option<Vec<Arc<str>>> {
        self.resources.iter().map(|name| kinds_of(name)).collect::<Option<Vec<_>>>().map(|names| names.concat())
    }
}

/// Returns the kinds that a name refers to: `Gateway`, or plurals such as `Gateways` and `Policies` that some rules
/// use; `None` for the name of a resource, whose kind is unknown until an object appears.
fn kinds_of(name: &str) -> Option<Vec<Arc<str>>> {
    name.chars().next().filter(|first| first.is_uppercase())?;
    let singular = match name.strip_suffix("ies") {
        Some(stem) => Some(format!("{stem}y")),
        None => name.strip_suffix('s').filter(|singular| !singular.ends_with('s')).map(str::to_owned),
    };
    Some([name.to_owned()].into_iter().chain(singular).map(Arc::from).collect())
}

/// Whether a name in `resources` is that of a kind or of its resource.
fn names(name: &str, kind: &Kind) -> bool {
    match kinds_of(name) {
        Some(kinds) => kinds.iter().any(|known| **known == *kind.kind),
        None => name == "*" || name == kind.plural || name.eq_ignore_ascii_case(&kind.kind),
    }
}
