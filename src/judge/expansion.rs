//! Expansion: the objects that an object would create, such as the Pods of a Deployment, are evaluated in its place.
//!
//! Policies about Pods say nothing about a Deployment in a manifest. Two kinds of expansions make them do so:
//! `ExpansionTemplate`s among the policies, for Constraints and with results as in Gatekeeper; and kaudit's own, which
//! derives the Pod of each workload for the policies that cover Pods and no workload, so that nothing is reported
//! twice.

use std::{collections::BTreeSet, sync::Arc};

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::unit_selection::UnitSelection;
use crate::model::{
    object::{Kind, ObjectKey},
    plural::plural,
    verdict::Outcome,
};

/// The maximum number of expansions in a row. Cycles are refused, so this is never reached.
pub(crate) const DEEPEST: usize = 30;

/// Whether the Pods of workloads are derived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ExpandPods {
    /// For manifests; in a cluster the Pods exist
    #[default]
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

impl ExpandPods {
    /// Whether they are derived of manifests, or of the objects of a cluster.
    pub fn applies(self, to_manifests: bool) -> bool {
        match self {
            Self::Auto => to_manifests,
            Self::On => true,
            Self::Off => false,
        }
    }
}

/// A kind of objects by its group, version and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExpandedKind {
    pub(crate) group: String,
    /// `None` for any version.
    pub(crate) version: Option<String>,
    pub(crate) kind: String,
}

impl ExpandedKind {
    fn is(&self, kind: &Kind) -> bool {
        kind.is(&self.group, &self.kind) && self.version.as_ref().is_none_or(|version| *version == kind.version)
    }
}

/// How objects of some kinds are expanded.
#[derive(Debug, Clone)]
pub(crate) struct Expansion {
    /// The name of the `ExpansionTemplate`; `None` for kaudit's own expansion.
    pub(crate) template: Option<Arc<str>>,
    /// The outcome of violations; `None` if it is that of the rule.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) applies_to: Vec<ExpandedKind>,
    /// The path of the part of the object from which the other is generated.
    pub(crate) path: Vec<String>,
    /// The generated kind.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// The rules that are evaluated, by unit.
    pub(crate) rules: Vec<UnitSelection>,
    /// The names of the admission policies that are evaluated.
    pub(crate) admission: BTreeSet<Arc<str>>,
}

impl Expansion {
    /// Creates an expansion into objects of a group, version and kind, without rules.
    pub(crate) fn new(
        template: Option<Arc<str>>,
        applies_to: Vec<ExpandedKind>,
        path: Vec<String>,
        [group, version, kind]: [String; 3],
    ) -> Self {
        let (rules, admission) = Default::default();
        Self { template, outcome: None, applies_to, path, group, version, kind, rules, admission }
    }

    /// Whether objects of a kind are expanded.
    pub(crate) fn applies_to(&self, kind: &Kind) -> bool {
        self.applies_to.iter().any(|one| one.is(kind))
    }

    /// Returns the generated kind; its objects are in the namespace of the object from which they are generated.
    pub(crate) fn generated(&self, namespaced: bool) -> Kind {
        Kind {
            group: self.group.clone(),
            version: self.version.clone(),
            plural: plural(&self.kind),
            kind: self.kind.clone(),
            singular: self.kind.to_lowercase(),
            short_names: Vec::new(),
            namespaced,
        }
    }

    /// Returns the object that an object would create, with the name and the owner that Gatekeeper gives it; `None` if the object
    /// has no value at the path, or not an object.
    pub(crate) fn generate(&self, key: &ObjectKey, object: &Value) -> Option<(ObjectKey, Value)> {
        let source = self.path.iter().try_fold(object, |value, field| value.get(field))?.as_object()?;
        let mut generated = source.clone();
        let kind = self.generated(key.kind.namespaced);
        let name: Arc<str> = format!("{}-{}", key.name, self.kind).to_lowercase().into();
        generated.insert("apiVersion".to_owned(), kind.api_version().into());
        generated.insert("kind".to_owned(), self.kind.as_str().into());
        let metadata = generated.entry("metadata").or_insert_with(|| json!({}));
        if !metadata.is_object() {
            *metadata = json!({});
        }
        metadata["name"] = (*name).into();
        if let Some(namespace) = &key.namespace {
            metadata["namespace"] = (**namespace).into();
        }
        let mut owner =
            json!({"apiVersion": key.kind.api_version(), "kind": key.kind.kind, "name": *key.name, "uid": ""});
        if self.template.is_none() {
            // Policies about Pods without a controller are not about this one; Gatekeeper leaves it open.
            owner["controller"] = true.into();
        }
        let is_same = |other: &Value| ["apiVersion", "kind", "name"].iter().all(|field| other[field] == owner[field]);
        match metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
            Some(owners) if owners.iter().any(is_same) => {}
            Some(owners) => owners.push(owner),
            None => metadata["ownerReferences"] = json!([owner]),
        }
        let key = ObjectKey { kind: Arc::new(kind), name, ..key.clone() };
        Some((key, Value::Object(generated)))
    }

    /// Returns the message of a result about a generated object, as Gatekeeper shows it.
    pub(crate) fn message(&self, message: &str) -> Option<String> {
        self.template.as_ref().map(|template| format!("[Implied by {template}] {message}"))
    }

    /// Places the details of a result about a generated object in the object from which it is generated: the field that they
    /// name, or the path, and the patch.
    pub(crate) fn place(&self, details: &mut Map<String, Value>) {
        let path = self.path.join(".");
        let field = match details.get("field").and_then(Value::as_str) {
            Some(field) if field.starts_with('[') => format!("{path}{field}"),
            Some(field) if !field.is_empty() => format!("{path}.{field}"),
            _ => path,
        };
        details.insert("field".to_owned(), field.into());
        match details.get_mut("patch") {
            Some(Value::Array(operations)) => {
                for at in operations.iter_mut().filter_map(|operation| operation.get_mut("path")) {
                    if let Some(own) = at.as_str() {
                        *at = format!("/{}{own}", self.path.join("/")).into();
                    }
                }
            }
            Some(merged @ Value::Object(_)) => {
                let own = merged.take();
                *merged = self.path.iter().rev().fold(own, |below, field| json!({field.as_str(): below}));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_patches_are_placed_in_the_workload() {
        let path = ["spec", "template"].map(str::to_owned).to_vec();
        let expansion = Expansion::new(None, Vec::new(), path, ["", "v1", "Pod"].map(str::to_owned));
        let placed = |details: Value| {
            let mut details = details.as_object().unwrap().clone();
            expansion.place(&mut details);
            Value::Object(details)
        };
        assert_eq!(placed(json!({})), json!({"field": "spec.template"}));
        assert_eq!(placed(json!({"field": "spec.a[0]"})), json!({"field": "spec.template.spec.a[0]"}));
        assert_eq!(placed(json!({"field": "[\"a.b\"]"})), json!({"field": "spec.template[\"a.b\"]"}));
        let operations = json!([{"op": "remove", "path": "/spec/a"}, {"op": "add", "path": "", "value": 1}, 7]);
        let expected = json!([{"op": "remove", "path": "/spec/template/spec/a"}, {"op": "add", "path": "/spec/template", "value": 1}, 7]);
        assert_eq!(placed(json!({"patch": operations}))["patch"], expected);
        let merged = json!({"spec": {"template": {"spec": {"a": null}}}});
        assert_eq!(placed(json!({"patch": {"spec": {"a": null}}}))["patch"], merged);
    }
}
