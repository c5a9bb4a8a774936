//! The objects that a policy or a binding applies to: `matchConstraints` and `matchResources`.
//!
//! The order of the checks and the special cases (Namespaces, cluster-scoped objects, rules for subresources) are those
//! of the API server's package `admission/plugin/policy/matching`.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::core::{Selector, SelectorExt as _};
use serde_json::Value as Json;

use super::request::{RequestOperation, Subject};
use crate::model::object::Kind;

/// The operations that an audit knows: not `CONNECT`.
const OPERATIONS: [RequestOperation; 3] =
    [RequestOperation::Create, RequestOperation::Update, RequestOperation::Delete];

/// The objects that a policy or a binding applies to.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmissionMatch {
    /// `None` if every resource matches.
    rules: Option<Vec<ResourceRule>>,
    excluded: Vec<ResourceRule>,
    /// Whether `matchPolicy` is `Equivalent`, so that rules also match a resource in its other versions.
    equivalent: bool,
    /// `None` if every namespace matches.
    namespace_selector: Option<Selector>,
    /// `None` if every object matches.
    object_selector: Option<Selector>,
}

/// An entry of `resourceRules` or `excludeResourceRules` that covers an operation of [`OPERATIONS`].
#[derive(Debug, Clone)]
struct ResourceRule {
    operations: Vec<RequestOperation>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// The resources without subresources.
    resources: Vec<String>,
    scope: RuleScope,
    /// If empty, every name matches.
    names: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleScope {
    All,
    Cluster,
    Namespaced,
}

/// How an object relates to rules for resources.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MatchedResource {
    No,
    Yes,
    /// The rules match the resource in these versions only, to which the API server would convert the object.
    InOtherVersions(String),
}

impl AdmissionMatch {
    /// Reads `matchConstraints` or `matchResources`.
    ///
    /// # Errors
    /// Returns the field that is invalid, and the reason.
    pub(crate) fn read(given: &MatchResources) -> Result<Self, (&'static str, String)> {
        let equivalent = match given.match_policy.as_deref() {
            None | Some("Equivalent") => true,
            Some("Exact") => false,
            Some(other) => {
                return Err(("matchPolicy", format!("unknown value {other:?}: use Equivalent or Exact")));
            }
        };
        let rules = |given: &Option<Vec<NamedRuleWithOperations>>, field| {
            let rules = given.iter().flatten().filter_map(|rule| ResourceRule::read(rule).transpose());
            rules.collect::<Result<Vec<_>, _>>().map_err(|why| (field, why))
        };
        let is_limited = given.resource_rules.as_ref().is_some_and(|rules| !rules.is_empty());
        let own = rules(&given.resource_rules, "resourceRules")?;
        Ok(Self {
            rules: is_limited.then_some(own),
            excluded: rules(&given.exclude_resource_rules, "excludeResourceRules")?,
            equivalent,
            namespace_selector: selector(given.namespace_selector.as_ref())
                .map_err(|why| ("namespaceSelector", why))?,
            object_selector: selector(given.object_selector.as_ref()).map_err(|why| ("objectSelector", why))?,
        })
    }

    /// Whether a rule covers an operation.
    pub(crate) fn covers(&self, operation: RequestOperation) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.iter().any(|rule| rule.operations.contains(&operation)))
    }

    /// Whether a rule covers updates or deletions.
    pub(crate) fn covers_changes(&self) -> bool {
        [RequestOperation::Update, RequestOperation::Delete].into_iter().any(|operation| self.covers(operation))
    }

    /// Whether the object's Namespace decides.
    pub(crate) fn needs_namespace(&self) -> bool {
        self.namespace_selector.is_some()
    }

    /// Whether it reads the labels of the object; those of a Namespace also count as the labels of its namespace.
    pub(crate) fn reads_labels(&self) -> bool {
        self.object_selector.is_some() || self.namespace_selector.is_some()
    }

    /// Returns the plural names of the resources that it can match; `None` if it is not limited to some.
    pub(crate) fn resources(&self) -> Option<Vec<&str>> {
        let rules = self.rules.as_ref()?;
        let names: Vec<&str> = rules.iter().flat_map(|rule| &rule.resources).map(String::as_str).collect();
        (!names.contains(&"*")).then_some(names)
    }

    /// Whether it can match objects of a kind.
    pub(crate) fn allows_kind(&self, kind: &Kind) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.iter().any(|rule| rule.allows_resource(kind)))
    }

    /// Whether it matches an object.
    ///
    /// # Errors
    /// Returns an error if the object's Namespace is required and unknown.
    pub(crate) fn matches(&self, subject: &Subject<'_>) -> Result<MatchedResource, String> {
        let namespace = self.matches_namespace(subject);
        let has_labels = |selector: &Selector| subject.states().any(|state| selector.matches(&labels(state)));
        if namespace == Ok(false) || self.object_selector.as_ref().is_some_and(|selector| !has_labels(selector)) {
            return Ok(MatchedResource::No);
        }
        if self.matches_rules(&self.excluded, subject) == MatchedResource::Yes {
            return Ok(MatchedResource::No);
        }
        let matched = self.rules.as_ref().map_or(MatchedResource::Yes, |rules| self.matches_rules(rules, subject));
        // Only an object that is otherwise matched needs its Namespace.
        if matched != MatchedResource::No {
            namespace?;
        }
        Ok(matched)
    }

    fn matches_rules(&self, rules: &[ResourceRule], subject: &Subject<'_>) -> MatchedResource {
        let named = || rules.iter().filter(|rule| rule.matches(subject));
        let version = subject.key.kind.version.as_str();
        if named().any(|rule| lists(&rule.versions, version)) {
            return MatchedResource::Yes;
        }
        let others: Vec<&str> = named().flat_map(|rule| &rule.versions).map(String::as_str).collect();
        if !self.equivalent || others.is_empty() {
            return MatchedResource::No;
        }
        MatchedResource::InOtherVersions(others.join(", "))
    }

    fn matches_namespace(&self, subject: &Subject<'_>) -> Result<bool, String> {
        let Some(selector) = &self.namespace_selector else { return Ok(true) };
        let Some(name) = subject.namespace else { return Ok(true) };
        if subject.is_namespace() {
            return Ok(subject.states().next().is_some_and(|state| selector.matches(&labels(state))));
        }
        match subject.namespace_object {
            Some(namespace) => Ok(selector.matches(&labels(namespace))),
            None => Err(format!("its namespaceSelector needs the Namespace {name}, which was not found")),
        }
    }
}

impl ResourceRule {
    /// Reads a rule; `None` if it covers no operation that an audit knows.
    fn read(given: &NamedRuleWithOperations) -> Result<Option<Self>, String> {
        let list = |given: &Option<Vec<String>>| given.clone().unwrap_or_default();
        let scope = match given.scope.as_deref() {
            None | Some("*") => RuleScope::All,
            Some("Cluster") => RuleScope::Cluster,
            Some("Namespaced") => RuleScope::Namespaced,
            Some(other) => return Err(format!("unknown scope {other:?}: use Cluster, Namespaced or *")),
        };
        let is_covered = |operation: &RequestOperation| {
            given.operations.iter().flatten().any(|word| word == "*" || word == operation.word())
        };
        let operations: Vec<RequestOperation> = OPERATIONS.into_iter().filter(is_covered).collect();
        if operations.is_empty() {
            return Ok(None);
        }
        let main = |resource: &String| match resource.split_once('/') {
            Some((name, "*")) => Some(name.to_owned()),
            Some(_) => None,
            None => Some(resource.clone()),
        };
        Ok(Some(Self {
            operations,
            groups: list(&given.api_groups),
            versions: list(&given.api_versions),
            resources: given.resources.iter().flatten().filter_map(main).collect(),
            scope,
            names: list(&given.resource_names),
        }))
    }

    fn allows_resource(&self, kind: &Kind) -> bool {
        lists(&self.groups, &kind.group) && lists(&self.resources, &kind.plural)
    }

    /// Whether it matches an object, whatever its version.
    fn matches(&self, subject: &Subject<'_>) -> bool {
        let is_cluster_scoped = subject.is_namespace() || subject.namespace.is_none();
        let in_scope = match self.scope {
            RuleScope::All => true,
            RuleScope::Cluster => is_cluster_scoped,
            RuleScope::Namespaced => !is_cluster_scoped,
        };
        let is_named = self.names.is_empty() || self.names.iter().any(|name| name == subject.name);
        self.operations.contains(&subject.operation) && self.allows_resource(&subject.key.kind) && in_scope && is_named
    }
}

/// Whether a list has a text, or `*`.
fn lists(list: &[String], text: &str) -> bool {
    list.iter().any(|one| one == "*" || one == text)
}

/// Reads a selector; `None` if it selects everything.
pub(super) fn selector(given: Option<&LabelSelector>) -> Result<Option<Selector>, String> {
    let Some(given) = given else { return Ok(None) };
    let is_empty = given.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && given.match_expressions.as_ref().is_none_or(Vec::is_empty);
    if is_empty {
        return Ok(None);
    }
    Selector::try_from(given.clone()).map(Some).map_err(|error| error.to_string())
}

/// Returns the labels of an object.
pub(super) fn labels(object: &Json) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
