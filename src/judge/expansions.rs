//! The expansions of a policy set: which rules are evaluated on the objects that others would create.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    dialect::{InputForm, WorkloadRules},
    dialects::{
        cel::{
            self,
            binding::BoundPolicy,
            policy::{AdmissionPolicy, PolicyEngine},
        },
        gatekeeper,
    },
    expansion::{ExpandedKind, Expansion},
    policy::Policy,
    unit::{Group, Unit},
    unit_selection::UnitSelection,
};
use crate::model::object::Kind;

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
        let constraints = |unit: &Unit| UnitSelection {
            groups: unit.groups.iter().map(|group| vec![false; group.len()]).collect(),
            constraints: vec![true; unit.constraints().len()],
        };
        for template in &mut templates {
            template.rules = units.iter().map(constraints).collect();
        }
        let mut all = templates;
        if pods {
            let selected = about_pods(policies);
            let of_workload = |workload| of_workload(workload, &all, &selected, (units, bound));
            let own: Vec<_> = WORKLOADS.iter().filter_map(of_workload).collect();
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

/// A policy by its dialect and name: policies of several dialects can have the same name.
type PolicyName<'p> = (&'static str, &'p str);

fn name_of(policy: &Policy) -> PolicyName<'_> {
    (policy.dialect.name, &policy.name)
}

/// Returns the policies that cover Pods and no workload. A policy that covers some workloads does not mean the others.
fn about_pods(policies: &[Policy]) -> BTreeSet<PolicyName<'_>> {
    let covers_workloads = |policy: &&Policy| {
        // The builtin library covers workloads, too.
        policy.is_builtin
            || policy.dialect.workloads == WorkloadRules::Own
            || WORKLOADS.iter().any(|(_, kind, _)| policy.matches.matches(kind))
    };
    let others: BTreeSet<PolicyName<'_>> = policies.iter().filter(covers_workloads).map(name_of).collect();
    let about_pods = policies.iter().filter(|policy| policy.matches.matches(POD)).map(name_of);
    about_pods.filter(|name| !others.contains(name)).collect()
}

/// Returns the expansion of a workload for policies about Pods; `None` if there are none. Constraints are left to an
/// `ExpansionTemplate` that generates the same Pod.
fn of_workload(
    (group, kind, path): &(&str, &str, &str),
    templates: &[Expansion],
    selected: &BTreeSet<PolicyName<'_>>,
    (units, bound): (&[Unit], &[BoundPolicy]),
) -> Option<Expansion> {
    let is_templated = templates.iter().any(|one| {
        one.kind == POD
            && one.group.is_empty()
            && one.applies_to.iter().any(|one| one.group == **group && one.kind == **kind)
    });
    let constraints = |unit: &Unit| -> Vec<bool> {
        let constraints = unit.constraints().iter();
        constraints
            .map(|one| {
                !is_templated
                    && selected.contains(&(gatekeeper::DIALECT.name, &*one.policy))
                    && one.matching.allows_kind("", POD)
            })
            .collect()
    };
    let rules: Vec<UnitSelection> = units
        .iter()
        .map(|unit| UnitSelection {
            groups: unit.groups.iter().map(|group| rules_about_pods(group, selected)).collect(),
            constraints: constraints(unit),
        })
        .collect();
    let is_selected = |policy: &AdmissionPolicy| {
        policy.engine == PolicyEngine::ApiServer && selected.contains(&(cel::DIALECT.name, &*policy.name))
    };
    let admission: BTreeSet<Arc<str>> = bound
        .iter()
        .map(|bound| &bound.policy)
        .filter(|policy| is_selected(policy))
        .map(|policy| Arc::clone(&policy.name))
        .collect();
    let has_rule = rules.iter().any(|unit| unit.groups.iter().chain([&unit.constraints]).flatten().any(|one| *one));
    let own = vec![ExpandedKind { group: (*group).to_owned(), version: None, kind: (*kind).to_owned() }];
    let path = path.split('.').map(str::to_owned).collect();
    (has_rule || !admission.is_empty()).then(|| {
        let generated = ["", "v1", POD].map(str::to_owned);
        Expansion { rules, admission, ..Expansion::new(None, own, path, generated) }
    })
}

/// Returns which rules of a group are about Pods and belong to one of these policies, and the exceptions if there are any.
fn rules_about_pods(group: &Group, policies: &BTreeSet<PolicyName<'_>>) -> Vec<bool> {
    let is_evaluated = group.dialect.input != InputForm::Array && !group.dialect.has_constraints;
    let entrypoints = group.entrypoints.iter();
    let is_named = |name: &str| policies.contains(&(group.dialect.name, name));
    let mut rules: Vec<bool> =
        entrypoints.map(|rule| is_evaluated && is_named(&rule.policy) && rule.kinds.contain(POD)).collect();
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
        let field = "spec.template.spec.hostNetwork";
        assert!(of_deployment.contains(field), "{of_deployment}");
        assert!(!reads(&off, "apps", "Deployment").contains(field));
        assert!(!of_deployment.contains("status"), "{of_deployment}");
        let of_cron_job = reads(&on, "batch", "CronJob");
        assert!(of_cron_job.contains("spec.jobTemplate.spec.template.spec.hostNetwork"), "{of_cron_job}");
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
}
