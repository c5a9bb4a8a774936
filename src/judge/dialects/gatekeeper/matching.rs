//! `spec.match` of a Constraint: the objects that it applies to.
//!
//! Every given field must match; the order and the special cases (Namespaces, cluster-scoped objects, an unknown
//! Namespace) follow Gatekeeper's `pkg/mutation/match`.

use regorus::Value;

use crate::rego::{
    analysis::yaml::{YamlField, YamlNode},
    value,
};

/// A text with `*` at its start, its end or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wildcard(String);

impl Wildcard {
    pub(crate) fn new(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }

    /// Whether the text equals the pattern, or the glob matches it.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let pattern = self.0.as_str();
        match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(rest), Some(_)) => text.contains(rest.strip_suffix('*').unwrap_or(rest)),
            (Some(suffix), None) => text.ends_with(suffix),
            (None, Some(prefix)) => text.starts_with(prefix),
            (None, None) => text == pattern,
        }
    }

    /// Whether the pattern matches every name that the API server can generate from a `generateName`.
    fn matches_generated(&self, prefix: &str) -> bool {
        self.0.ends_with('*') && self.matches(prefix)
    }
}

/// An object in the form that Constraints are matched against.
pub(crate) struct Matchable<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    /// The object as a value of the evaluator.
    pub(crate) object: &'a Value,
    /// Its Namespace, if the object is namespaced and the Namespace is known.
    pub(crate) namespace: Option<&'a Value>,
}

impl Matchable<'_> {
    fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.kind == "Namespace"
    }

    fn metadata(&self, field: &str) -> &str {
        text(&self.object["metadata"][field])
    }

    /// Returns its namespace; a Namespace counts as being in itself. `None` for other cluster-scoped objects.
    fn namespace(&self) -> Option<&str> {
        let known = self.namespace.map(|namespace| text(&namespace["metadata"]["name"]));
        let own = Some(self.metadata("namespace")).filter(|name| !name.is_empty());
        if self.is_namespace() { Some(self.metadata("name")) } else { known.or(own) }
    }
}

fn text(value: &Value) -> &str {
    match value {
        Value::String(text) => text,
        _ => "",
    }
}

/// A label selector: all of `matchLabels` and `matchExpressions` must match.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConstraintSelector(Vec<Requirement>);

#[derive(Debug, Clone)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl ConstraintSelector {
    /// Reads a selector that fits the schema of a Constraint.
    ///
    /// # Errors
    /// Returns the invalid value and the reason.
    pub(crate) fn read(node: &YamlNode) -> Result<Self, (&YamlNode, String)> {
        let mut requirements = Vec::new();
        for YamlField { key, value, .. } in node.get("matchLabels").fields() {
            let values = vec![value.text().unwrap_or_default().to_owned()];
            legal(value, key, &values)?;
            requirements.push(Requirement { key: key.clone(), operator: Operator::In, values });
        }
        for expression in node.get("matchExpressions").items() {
            let values: Vec<String> = expression.get("values").texts().map(str::to_owned).collect();
            let word = expression.get("operator").text().unwrap_or_default();
            let operator = match word {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let why = format!("operator {other:?} must be In, NotIn, Exists or DoesNotExist");
                    return Err((expression.get("operator"), why));
                }
            };
            if matches!(operator, Operator::In | Operator::NotIn) == values.is_empty() {
                let wanted = if values.is_empty() { "needs values" } else { "takes no values" };
                return Err((expression, format!("operator {word} {wanted}")));
            }
            let key = expression.get("key").text().unwrap_or_default().to_owned();
            legal(expression, &key, &values)?;
            requirements.push(Requirement { key, operator, values });
        }
        Ok(Self(requirements))
    }

    fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        // As in `GetLabels`: null is empty, and if one label is neither that nor a string, all labels are ignored.
        let sane = value::object(labels).is_some_and(|labels| labels.iter().all(|(_, one)| label(one).is_some()));
        self.0.iter().all(|Requirement { key, operator, values }| {
            let value = &labels[key.as_str()];
            let value = label(value).filter(|_| sane);
            let listed = || value.is_some_and(|value| values.iter().any(|one| one == value));
            match operator {
                Operator::In => listed(),
                Operator::NotIn => !listed(),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

/// Returns the value of a label; `None` if it is not valid.
fn label(value: &Value) -> Option<&str> {
    match value {
        Value::Null => Some(""),
        value => value::text(value).map(|text| &**text),
    }
}

/// Checks that a label can have this key and these values.
fn legal<'n>(node: &'n YamlNode, key: &str, values: &[String]) -> Result<(), (&'n YamlNode, String)> {
    let word = |text: &str| {
        let edges = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric());
        text.len() <= 63 && edges && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if !word(name) || !prefix.is_none_or(is_subdomain) {
        return Err((node, format!("{key:?} is not a valid label key")));
    }
    match values.iter().find(|value| !value.is_empty() && !word(value)) {
        Some(value) => Err((node, format!("{value:?} is not a valid label value"))),
        None => Ok(()),
    }
}

/// Whether the API server accepts the text as a name (RFC 1123 subdomain).
pub(crate) fn is_subdomain(name: &str) -> bool {
    let fits = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(fits)
}

/// One entry of `kinds`; an empty list means no limit.
#[derive(Debug, Clone)]
struct GroupKinds {
    groups: Vec<String>,
    kinds: Vec<String>,
}

fn lists(list: &[String], word: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == "*" || one == word)
}

/// `spec.match`; the default matches all objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConstraintMatch {
    kinds: Vec<GroupKinds>,
    scope: Option<MatchScope>,
    namespaces: Vec<Wildcard>,
    excluded_namespaces: Vec<Wildcard>,
    label_selector: Option<ConstraintSelector>,
    namespace_selector: Option<ConstraintSelector>,
    name: Option<Wildcard>,
    generated_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchScope {
    Cluster,
    Namespaced,
}

impl ConstraintMatch {
    /// Reads a `match` that fits the schema of a Constraint.
    ///
    /// # Errors
    /// Returns the invalid value and the reason.
    pub(crate) fn read(node: &YamlNode) -> Result<Self, (&YamlNode, String)> {
        let texts = |node: &YamlNode| node.texts().map(str::to_owned).collect();
        let wildcards = |node: &YamlNode| node.texts().map(Wildcard::new).collect();
        let selector =
            |key| Some(node.get(key)).filter(|node| !node.is_null()).map(ConstraintSelector::read).transpose();
        Ok(Self {
            kinds: node
                .get("kinds")
                .items()
                .iter()
                .map(|kinds| GroupKinds { groups: texts(kinds.get("apiGroups")), kinds: texts(kinds.get("kinds")) })
                .collect(),
            scope: match node.get("scope").text() {
                Some("Cluster") => Some(MatchScope::Cluster),
                Some("Namespaced") => Some(MatchScope::Namespaced),
                _ => None,
            },
            namespaces: wildcards(node.get("namespaces")),
            excluded_namespaces: wildcards(node.get("excludedNamespaces")),
            label_selector: selector("labelSelector")?,
            namespace_selector: selector("namespaceSelector")?,
            name: node.get("name").text().filter(|name| !name.is_empty()).map(Wildcard::new),
            generated_only: node.get("source").text() == Some("Generated"),
        })
    }

    /// Whether it has a `namespaceSelector`.
    pub(crate) fn needs_namespace(&self) -> bool {
        self.namespace_selector.is_some()
    }

    /// Whether it selects objects by their name.
    pub(crate) fn reads_name(&self) -> bool {
        self.name.is_some()
    }

    /// Returns the paths of an object that it reads, besides apiVersion and kind.
    pub(crate) fn reads(&self) -> Vec<[&'static str; 2]> {
        let mut paths = Vec::new();
        if self.label_selector.is_some() || self.namespace_selector.is_some() {
            paths.push(["metadata", "labels"]);
        }
        if self.name.is_some() {
            paths.extend([["metadata", "name"], ["metadata", "generateName"]]);
        }
        if self.scope.is_some() || !self.namespaces.is_empty() || !self.excluded_namespaces.is_empty() {
            // A Namespace counts as being in itself.
            paths.extend([["metadata", "namespace"], ["metadata", "name"]]);
        }
        paths
    }

    /// Whether it applies only to objects that Gatekeeper's expansion generates, which an audit of real objects never
    /// sees.
    pub(crate) fn generated_only(&self) -> bool {
        self.generated_only
    }

    /// Returns the names of all kinds that it can match; `None` if it is not limited to kinds.
    pub(crate) fn kind_names(&self) -> Option<Vec<&str>> {
        let bound = !self.kinds.is_empty() && self.kinds.iter().all(|kinds| !lists(&kinds.kinds, ""));
        bound.then(|| self.kinds.iter().flat_map(|kinds| &kinds.kinds).map(String::as_str).collect())
    }

    /// Whether it can match objects of this kind.
    pub(crate) fn allows_kind(&self, group: &str, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kinds| lists(&kinds.kinds, kind) && lists(&kinds.groups, group))
    }

    /// Whether it matches one object.
    ///
    /// # Errors
    /// Returns an error if the object's Namespace is required and unknown.
    pub(crate) fn matches(&self, subject: &Matchable<'_>) -> Result<bool, String> {
        let namespaced = subject.namespace.is_some() || !subject.metadata("namespace").is_empty();
        let in_scope = match self.scope {
            Some(MatchScope::Cluster) => subject.is_namespace() || !namespaced,
            Some(MatchScope::Namespaced) => !subject.is_namespace() && namespaced,
            None => true,
        };
        let listed = |list: &[Wildcard]| {
            let namespace = subject.namespace()?;
            Some(list.iter().any(|pattern| pattern.matches(namespace)))
        };
        if !self.allows_kind(subject.group, subject.kind)
            || !in_scope
            || (!self.namespaces.is_empty() && listed(&self.namespaces) == Some(false))
            || listed(&self.excluded_namespaces) == Some(true)
            || self.label_selector.as_ref().is_some_and(|selector| !selector.matches(subject.object))
            || !self.matches_namespace(subject, namespaced)?
        {
            return Ok(false);
        }
        let named = self.name.as_ref().is_none_or(|name| {
            name.matches(subject.metadata("name")) || name.matches_generated(subject.metadata("generateName"))
        });
        Ok(named && !self.generated_only)
    }

    fn matches_namespace(&self, subject: &Matchable<'_>, namespaced: bool) -> Result<bool, String> {
        match (&self.namespace_selector, subject.namespace) {
            (None, _) => Ok(true),
            (Some(selector), _) if subject.is_namespace() => Ok(selector.matches(subject.object)),
            (Some(selector), Some(namespace)) => Ok(selector.matches(namespace)),
            (Some(_), None) if !namespaced => Ok(true),
            (Some(_), None) => Err(format!(
                "its namespaceSelector needs the Namespace {}, which was not found",
                subject.metadata("namespace")
            )),
        }
    }
}
