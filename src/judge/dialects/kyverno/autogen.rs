//! Extends policies for Pods to the workloads that create Pods, as Kyverno's package `pkg/cel/autogen` does.
//!
//! A policy is extended if it matches the Pods of core/v1 and nothing else, without names, exclusions and a selector of
//! objects. In its expressions, `object.spec` and `object.metadata` become the fields of the Pod template, as text; only
//! `object.metadata.namespace` stays, as templates have no namespace.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::admissionregistration::v1::{MatchResources, ValidatingAdmissionPolicySpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

/// Workloads whose Pod template is at the same place.
struct PodTemplatePlace {
    /// The place of the Pod's `spec` and `metadata`.
    path: &'static str,
    /// The API groups, all in version v1, with the plural names of their workloads.
    workloads: &'static [(&'static str, &'static [&'static str])],
}

const TEMPLATES: [PodTemplatePlace; 2] = [
    PodTemplatePlace { path: "spec.jobTemplate.spec.template", workloads: &[("batch", &["cronjobs"])] },
    PodTemplatePlace {
        path: "spec.template",
        workloads: &[("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"]), ("batch", &["jobs"])],
    },
];

/// The field that no template has.
const PROTECTED: &str = ".namespace";

/// Returns the specifications for workloads that follow from one for Pods; none if it is not extended. `controllers` are
/// the plural names of the workloads; `None` means all.
pub(super) fn extended(
    spec: &ValidatingAdmissionPolicySpec,
    controllers: Option<&[String]>,
) -> Vec<ValidatingAdmissionPolicySpec> {
    let Some(matching) = spec.match_constraints.as_ref().filter(|matching| is_extended(matching)) else {
        return Vec::new();
    };
    let wanted = |name: &str| controllers.is_none_or(|controllers| controllers.iter().any(|one| one == name));
    let extend = |template: &PodTemplatePlace| {
        let matching = template.matching(matching, &wanted)?;
        let mut spec = spec.clone();
        rewrite(&mut spec, template.path);
        spec.match_constraints = Some(matching);
        Some(spec)
    };
    TEMPLATES.iter().filter_map(extend).collect()
}

/// Whether a policy with these constraints is extended.
fn is_extended(matching: &MatchResources) -> bool {
    let [rule] = matching.resource_rules.as_deref().unwrap_or_default() else { return false };
    let is_only = |list: &Option<Vec<String>>, text: &str| matches!(list.as_deref(), Some([only]) if only == text);
    !selects(matching.object_selector.as_ref())
        && matching.exclude_resource_rules.as_ref().is_none_or(Vec::is_empty)
        && rule.resource_names.as_ref().is_none_or(Vec::is_empty)
        && is_only(&rule.api_groups, "")
        && is_only(&rule.api_versions, "v1")
        && is_only(&rule.resources, "pods")
}

/// Whether a selector does not select everything.
fn selects(selector: Option<&LabelSelector>) -> bool {
    selector.is_some_and(|selector| {
        let has_labels = selector.match_labels.as_ref().is_some_and(|labels| !labels.is_empty());
        has_labels || selector.match_expressions.as_ref().is_some_and(|expressions| !expressions.is_empty())
    })
}

impl PodTemplatePlace {
    /// Returns the constraints for the wanted workloads: the operations and namespaces of those for Pods; `None` if there
    /// are none.
    fn matching(&self, of_pods: &MatchResources, wanted: &impl Fn(&str) -> bool) -> Option<MatchResources> {
        let pods = of_pods.resource_rules.as_ref()?.first()?;
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (group, names) in self.workloads {
            let names = names.iter().filter(|name| wanted(name)).map(|name| (*name).to_owned());
            groups.entry(group).or_default().extend(names);
        }
        let rule = |(group, resources): (&str, Vec<String>)| {
            let mut rule = pods.clone();
            rule.api_groups = Some(vec![group.to_owned()]);
            rule.resources = Some(resources);
            rule.scope = None;
            rule
        };
        let rules: Vec<_> = groups.into_iter().filter(|(_, names)| !names.is_empty()).map(rule).collect();
        (!rules.is_empty()).then(|| MatchResources {
            resource_rules: Some(rules),
            namespace_selector: of_pods.namespace_selector.clone(),
            ..MatchResources::default()
        })
    }
}

/// Rewrites the expressions for a Pod template. Messages stay as they are, so that a Pod and its workload have the same
/// one; where there is none, it is the expression as it was.
fn rewrite(spec: &mut ValidatingAdmissionPolicySpec, template: &str) {
    let rewrite = |text: &mut String| *text = rewritten(text, template);
    for condition in spec.match_conditions.iter_mut().flatten() {
        rewrite(&mut condition.expression);
    }
    for variable in spec.variables.iter_mut().flatten() {
        rewrite(&mut variable.expression);
    }
    for validation in spec.validations.iter_mut().flatten() {
        if validation.message.as_ref().is_none_or(String::is_empty) {
            validation.message = Some(format!("failed expression: {}", validation.expression.trim()));
        }
        rewrite(&mut validation.expression);
        validation.message_expression.iter_mut().for_each(rewrite);
    }
    for annotation in spec.audit_annotations.iter_mut().flatten() {
        rewrite(&mut annotation.value_expression);
    }
}

/// Returns an expression for a Pod with the paths of a template.
fn rewritten(text: &str, template: &str) -> String {
    let mut text = text.to_owned();
    for field in ["spec", "metadata"] {
        for object in ["object", "oldObject"] {
            text = replaced(&text, &format!("{object}.{field}"), &format!("{object}.{template}.{field}"));
        }
    }
    text
}

/// Replaces a text wherever it is not followed by the protected field.
fn replaced(text: &str, from: &str, to: &str) -> String {
    let mut parts = text.split(from);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let is_protected = rest
            .strip_prefix(PROTECTED)
            .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_'));
        result.push_str(if is_protected { from } else { to });
        result.push_str(rest);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_pod_become_those_of_a_template() {
        for (text, want) in [
            ("object.spec.hostNetwork", "object.spec.template.spec.hostNetwork"),
            ("has(object.metadata.labels.a)", "has(object.spec.template.metadata.labels.a)"),
            ("object.metadata.namespace == 'a'", "object.metadata.namespace == 'a'"),
            ("object.metadata.namespaces", "object.spec.template.metadata.namespaces"),
            ("oldObject.spec == object.spec", "oldObject.spec.template.spec == object.spec.template.spec"),
            ("namespaceObject.metadata.name", "namespaceObject.metadata.name"),
            ("object.kind", "object.kind"),
        ] {
            assert_eq!(rewritten(text, "spec.template"), want);
        }
    }
}
