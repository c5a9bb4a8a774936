//! Loaded and refused policies, and the effect on an audit.

use std::fs;

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files::folder;

use crate::kaudit;

/// All annotations, and two rules.
const IMAGES: &str = r#"# METADATA
# title: Images
# description: What may run here.
package images

import data.lib.registries

# METADATA
# title: Tag latest
# description: |
#   Nobody can tell what runs after the next restart.
# related_resources:
# - ref: https://example.com/latest
#   description: Why
# custom:
#   severity: high
#   id: IMG-1
deny_latest contains msg if {
	some container in input.spec.containers
	endswith(container.image, ":latest")
	msg := sprintf("container %s has no fixed tag", [container.name])
}

warn_registry contains msg if {
	some container in input.spec.containers
	not registries.known(container.image)
	msg := sprintf("container %s comes from elsewhere", [container.name])
}
"#;

const REGISTRIES: &str = "package lib.registries\n\nknown(image) if startswith(image, \"registry.example.com/\")\n";

/// Rego v0, with everything that a verdict can depend on.
const CHANGES: &str = r#"package kubernetes.admission

deny[msg] {
	input.request.operation == "UPDATE"
	input.request.oldObject.spec != input.request.object.spec
	data.kubernetes.namespaces[input.request.namespace].metadata.labels.frozen
	time.now_ns() > 0
	msg := "nothing may change here"
}
"#;

const BROKEN: &str = "package broken\n\ndeny contains \"x\" if input.spec.replicas > )\n";

const TEMPLATES: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8sreplicas}
spec:
  crd: {spec: {names: {kind: K8sReplicas}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source: {validations: [{expression: object.spec.replicas < 4, message: too many}]}
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata:
  name: k8sowner
  annotations: {description: Everything has an owner.}
spec:
  crd: {spec: {names: {kind: K8sOwner}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package k8sowner

      violation[{"msg": "label owner is missing"}] {
        not input.review.object.metadata.labels.owner
      }
"#;

const CONSTRAINTS: &str = "apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sReplicas
metadata: {name: few}
spec:
  match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sReplicas
metadata: {name: generated}
spec:
  match: {source: Generated}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sOwner
metadata: {name: all-pods}
spec:
  enforcementAction: warn
  match: {kinds: [{apiGroups: ['', apps], kinds: [Pod, Deployment]}], namespaceSelector: {matchLabels: {team: a}}}
";

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec:\n  containers: [{name: web, image: registry.example.com/web:1}]\n";

#[test]
fn policies_are_listed_with_what_they_depend_on() {
    let folder = folder(&[
        ("policies/images.rego", IMAGES),
        ("policies/lib/registries.rego", REGISTRIES),
        ("policies/changes.rego", CHANGES),
    ]);
    assert_cmd_snapshot!("list", kaudit(folder.path(), &["policies"]));
    assert_cmd_snapshot!("list_json", kaudit(folder.path(), &["policies", "policies", "-o", "json"]));
    let mut from_environment = kaudit(folder.path(), &["policies", "--color", "always"]);
    assert_cmd_snapshot!("list_colour", from_environment.env("KAUDIT_POLICIES", "policies/images.rego,policies/lib"));
}

#[test]
fn templates_and_constraints_are_listed_with_unsupported_ones() {
    let folder = folder(&[
        ("policies/templates.yaml", TEMPLATES),
        ("policies/constraints.yaml", CONSTRAINTS),
        ("pod.yaml", POD),
    ]);
    assert_cmd_snapshot!("list_gatekeeper", kaudit(folder.path(), &["policies"]));
    assert_cmd_snapshot!("list_gatekeeper_json", kaudit(folder.path(), &["policies", "-o", "json"]));
    assert_cmd_snapshot!("not_judged", kaudit(folder.path(), &["check", "-f", "pod.yaml"]));
    assert_cmd_snapshot!("not_judged_ndjson", kaudit(folder.path(), &["check", "-f", "pod.yaml", "-o", "ndjson"]));
}

/// Returns a check in the style of Trivy's library.
fn trivy_check(id: &str, rest: &str, selector: &str) -> String {
    format!(
        "# METADATA\n# title: Privileged\n# description: What a container may do.\n# custom:\n#   id: {id}\n\
         #   long_id: no-privileged-{id}\n#   aliases: [AVD-{id}]\n#   severity: HIGH\n\
         #   recommended_action: Take securityContext.privileged away.\n{rest}#   input: {{selector: [{selector}]}}\n\
         package builtin.kubernetes.{}\n\nimport rego.v1\n\n\
         deny contains res if {{\n\tsome container in input.spec.containers\n\
         \tcontainer.securityContext.privileged\n\tres := result.new(\"privileged\", container)\n}}\n",
        id.replace('-', "")
    )
}

/// Returns a test of a check.
fn trivy_test(package: &str) -> String {
    format!(
        "package builtin.kubernetes.{package}_test\n\nimport rego.v1\n\nimport data.builtin.kubernetes.{package} as check\n\n\
         test_nothing if count(check.deny) == 0 with input as {{}}\n"
    )
}

#[test]
fn trivy_checks_are_listed_and_others_counted() {
    let kubernetes = "{type: kubernetes, subtypes: [{kind: pod}]}";
    let node = "{type: kubernetes, subtypes: [{kind: nodeinfo}]}";
    let mut files = vec![
        ("checks/a.rego".to_owned(), trivy_check("KSV-1", "", kubernetes)),
        ("checks/b.rego".to_owned(), trivy_check("KSV-2", "#   deprecated: true\n", kubernetes)),
        ("node/c.rego".to_owned(), trivy_check("KCV-1", "", node)),
        ("node/c_test.rego".to_owned(), trivy_test("KCV1")),
        ("checks/a_test.rego".to_owned(), trivy_test("KSV1")),
        ("checks/docker/1_test.rego".to_owned(), trivy_test("DS1")),
        ("checks/docker/2_test.rego".to_owned(), trivy_test("DS2")),
        (
            "pod.yaml".to_owned(),
            POD.replace("{name: web, image", "{name: web, securityContext: {privileged: true}, image"),
        ),
    ];
    files.extend((1..12).map(|n| {
        let check = trivy_check(&format!("DS-{n}"), "", "{type: dockerfile}");
        (
            format!("checks/docker/{n}.rego"),
            check.replace("container.securityContext", "sh.parse_commands(container)[0]"),
        )
    }));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let folder = folder(&files);
    assert_cmd_snapshot!("list_trivy", kaudit(folder.path(), &["policies", "checks", "node"]));
    assert_cmd_snapshot!(
        "list_trivy_json",
        kaudit(folder.path(), &["policies", "checks/a.rego", "node", "-o", "json"])
    );
    assert_cmd_snapshot!("list_trivy_node", kaudit(folder.path(), &["policies", "node"]));
    let check = ["check", "-f", "pod.yaml", "-p", "checks"];
    assert_cmd_snapshot!("check_trivy", kaudit(folder.path(), &[&check[..], &["-o", "ndjson"]].concat()));
    let rule = ["explain", "-f", "pod.yaml", "-p", "checks", "Pod", "shop/web", "builtin.kubernetes.KSV1/deny"];
    assert_cmd_snapshot!("explain_trivy", kaudit(folder.path(), &rule));
    assert_cmd_snapshot!("test_trivy", kaudit(folder.path(), &["test", "checks", "node"]));
}

#[test]
fn refused_policies_are_listed_and_2() {
    let folder = folder(&[
        ("policies/images.rego", IMAGES),
        ("policies/lib/registries.rego", &REGISTRIES.replace("if", "if if")),
        ("policies/changes.rego", CHANGES),
        ("nothing/lib.rego", REGISTRIES),
    ]);
    assert_cmd_snapshot!("list_refused", kaudit(folder.path(), &["policies"]));
    assert_cmd_snapshot!("list_refused_json", kaudit(folder.path(), &["policies", "-o", "json"]));
    assert_cmd_snapshot!("list_nothing", kaudit(folder.path(), &["policies", "nothing"]));
    assert_cmd_snapshot!("list_nowhere", kaudit(folder.path(), &["policies", "nowhere"]));
}

#[test]
fn refused_files_stop_check_unless_allowed() {
    let bad = POD.replace(":1}", ":latest}");
    let folder = folder(&[
        ("policies/images.rego", IMAGES),
        ("policies/lib/registries.rego", REGISTRIES),
        ("policies/broken.rego", BROKEN),
        ("good.yaml", POD),
        ("bad.yaml", &bad),
    ]);
    let check = |arguments: &[&str]| kaudit(folder.path(), &[&["check"], arguments].concat());
    assert_cmd_snapshot!("refused", check(&["-f", "good.yaml"]));
    assert_cmd_snapshot!("refused_allowed", check(&["-f", "good.yaml", "--allow-refused"]));
    assert_cmd_snapshot!("refused_allowed_json", check(&["-f", "good.yaml", "--allow-refused", "-o", "json"]));
    assert_cmd_snapshot!("refused_allowed_ndjson", check(&["-f", "good.yaml", "--allow-refused", "-o", "ndjson"]));
    assert_cmd_snapshot!("refused_allowed_violation", check(&["-f", "bad.yaml", "--allow-refused"]));
    // No policy is left.
    assert_cmd_snapshot!("refused_all", check(&["-f", "bad.yaml", "--allow-refused", "-p", "policies/broken.rego"]));
}

#[test]
fn strict_mode_reports_builtin_errors() {
    let number =
        "package number\n\ndeny contains \"too many\" if time.parse_rfc3339_ns(input.spec.containers[0].name) > 3\n";
    let folder = folder(&[("policies/number.rego", number), ("pod.yaml", POD)]);
    let check = |arguments: &[&str]| kaudit(folder.path(), &[&["check", "-f", "pod.yaml"], arguments].concat());
    assert_cmd_snapshot!("not_strict", check(&[]));
    assert_cmd_snapshot!("strict", check(&["--strict"]));
}

#[test]
fn the_evaluation_timeout_is_configurable() {
    let slow = "package slow\n\ndeny contains \"x\" if {\n\tsome a in numbers.range(1, 3000)\n\tsome b in numbers.range(1, 3000)\n\ta * b < 0\n}\n";
    let folder = folder(&[("policies/slow.rego", slow), ("pod.yaml", POD)]);
    let arguments = ["check", "-f", "pod.yaml", "--evaluation-timeout", "50ms"];
    assert_cmd_snapshot!("evaluation_timeout", kaudit(folder.path(), &arguments));
    let arguments = ["check", "-f", "pod.yaml", "--evaluation-timeout", "50"];
    assert_cmd_snapshot!("evaluation_timeout_without_unit", kaudit(folder.path(), &arguments));
}

/// Creates a library in Kubescape's layout, with controls that are evaluated, in part or not at all, each for another
/// reason.
fn controls() -> tempfile::TempDir {
    let rule = |name: &str, attributes: &str| {
        let metadata = format!(
            r#"{{"name": "{name}", "attributes": {attributes}, "ruleLanguage": "Rego",
                "match": [{{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["Pod"]}}]}}"#
        );
        (format!("library/rules/{name}/rule.metadata.json"), metadata)
    };
    let module = |name: &str| {
        let module = "package armo_builtins\n\nimport rego.v1\n\ndeny contains {\"alertMessage\": \"x\"} if input[_].spec.hostNetwork\n";
        (format!("library/rules/{name}/raw.rego"), module.to_owned())
    };
    let control = |id: &str, name: &str, rules: &str| {
        let control = format!(r#"{{"controlID": "{id}", "name": "{name}", "baseScore": 5, "rulesNames": {rules}}}"#);
        (format!("library/controls/{id}.json"), control)
    };
    let host = r#"{"hostSensorRule": "true"}"#;
    let ids = ["E-1", "E-2", "E-3", "E-4", "E-5", "E-9"].map(|id| format!(r#"{{"controlID": "{id}"}}"#)).join(", ");
    let files = [
        rule("pods", "{}"),
        module("pods"),
        rule("kubelet-port", host),
        module("kubelet-port"),
        rule("kubelet-files", host),
        module("kubelet-files"),
        control("E-1", "Networks of nodes", r#"["pods"]"#),
        control("E-2", "Networks and ports", r#"["pods", "kubelet-port"]"#),
        control("E-3", "Kubelet", r#"["kubelet-port", "kubelet-files"]"#),
        control("E-4", "Review by people", "[]"),
        control("E-5", "Lost", r#"["lost-rule"]"#),
        control("E-6", "Of no framework", r#"["kubelet-files"]"#),
        ("library/frameworks/audit.json".to_owned(), format!(r#"{{"name": "Audit", "activeControls": [{ids}]}}"#)),
        ("pod.yaml".to_owned(), POD.to_owned()),
    ];
    folder(&files.each_ref().map(|(path, text)| (path.as_str(), text.as_str())))
}

#[test]
fn unsupported_controls_of_a_framework_are_listed_with_the_reason() {
    let folder = controls();
    let framework = ["library", "--framework", "audit"];
    let list = |more: &[&str]| kaudit(folder.path(), &[&["policies"], &framework[..], more].concat());
    assert_cmd_snapshot!("list_controls", list(&[]));
    let json = list(&["-o", "json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let counts = serde_json::json!({"judged": 1, "partlyJudged": 1, "notJudged": 4});
    assert_eq!(json["summary"]["controls"], counts, "{json}");
    let rules = json["notJudged"].as_array().unwrap().iter().map(|rule| {
        let controls = rule["controls"].as_array().unwrap().iter().map(|control| control["id"].as_str().unwrap());
        format!("{} {}: {}", controls.collect::<Vec<_>>().join(" "), rule["name"].as_str().unwrap(), rule["reason"])
    });
    let host = "\"it needs data of Kubescape's host scanner about the nodes\"";
    let wanted = [
        "E-4 E-4: \"it has no rule\"".to_owned(),
        "E-9 E-9: \"there is no such control\"".to_owned(),
        format!("E-3 kubelet-files: {host}"),
        format!("E-2 E-3 kubelet-port: {host}"),
        "E-5 lost-rule: \"there is no such rule\"".to_owned(),
    ];
    assert_eq!(rules.collect::<Vec<_>>(), wanted);
    let check = ["check", "-f", "pod.yaml", "-p", "library", "--framework", "audit"];
    assert_cmd_snapshot!("controls_not_judged", kaudit(folder.path(), &check));
    // Without a framework, all controls for clusters are selected.
    let all = kaudit(folder.path(), &["policies", "library"]).output().unwrap();
    let all = String::from_utf8(all.stdout).unwrap();
    assert!(all.contains("not evaluated: E-6 Of no framework: kubelet-files (") && !all.contains("E-9"), "{all}");
}

/// A policy whose rules name a framework of the team, and one of the library in an outdated form.
const OF_FRAMEWORKS: &str = "\
package team

# METADATA
# title: Ports
# custom:
#   id: TEAM-01
#   frameworks: {acme: [A.2, A.1], cis: [5.2.13]}
deny_ports contains \"ports\" if input.spec.ports

# METADATA
# custom:
#   frameworks: {acme: [A.1], pss: [basic]}
deny_host contains \"host\" if input.spec.hostNetwork

deny_other contains \"other\" if input.spec.other
";

#[test]
fn the_controls_of_a_framework_are_listed_with_their_rules() {
    let folder = folder(&[("team/team.rego", OF_FRAMEWORKS), ("pod.yaml", POD)]);
    let list = |arguments: &[&str]| kaudit(folder.path(), &[&["policies"], arguments].concat());
    assert_cmd_snapshot!("framework_cis", list(&["builtin:rbac", "team", "--framework", "cis"]));
    assert_cmd_snapshot!("framework_own", list(&["team", "--framework", "acme"]));
    // The library's digest changes with each of its files.
    insta::with_settings!({ filters => [("[0-9a-f]{64}", "DIGEST")] }, {
        assert_cmd_snapshot!(
            "framework_json",
            list(&["builtin:pod_security", "--framework", "pss:baseline", "-o", "json"])
        );
    });
    for unknown in ["ciss", "pss:basline", "acm", "zzz"] {
        assert_cmd_snapshot!(
            format!("framework_unknown_{}", unknown.replace(':', "_")),
            list(&["team", "--framework", unknown])
        );
    }
    assert_cmd_snapshot!(
        "framework_without_rules",
        kaudit(folder.path(), &["check", "-f", "pod.yaml", "-p", "team", "--framework", "nsa"])
    );
}

#[test]
fn a_framework_selects_rules_of_all_sources() {
    let folder = controls();
    fs::write(folder.path().join("team.rego"), OF_FRAMEWORKS).unwrap();
    let check = |arguments: &[&str]| {
        kaudit(
            folder.path(),
            &[&["check", "-f", "pod.yaml", "-p", "builtin", "-p", "team.rego", "-p", "library"], arguments].concat(),
        )
    };
    assert_cmd_snapshot!("framework_check", check(&["--framework", "pss:baseline"]));
    assert_cmd_snapshot!("framework_check_library", check(&["--framework", "audit"]));
    assert_cmd_snapshot!("framework_check_both", check(&["--framework", "audit,acme:A.2", "--skip-rule", "E-1"]));
    let json = check(&["--framework", "acme", "-o", "json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        json["policies"][0]["aboutRules"]["deny_ports"]["frameworks"],
        serde_json::json!({"acme": ["A.2", "A.1"], "cis": ["5.2.13"]})
    );
    let skipped = json["skippedRules"].as_array().unwrap();
    assert!(
        skipped.iter().any(|rule| rule["id"] == "RBAC-01" && rule["reason"] == "not in the chosen framework"),
        "{skipped:?}"
    );
}
