//! `kaudit explain`: how a rule derives its result for an object.

use std::{path::Path, process::Command};

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files;

use crate::kaudit;

const IMAGES: &str = r#"# METADATA
# title: Images
package images

import data.lib.containers

# METADATA
# title: Tag latest
# description: A tag that moves is no version.
# related_resources: [https://example.com/latest]
# custom: {id: IMG-01, severity: high}
deny_latest contains msg if {
	some container in containers.all
	endswith(container.image, ":latest")
	msg := sprintf("container %s runs %s", [container.name, container.image])
}

deny_privileged contains msg if {
	input.kind == "Pod"
	some container in input.spec.containers
	container.securityContext.privileged
	msg := sprintf("container %s is privileged", [container.name])
}

deny_owner contains "set the label owner" if {
	not input.metadata.labels.owner
}

# One of two.
deny_owner contains "set the annotation owner" if {
	input.metadata.labels.owner == "nobody"
	not input.metadata.annotations["example.com/owner"]
}

deny_root contains "runs as root" if {
	every container in input.spec.containers {
		container.securityContext.runAsUser == 0
	}
}
"#;

const LIBRARY: &str = "package lib.containers\n\nall contains container if some container in input.spec.containers\n";

const PODS: &str = "apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: shop, labels: {owner: nobody}}
spec:
  containers:
  - {name: one, image: 'web:1', securityContext: {privileged: false, runAsUser: 0}}
  - {name: two, image: 'web:latest', securityContext: {privileged: true, runAsUser: 7}}
---
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: shop}
spec: {containers: [{name: one, image: 'web:1'}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
";

const ADMISSION: &str = "package kubernetes.admission

deny contains msg if {
	input.request.kind.kind == \"Pod\"
	count(input.request.object.spec.containers) > 1
	msg := \"one container only\"
}
";

const TEMPLATE: &str = "apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8slabels}
spec:
  crd:
    spec:
      names: {kind: K8sLabels}
      validation:
        openAPIV3Schema: {type: object, properties: {labels: {type: array, items: {type: string}}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package k8slabels

        violation[{\"msg\": msg}] {
          label := input.parameters.labels[_]
          not input.review.object.metadata.labels[label]
          msg := sprintf(\"label %v is missing\", [label])
        }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sLabels
metadata: {name: pods-have-owners}
spec:
  match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}
  parameters: {labels: [owner]}
";

fn folder() -> tempfile::TempDir {
    files::folder(&[
        ("policies/images.rego", IMAGES),
        ("policies/lib/containers.rego", LIBRARY),
        ("policies/admission.rego", ADMISSION),
        ("policies/template.yaml", TEMPLATE),
        ("more/more.rego", "package more\n\ndeny contains \"x\" if input.kind == \"Pod\"\n"),
        ("pods.yaml", PODS),
    ])
}

fn explain(folder: &Path, what: &[&str]) -> Command {
    kaudit(folder, &[&["explain", "-f", "pods.yaml"], what].concat())
}

#[test]
fn each_line_has_its_values() {
    let folder = folder();
    let with = |name: &str, rule: &str| explain(folder.path(), &["Pod", name, rule]);
    assert_cmd_snapshot!("fails", with("shop/bad", "images/deny_latest"));
    assert_cmd_snapshot!("fails_in_a_field", with("shop/bad", "deny_privileged"));
    assert_cmd_snapshot!("passes", with("shop/good", "deny_latest"));
    assert_cmd_snapshot!("several_definitions", with("bad", "deny_owner"));
    assert_cmd_snapshot!("missing_field", with("good", "deny_owner"));
    assert_cmd_snapshot!("every", with("bad", "deny_root"));
    assert_cmd_snapshot!("admission", with("bad", "kubernetes.admission/deny"));
    assert_cmd_snapshot!("constraint", with("good", "K8sLabels/pods-have-owners"));
    assert_cmd_snapshot!("constraint_of_others", explain(folder.path(), &["Namespace", "shop", "pods-have-owners"]));
    assert_cmd_snapshot!("json", explain(folder.path(), &["Pod", "bad", "deny_privileged", "-o", "json"]));
    assert_cmd_snapshot!(
        "colour",
        explain(folder.path(), &["Pod", "bad", "deny_privileged", "-p", "policies", "--color", "always"])
    );
    assert_cmd_snapshot!("builtin", explain(folder.path(), &["Pod", "bad", "deny_privileged", "-p", "builtin"]));
}

/// A rule without an object: by id or name, for people and programs.
#[test]
fn a_rule_is_described_without_an_object() {
    let folder = folder();
    for (name, what) in [
        ("rule", &["IMG-01"][..]),
        ("rule_of_two_definitions", &["images/deny_owner"]),
        ("rule_json", &["deny_root", "-o", "json"]),
        ("rule_unknown", &["IMG-10"]),
    ] {
        assert_cmd_snapshot!(name, explain(folder.path(), what));
    }
}

#[test]
fn a_result_is_found_by_its_id() {
    let folder = folder();
    let audit = kaudit(folder.path(), &["check", "-f", "pods.yaml", "-o", "json"]).output().unwrap();
    let audit: serde_json::Value = serde_json::from_slice(&audit.stdout).unwrap();
    let results = audit["results"].as_array().unwrap();
    assert!(results.len() > 4, "{audit}");
    for result in results {
        let id = result["id"].as_str().unwrap();
        let output = explain(folder.path(), &[id, "-o", "json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let explained: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = explained["results"].as_array().unwrap();
        assert!(found.contains(result), "{result} is not in {explained}");
        assert_eq!((&explained["policy"], &explained["rule"]), (&result["policy"], &result["rule"]));
    }
    assert_cmd_snapshot!("no_result", explain(folder.path(), &["0123456789abcdef"]));
    assert_cmd_snapshot!("no_id", explain(folder.path(), &["deny_latest"]));
}

#[test]
fn all_objects_with_one_name_are_explained() {
    let folder = folder();
    let pod = |image: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: twice, namespace: shop}}\nspec: {{containers: [{{name: c, image: {image}}}]}}\n"
        )
    };
    let service = "apiVersion: serving.knative.dev/v1\nkind: Pod\nmetadata: {name: good, namespace: shop}\n";
    std::fs::write(folder.path().join("more.yaml"), format!("{}---\n{}", pod("web:latest"), pod("web:1"))).unwrap();
    std::fs::write(folder.path().join("other.yaml"), format!("{}---\n{service}", pod("api:latest"))).unwrap();
    let explain = |more: &[&str]| explain(folder.path(), &[&["-f", "more.yaml", "-f", "other.yaml"], more].concat());
    let rule = ["Pod", "shop/twice", "images/deny_latest"];
    assert_cmd_snapshot!("twice", explain(&rule));
    let json = |more: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&explain(&[more, &["-o", "json"]].concat()).output().unwrap().stdout).unwrap()
    };
    let list = json(&rule);
    let items = list["items"].as_array().unwrap();
    let lines: Vec<_> = items
        .iter()
        .map(|item| (item["location"]["file"].as_str(), item["results"].as_array().unwrap().len()))
        .collect();
    assert_eq!(
        (list["kind"].as_str(), lines),
        (Some("ExplanationList"), vec![(Some("more.yaml"), 1), (Some("more.yaml"), 0), (Some("other.yaml"), 1)])
    );
    let id = items[2]["results"][0]["id"].as_str().unwrap();
    assert_eq!(json(&[id])["items"].as_array().unwrap().len(), 3);
    assert_cmd_snapshot!("several_kinds", explain(&["Pod", "shop/good", "images/deny_latest"]));
    assert_eq!(json(&["Pod.core", "shop/good", "images/deny_latest"])["kind"], "Explanation");
}

#[test]
fn rules_that_settings_disable_for_the_object_are_explained() {
    let folder = folder();
    let explained = |settings: &[&str]| {
        let mut command = explain(folder.path(), &["pod", "shop/bad", "IMG-01"]);
        let output = command.args(settings).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let elsewhere = explained(&["--rules", "{IMG-01: {namespaces: [bank]}}"]);
    assert!(
        elsewhere
            .contains("passes: this rule is not evaluated for it: the rule settings limit it to other namespaces\n"),
        "{elsewhere}"
    );
    let worse = explained(&["--min-severity", "critical"]);
    assert!(worse.contains("passes: only violations of severity critical or worse are reported\n"), "{worse}");
    for settings in [&["--rules", "{IMG-01: {namespaces: [shop]}}"], &["--min-severity", "high"]] {
        let fails = explained(settings);
        assert!(!fails.contains("passes") && fails.contains("container two runs web:latest"), "{fails}");
    }
}

#[test]
fn unknown_names_are_errors_with_suggestions() {
    let folder = folder();
    assert_cmd_snapshot!("no_rule", explain(folder.path(), &["Pod", "shop/bad", "deny_lates"]));
    assert_cmd_snapshot!("no_rule_of_a_policy", explain(folder.path(), &["Pod", "shop/bad", "image/deny_latest"]));
    assert_cmd_snapshot!(
        "several_rules",
        explain(folder.path(), &["Pod", "shop/bad", "deny", "-p", "policies", "-p", "more"])
    );
    assert_cmd_snapshot!("no_object", explain(folder.path(), &["Pod", "shop/bade", "deny_latest"]));
    assert_cmd_snapshot!("no_object_there", explain(folder.path(), &["Pod", "billing/bad", "deny_latest"]));
    assert_cmd_snapshot!("no_kind", explain(folder.path(), &["Pode", "shop/bad", "deny_latest"]));
    assert_cmd_snapshot!("no_kind_at_all", explain(folder.path(), &["a b", "shop/bad", "deny_latest"]));
    assert_cmd_snapshot!("two_words", explain(folder.path(), &["Pod", "shop/bad"]));
    assert_cmd_snapshot!("nothing_to_explain", explain(folder.path(), &[]));
    assert_cmd_snapshot!(
        "files_and_context",
        explain(folder.path(), &["Pod", "shop/bad", "deny_latest", "--context", "prod"])
    );
}

#[test]
fn possible_secrets_are_hidden_unless_requested() {
    let deployment = "apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop, annotations: {note: 'DB_PASSWORD=correct-horse-battery'}}
spec:
  template:
    spec:
      containers:
      - name: api
        image: api:latest
        env:
        - {name: DB_PASSWORD, value: correct-horse-battery}
        - {name: MODE, value: hidden-mode}
";
    let policy = "package p

deny_env contains \"env\" if {
	container := input.spec.template.spec.containers[_]
	variable := container.env[_]
	value := variable.value
	shorter := substring(value, 0, 100)
	input.metadata.annotations.note != shorter
	loud := upper(value)
	part := substring(value, 8, 5)
	encoded := base64.encode(value)
	base64.encode(\"api:latest\") != encoded
	loud != part
	endswith(container.image, \":latest\")
}
";
    let folder = files::folder(&[("p/p.rego", policy), ("m.yaml", deployment)]);
    for (policies, rule) in [("p", "deny_env"), ("builtin", "deny_latest_tag"), ("builtin", "deny_literal_secret")] {
        for format in ["text", "json"] {
            let with = |more: &[&str]| {
                let arguments =
                    ["explain", "-f", "m.yaml", "-p", policies, "-o", format, "Deployment", "shop/api", rule];
                let ended = kaudit(folder.path(), &[&arguments, more].concat()).output().unwrap();
                assert!(ended.status.success(), "{ended:?}");
                String::from_utf8(ended.stdout).unwrap()
            };
            let text = with(&[]);
            assert!(!text.contains("correct-h") && !text.contains("hidden-mode") && text.contains("***"), "{text}");
            let derived = ["CORRECT", "HIDDEN", "horse", "Y29ycmVjd", "aGlkZGVu"];
            assert!(derived.iter().all(|secret| !text.contains(secret)), "{text}");
            // Values derived from other fields are shown.
            assert!(policies != "p" || text.contains("YXBpOmxhdGVzdA"), "{text}");
            assert!(with(&["--secrets", "full"]).contains("correct-h"));
        }
    }
}

const LOOKUP: &str = "apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: limits}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  variables:
  - {name: limits, expression: \"resource.Get('v1', 'configmaps', 'default', 'limits')\"}
  validations:
  - {expression: string(size(object.spec.containers)) <= variables.limits.data.containers}
";

const LIMITS: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: limits}
data: {containers: '0'}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: one, image: 'web:1'}]}
";

#[test]
fn a_cel_policy_looks_up_objects_as_in_a_check() {
    let folder = files::folder(&[("policies/limits.yaml", LOOKUP), ("limits.yaml", LIMITS)]);
    let run = |arguments: &[&str]| kaudit(folder.path(), arguments);
    assert_cmd_snapshot!("cel_lookup_checked", run(&["check", "-f", "limits.yaml"]));
    assert_cmd_snapshot!("cel_lookup", run(&["explain", "-f", "limits.yaml", "Pod", "web", "limits/validations"]));
}
