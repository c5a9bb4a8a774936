//! A policy in each file dialect, all of which require a label on `ConfigMap`s; one relates objects.

/// The fixed metadata of the rules in Kubescape's layout: the objects that they apply to.
pub(super) const ABOUT: [(&str, &str); 2] = [
    ("rules/alone/rule.metadata.json", r#"{"name": "alone", "ruleLanguage": "Rego", "match": [MATCH]}"#),
    ("rules/related/rule.metadata.json", r#"{"name": "related", "ruleLanguage": "Rego", "match": [MATCH]}"#),
];

/// The `match` field of these rules.
pub(super) const MATCH: &str = r#"{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["ConfigMap"]}"#;

/// Files with their contents; `LABEL` and `WORDS` are placeholders.
pub(super) const FILES: [(&str, &str); 5] = [
    (
        "conftest.rego",
        r#"package files.conftest

deny contains "WORDS LABEL" if {
	input.kind == "ConfigMap"
	not input.metadata.labels.LABEL
}
"#,
    ),
    (
        "admission.rego",
        r#"package files.admission

deny contains "WORDS LABEL" if {
	input.request.kind.kind == "ConfigMap"
	not input.request.object.metadata.labels.LABEL
}
"#,
    ),
    (
        "trivy.rego",
        r#"# METADATA
# custom:
#   id: USR-0001
#   severity: HIGH
#   input:
#     selector:
#       - type: kubernetes
#         subtypes: [{kind: configmap}]
package user.files.trivy

deny contains res if {
	not input.metadata.labels.LABEL
	res := result.new("WORDS LABEL", input)
}
"#,
    ),
    (
        "rules/alone/raw.rego",
        r#"package armo_builtins

deny contains msga if {
	map := input[_]
	not map.metadata.labels.LABEL
	msga := {"alertMessage": "WORDS LABEL", "packagename": "armo_builtins", "alertScore": 1, "failedPaths": [],
		"fixPaths": [], "alertObject": {"k8sApiObjects": [map]}}
}
"#,
    ),
    (
        "rules/related/raw.rego",
        r#"package armo_builtins

deny contains msga if {
	map := input[_]
	not map.metadata.labels.LABEL
	other := input[_]
	other.metadata.namespace == map.metadata.namespace
	other.metadata.labels.LABEL
	msga := {"alertMessage": sprintf("WORDS LABEL, as %v has", [other.metadata.name]), "packagename": "armo_builtins",
		"alertScore": 1, "failedPaths": [], "fixPaths": [], "alertObject": {"k8sApiObjects": [map]}}
}
"#,
    ),
];
