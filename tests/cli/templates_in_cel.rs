//! Gatekeeper templates in CEL: the commands that show policies and results.

use std::fs;

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files::folder;

use crate::kaudit;

const TEMPLATE: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata:
  name: k8sreplicas
  annotations: {metadata.gatekeeper.sh/title: Replicas}
spec:
  crd:
    spec:
      names: {kind: K8sReplicas}
      validation:
        openAPIV3Schema: {type: object, properties: {most: {type: integer, default: 3}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: Rego
      source:
        rego: |
          package k8sreplicas

          violation[{"msg": msg}] {
            input.review.object.spec.replicas > input.parameters.most
            msg := "too many, says Rego"
          }
    - engine: K8sNativeValidation
      source:
        variables:
        - name: replicas
          expression: variables.anyObject.spec.replicas
        validations:
        - expression: |
            variables.replicas <=
              variables.params.most
          messageExpression: "'more than ' + string(variables.params.most) + ' replicas'"
"#;

const CONSTRAINT: &str = "apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sReplicas
metadata: {name: few, annotations: {policy.kaudit.dev/severity: high}}
spec:
  match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}], excludedNamespaces: [kube-*]}
  parameters: {}
";

const OBJECTS: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: many, namespace: shop}
spec: {replicas: 5}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: few, namespace: shop}
spec: {replicas: 1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: none, namespace: shop}
spec: {}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: dns, namespace: kube-system}
spec: {replicas: 9}
";

const SUITE: &str = "apiVersion: test.gatekeeper.sh/v1alpha1
kind: Suite
tests:
- name: replicas
  template: template.yaml
  constraint: constraint.yaml
  cases:
  - name: many
    object: many.yaml
    assertions: [{violations: 1, message: ^more than 3 replicas$}]
  - name: none
    object: none.yaml
    assertions: [{violations: 1, message: 'no such key: replicas'}]
";

#[test]
fn commands_evaluate_list_explain_and_test_templates_in_cel() {
    let all = folder(&[
        ("policies/template.yaml", TEMPLATE),
        ("policies/constraint.yaml", CONSTRAINT),
        ("objects.yaml", OBJECTS),
    ]);
    let run = |arguments: &[&str]| kaudit(all.path(), arguments);
    assert_cmd_snapshot!("cel_check", run(&["check", "-f", "objects.yaml"]));
    assert_cmd_snapshot!("cel_check_rego", run(&["check", "-f", "objects.yaml", "--gatekeeper-engine", "rego"]));
    let settings = "{K8sReplicas/few: {severity: low, namespaces: [shop]}}";
    assert_cmd_snapshot!("cel_check_settings", run(&["check", "-f", "objects.yaml", "--rules", settings]));
    assert_cmd_snapshot!("cel_policies", run(&["policies"]));
    let explain = |object: &str| run(&["explain", "-f", "objects.yaml", "Deployment", object, "K8sReplicas/few"]);
    assert_cmd_snapshot!("cel_explain", explain("shop/many"));
    assert_cmd_snapshot!("cel_explain_pass", explain("shop/few"));
    assert_cmd_snapshot!("cel_explain_error", explain("shop/none"));
    assert_cmd_snapshot!("cel_explain_unmatched", explain("kube-system/dns"));
    assert_cmd_snapshot!("cel_describe", run(&["explain", "K8sReplicas/few"]));
    let documents: Vec<&str> = OBJECTS.split("---\n").collect();
    for (name, text) in [("many.yaml", documents[0]), ("none.yaml", documents[2]), ("suite.yaml", SUITE)] {
        fs::write(all.path().join("policies").join(name), text).unwrap();
    }
    assert_cmd_snapshot!("cel_test", run(&["test", "--timeout", "60s"]));
    assert_cmd_snapshot!("cel_test_rego", run(&["test", "--timeout", "60s", "--gatekeeper-engine", "rego"]));
}
