//! Expansion: the objects that an object would create, such as the Pods of a Deployment, are evaluated in its place.
//!
//! Policies about Pods say nothing about a Deployment in a manifest. Two kinds of expansions make them do so:
//! `ExpansionTemplate`s among the policies, for Constraints and with results as in Gatekeeper; and kaudit's own, which
//! derives the Pod of each workload for the policies that cover Pods and not the workload, so that nothing is reported
//! twice.

use std::{collections::BTreeSet, sync::Arc};

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::{
    dialect::InputForm,
    dialects::cel::{binding::BoundPolicy, kinds::plural},
    policy::Policy,
    unit::{Group, SelectedRules, Unit},
};
use crate::model::{
    object::{Kind, ObjectKey},
    verdict::Outcome,
};

/// The workloads of Kubernetes, with the path of their Pod template.
const WORKLOADS: [(&str, &str, &str); 7] = [
    ("apps", "DaemonSet", "spec.template"),
    ("apps", "Deployment", "spec.template"),
    ("apps", "ReplicaSet", "spec.template"),
    ("apps", "StatefulSet", "spec.template"),
    ("batch", "CronJob", "spec.jobTemplate.spec.template"),
    ("batch", "Job", "spec.template"),
    ("", "ReplicationController", "spec.template"),
];
const POD: &str = "Pod";
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
    /// Only what ExpansionTemplates among the policies say, as gator does
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
    pub(crate) rules: Vec<SelectedRules>,
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
        let owner = json!({"apiVersion": key.kind.api_version(), "kind": key.kind.kind, "name": *key.name, "uid": ""});
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
            Some(patch @ Value::Object(_)) => {
                let own = patch.take();
                *patch = self.path.iter().rev().fold(own, |below, field| json!({field.as_str(): below}));
            }
            _ => {}
        }
    }
}

/// All expansions of a policy set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expansions(Arc<Vec<Expansion>>);

impl Expansions {
    /// Creates those of `ExpansionTemplate`s, and with `pods` those of workloads for policies that cover Pods only.
    pub(crate) fn new(
        mut templates: Vec<Expansion>,
        pods: bool,
        (policies, units, bound): (&[Policy], &[Unit], &[BoundPolicy]),
    ) -> Self {
        let constraints = |unit: &Unit| SelectedRules {
            groups: unit.groups.iter().map(|group| vec![false; group.len()]).collect(),
            constraints: vec![true; unit.constraints().len()],
        };
        for template in &mut templates {
            template.rules = units.iter().map(constraints).collect();
        }
        let mut all = templates;
        if pods {
            let own: Vec<_> =
                WORKLOADS.iter().filter_map(|workload| of_workload(workload, &all, (policies, units, bound))).collect();
            all.extend(own);
        }
        Self(Arc::new(all))
    }

    /// Returns the expansions of objects of a kind.
    pub(crate) fn of<'e>(&'e self, kind: &'e Kind) -> impl Iterator<Item = &'e Expansion> {
        self.0.iter().filter(|expansion| expansion.applies_to(kind))
    }

    /// Returns the expansions of objects of a kind by its name, of any group and version.
    pub(crate) fn of_name(&self, kind: &str) -> impl Iterator<Item = &Expansion> {
        self.0.iter().filter(move |expansion| expansion.applies_to.iter().any(|one| one.kind == kind))
    }

    /// Returns the names of the kinds whose objects are expanded.
    pub(crate) fn kind_names(&self) -> BTreeSet<&str> {
        self.0.iter().flat_map(|expansion| &expansion.applies_to).map(|one| one.kind.as_str()).collect()
    }
}

/// Returns the expansion of a workload for the policies that cover Pods and not the workload; `None` if there are none.
/// Constraints are left to an `ExpansionTemplate` that generates the same Pod.
fn of_workload(
    (group, kind, path): &(&str, &str, &str),
    templates: &[Expansion],
    (policies, units, bound): (&[Policy], &[Unit], &[BoundPolicy]),
) -> Option<Expansion> {
    let covering = |kind: &str| -> BTreeSet<&Arc<str>> {
        policies.iter().filter(|policy| policy.matches.matches(kind)).map(|policy| &policy.name).collect()
    };
    // The builtin library covers workloads, too.
    let covers_workloads = |policy: &&Policy| policy.is_builtin || policy.dialect.covers_workloads;
    let others: BTreeSet<&Arc<str>> = policies.iter().filter(covers_workloads).map(|policy| &policy.name).collect();
    let selected = &(&covering(POD) - &covering(kind)) - &others;
    let is_templated = templates.iter().any(|one| {
        one.kind == POD
            && one.group.is_empty()
            && one.applies_to.iter().any(|one| one.group == **group && one.kind == **kind)
    });
    let constraints = |unit: &Unit| -> Vec<bool> {
        let constraints = unit.constraints().iter();
        constraints
            .map(|one| !is_templated && selected.contains(&one.policy) && one.matching.allows_kind("", POD))
            .collect()
    };
    let rules: Vec<SelectedRules> = units
        .iter()
        .map(|unit| SelectedRules {
            groups: unit.groups.iter().map(|group| rules_about_pods(group, &selected)).collect(),
            constraints: constraints(unit),
        })
        .collect();
    let admission: BTreeSet<Arc<str>> =
        bound.iter().map(|bound| &bound.policy.name).filter(|name| selected.contains(name)).map(Arc::clone).collect();
    let has_rule = rules.iter().any(|unit| unit.groups.iter().chain([&unit.constraints]).flatten().any(|one| *one));
    let own = vec![ExpandedKind { group: (*group).to_owned(), version: None, kind: (*kind).to_owned() }];
    let path = path.split('.').map(str::to_owned).collect();
    (has_rule || !admission.is_empty()).then(|| {
        let generated = ["", "v1", POD].map(str::to_owned);
        Expansion { rules, admission, ..Expansion::new(None, own, path, generated) }
    })
}

/// Returns which rules of a group are about Pods and belong to one of these policies, and the exceptions if there are any.
fn rules_about_pods(group: &Group, policies: &BTreeSet<&Arc<str>>) -> Vec<bool> {
    let is_evaluated = group.dialect.input != InputForm::Array && !group.dialect.has_constraints;
    let entrypoints = group.entrypoints.iter();
    let mut rules: Vec<bool> =
        entrypoints.map(|rule| is_evaluated && policies.contains(&rule.policy) && rule.kinds.contain(POD)).collect();
    let any = rules.contains(&true);
    rules.resize(group.len(), any);
    rules
}

#[cfg(test)]
mod tests {
    use kaudit_test_support::files::folder;

    use super::*;
    use crate::judge::{load_options::LoadOptions, set::PolicySet, sources::FileSource};

    const ABOUT_PODS: &str =
        "package pods\n\ndeny contains \"x\" if {\n\tinput.kind == \"Pod\"\n\tinput.spec.hostNetwork\n}\n";
    const ABOUT_JOBS: &str =
        "package jobs\n\ndeny contains \"x\" if {\n\tinput.kind in {\"Pod\", \"Job\"}\n\tinput.spec.hostPID\n}\n";

    fn set(expands_pods: bool) -> PolicySet {
        let folder = folder(&[("pods.rego", ABOUT_PODS), ("jobs.rego", ABOUT_JOBS)]);
        let options = LoadOptions { expands_pods, ..LoadOptions::default() };
        PolicySet::load_with(&[folder.path().to_owned()], &options).unwrap()
    }

    #[test]
    fn fields_of_generated_objects_are_read_in_the_object_from_which_they_are_generated() {
        let reads = |set: &PolicySet, group: &str, kind: &str| {
            set.projection(&Kind::sample(group, &kind.to_lowercase(), kind)).to_string()
        };
        let (on, off) = (set(true), set(false));
        assert_eq!(reads(&on, "", "Pod"), reads(&off, "", "Pod"));
        let of_deployment = reads(&on, "apps", "Deployment");
        for field in ["spec.template.spec.hostNetwork", "spec.template.spec.hostPID"] {
            assert!(of_deployment.contains(field), "{of_deployment}");
            assert!(!reads(&off, "apps", "Deployment").contains(field));
        }
        assert!(!of_deployment.contains("status"), "{of_deployment}");
        let of_cron_job = reads(&on, "batch", "CronJob");
        assert!(of_cron_job.contains("spec.jobTemplate.spec.template.spec.hostPID"), "{of_cron_job}");
        // The policy that covers Jobs is evaluated on the Job itself.
        let of_job = reads(&on, "batch", "Job");
        assert!(of_job.contains("spec.template.spec.hostNetwork") && of_job.contains("spec.hostPID"), "{of_job}");
    }

    #[test]
    fn the_builtin_library_covers_workloads_itself() {
        let options = LoadOptions { expands_pods: true, ..LoadOptions::default() };
        let set = PolicySet::load_with(&[FileSource::builtin()], &options).unwrap();
        assert!(set.expansions.kind_names().is_empty());
        assert!(!self::set(true).expansions.kind_names().is_empty());
    }

    #[test]
    fn kinds_whose_pods_are_expanded_are_read() {
        let deployment = Kind::sample("apps", "deployments", "Deployment");
        assert!(set(true).concern(&deployment));
        assert!(!set(false).concern(&deployment));
    }

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
