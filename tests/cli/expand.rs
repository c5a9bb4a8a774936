//! Expansion: policies about Pods are evaluated on the Pods that workloads would create.

use std::{collections::BTreeSet, path::Path};

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files::folder;
use serde_json::Value;

use crate::kaudit;

/// A package about Pods, one with rules for both, and one about any object.
const REGO: &str = r#"package pods

deny_network contains {"msg": msg, "field": "spec.hostNetwork", "fix": null} if {
	input.kind == "Pod"
	input.spec.hostNetwork
	msg := sprintf("%s uses the network of its node", [input.metadata.name])
}
"#;
const BOTH: &str = r#"package both

deny contains "a Pod without an owner" if {
	input.kind == "Pod"
	not input.metadata.labels.owner
}

deny_workload contains "a workload without an owner" if {
	input.kind in {"Deployment", "CronJob"}
	not input.metadata.labels.owner
}
"#;
const ANY: &str = "package any\n\ndeny contains \"no part-of\" if not input.metadata.labels.part\n";
const TEMPLATE: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: podimages}
spec:
  crd: {spec: {names: {kind: PodImages}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package podimages

      violation[{"msg": msg}] {
        image := input.review.object.spec.containers[_].image
        endswith(image, ":latest")
        msg := sprintf("image %v", [image])
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: PodImages
metadata: {name: no-latest}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Pod]}], labelSelector: {matchLabels: {app: web}}}}
"#;
const ADMISSION: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: volumes}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
  - expression: '!has(object.spec.volumes)'
    messageExpression: \"'volumes of ' + object.metadata.name\"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: volumes, validationActions: [Warn]}
";
const EXPANSION: &str = "apiVersion: expansion.gatekeeper.sh/v1beta1
kind: ExpansionTemplate
metadata: {name: deployments}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  templateSource: spec.template
  generatedGVK: {group: '', version: v1, kind: Pod}
";
const OBJECTS: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {part: shop}}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      hostNetwork: true
      containers: [{name: a, image: 'web:latest'}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop, labels: {part: shop}}
spec:
  jobTemplate:
    spec:
      template:
        metadata: {labels: {app: web}}
        spec:
          volumes: [{name: v}]
          containers: [{name: a, image: 'web:latest'}]
";

fn shop() -> tempfile::TempDir {
    folder(&[
        ("policies/pods.rego", REGO),
        ("policies/both.rego", BOTH),
        ("policies/any.rego", ANY),
        ("policies/template.yaml", TEMPLATE),
        ("policies/admission.yaml", ADMISSION),
        ("expansion/template.yaml", TEMPLATE),
        ("expansion/expansion.yaml", EXPANSION),
        ("manifests.yaml", OBJECTS),
    ])
}

/// Returns the results as `KIND POLICY/RULE FIELD MESSAGE`.
fn results(folder: &Path, arguments: &[&str]) -> BTreeSet<String> {
    let output =
        kaudit(folder, &[&["check", "-f", "manifests.yaml", "-o", "json"], arguments].concat()).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)));
    let shown = |entry: &Value| {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
        let [kind, policy, rule] = ["/resource/kind", "/policy", "/rule"].map(text);
        format!("{kind} {policy}/{rule} {} {}", text("/details/field"), text("/message"))
    };
    result["results"].as_array().unwrap().iter().map(shown).collect()
}

fn set(lines: &[&str]) -> BTreeSet<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn results_of_the_pods_of_workloads_are_reported_once_at_the_workload() {
    let folder = shop();
    let of_workloads = [
        "CronJob both/deny_workload - a workload without an owner",
        "Deployment both/deny_workload - a workload without an owner",
    ];
    let of_pods = [
        "CronJob PodImages/no-latest spec.jobTemplate.spec.template image web:latest",
        "CronJob volumes/everywhere spec.jobTemplate.spec.template volumes of nightly-pod",
        "Deployment PodImages/no-latest spec.template image web:latest",
        "Deployment pods/deny_network spec.template.spec.hostNetwork web-pod uses the network of its node",
    ];
    let all = &set(&of_workloads) | &set(&of_pods);
    assert_eq!(results(folder.path(), &[]), all);
    assert_eq!(results(folder.path(), &["--expand", "on"]), all);
    assert_eq!(results(folder.path(), &["--expand", "off"]), set(&of_workloads));
}

#[test]
fn an_expansion_template_replaces_the_expansion_of_its_workloads_for_constraints() {
    let folder = shop();
    let implied = "Deployment PodImages/no-latest spec.template [Implied by deployments] image web:latest";
    let off = results(folder.path(), &["-p", "expansion", "--expand", "off"]);
    assert_eq!(off, set(&[implied]));
    let of_cron_job = "CronJob PodImages/no-latest spec.jobTemplate.spec.template image web:latest";
    assert_eq!(results(folder.path(), &["-p", "expansion"]), set(&[implied, of_cron_job]));
}

#[test]
fn explain_shows_the_pod_that_a_workload_would_create() {
    let folder = shop();
    let explain = |object: &str, rule: &str| {
        kaudit(folder.path(), &["explain", "-f", "manifests.yaml", "deployments", object, rule])
    };
    assert_cmd_snapshot!("expanded_rego", explain("shop/web", "pods/deny_network"));
    assert_cmd_snapshot!("expanded_constraint", explain("shop/web", "PodImages/no-latest"));
    assert_cmd_snapshot!("expanded_admission", explain("shop/web", "volumes/everywhere"));
}

#[test]
fn a_fix_of_a_pod_changes_the_workload() {
    let folder = shop();
    let fix = kaudit(folder.path(), &["check", "-f", "manifests.yaml", "--fix"]).output().unwrap();
    let text = std::fs::read_to_string(folder.path().join("manifests.yaml")).unwrap();
    assert_eq!(text, OBJECTS.replace("      hostNetwork: true\n", ""), "{fix:?}");
}

#[test]
fn wrong_expansion_templates_are_refused_with_their_position() {
    let cycle = |name: &str, from: &str, to: &str| {
        EXPANSION
            .replace("name: deployments", &format!("name: {name}"))
            .replace("[Deployment]", &format!("[{from}]"))
            .replace("{group: '', version: v1, kind: Pod}", &format!("{{group: apps, version: v1, kind: {to}}}"))
    };
    let folder = folder(&[
        ("policies/any.rego", ANY),
        ("policies/none.yaml", &EXPANSION.replace("spec.template", "''")),
        ("policies/own.yaml", &cycle("own", "Deployment", "Deployment")),
        ("policies/a.yaml", &cycle("a", "StatefulSet", "DaemonSet")),
        ("policies/b.yaml", &cycle("b", "DaemonSet", "StatefulSet")),
        ("policies/action.yaml", &EXPANSION.replace("generatedGVK", "enforcementAction: block\n  generatedGVK")),
        ("policies/kinds.yaml", &EXPANSION.replace("kinds: [Deployment]", "kinds: []")),
        ("manifests.yaml", OBJECTS),
    ]);
    assert_cmd_snapshot!("wrong_expansions", kaudit(folder.path(), &["check", "-f", "manifests.yaml"]));
}

#[test]
fn a_policy_of_another_dialect_with_the_same_name_changes_nothing() {
    let of_kyverno = "apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: volumes}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: '!has(object.spec.hostPID)'}]
";
    let folder = folder(&[
        ("policies/admission.yaml", ADMISSION),
        ("policies/kyverno.yaml", of_kyverno),
        ("manifests.yaml", OBJECTS),
    ]);
    let of_pods = ["CronJob volumes/everywhere spec.jobTemplate.spec.template volumes of nightly-pod"];
    assert_eq!(results(folder.path(), &[]), set(&of_pods));
}
