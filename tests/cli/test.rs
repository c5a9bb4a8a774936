//! `kaudit test`: output of failing, erroneous and skipped tests of both kinds, in every format.

mod opa_and_gator;

use std::{fs, path::Path, process::Command};

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files::folder;

use crate::kaudit;

/// Returns `kaudit test` with a timeout suitable for a busy machine.
pub(crate) fn test(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = kaudit(folder, &["test", "--timeout", "60s"]);
    command.args(arguments);
    command
}

/// Returns the output of a command without durations.
fn without_times(command: &mut Command) -> String {
    let written = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let times = regex::Regex::new(r"\([0-9.]+(ns|µs|ms|s)\)").unwrap();
    times.replace_all(&written, "(TIME)").into_owned()
}

pub(crate) const POLICY: &str = r#"package shop

import data.lib.names

deny contains msg if {
	input.replicas > limit
	msg := sprintf("%d replicas are too many", [input.replicas])
}

deny contains "no name" if not names.has(input)

limit := 3

two := 1 if input.a

two := 2 if input.b

allowed if {
	some team in data.teams
	team.name == input.team
}
"#;

pub(crate) const LIBRARY: &str = "package lib.names\n\nhas(object) if object.name != \"\"\n";

pub(crate) const TEAMS: &str = "- name: red\n- name: blue\n";

/// Rego v0, and not in a test file.
pub(crate) const OLD: &str = "package old\n\ndeny[msg] { input.x; msg := \"x\" }\n\ntest_deny { count(deny) == 1 with input as {\"x\": true} }\n\n\
                test_keys[\"a\"] { true }\n\ntest_table[\"a\"] = true { true }\n\ntest_both { false } { 1 > 2 }\n";

/// Tests that each fail in a different way.
pub(crate) const FAILING: &str = r#"package shop_test

import data.lib.names
import data.shop

big := {"replicas": 5, "name": "web"}

test_passes if count(shop.deny) == 1 with input as big

test_comparison if {
	found := shop.deny with input as big
	message := [text | some text in found]
	message[0] == "5 replicas are too few"
}

test_undefined_rule if {
	shop.allowed with input as {"team": "green"}
}

test_undefined_field if {
	labels := input.labels with input as big
	labels.app == "web"
}

test_negation if not names.has(big)

test_every if {
	every team in data.teams { startswith(team.name, "r") }
}

test_every_with_lines if {
	limits := [1, 4, 9]
	every i, limit in limits {
		limit > 0
		shop.limit + i < limit
	}
}

test_loop if {
	some team in data.teams
	name := upper(team.name)
	name == "GREEN"
}

test_several_lines if {
	shop.deny == {
		"no name",
		"other",
	} with input as {"replicas": 1}
}

test_value := count(shop.deny) == 7

test_number := 7

test_object := {"a": true}

test_set contains "a"

default test_default := false

test_else if {
	false
} else := shop.limit == 4

test_conflict if shop.two == 1 with input as {"a": 1, "b": 1}

test_function(x) if x == 1

test_printed if {
	print("replicas", big.replicas, {"a": [1]})
	big.replicas == 6
}

test_twice if true

test_twice if 1 == 2

todo_test_later if false

nested.test_inside if big.replicas == 4

test_contains if "x" in [names | some names in [big.name]]

test_arithmetic if (big.replicas - 1) * 2 == shop.limit
"#;

pub(crate) const TABLES: &str = r#"package table_test

import data.shop

test_replicas[case.note] if {
	some case in [
		{"note": "few", "replicas": 2, "want": 1},
		{"note": "many", "replicas": 7, "want": 2},
		{"note": "all", "replicas": 9, "want": 3},
	]
	found := shop.deny with input as {"replicas": case.replicas}
	print(case.note, found)
	count(found) == case.want
}

test_groups[group][case] if {
	some group, cases in {"odd": {"one": 1, "two": 2}, "even": {"four": 4}}
	some case, number in cases
	number % 2 == {"odd": 1, "even": 0}[group]
}

test_values[key] := value if {
	some key, value in {"right": true, "wrong": false}
}

test_no_case[name] if {
	some name in data.nothing
}
"#;

pub(crate) fn policies(tests: &[(&'static str, &'static str)]) -> tempfile::TempDir {
    let rest =
        [("policies/shop.rego", POLICY), ("policies/lib/names.rego", LIBRARY), ("policies/teams/data.yaml", TEAMS)];
    let files: Vec<_> = rest.into_iter().chain(tests.iter().copied()).collect();
    folder(&files)
}

#[test]
fn failures_are_explained() {
    let folder = policies(&[("policies/shop_test.rego", FAILING)]);
    assert_cmd_snapshot!("test_failing", test(folder.path(), &[]));
    assert_cmd_snapshot!("test_run", test(folder.path(), &["-r", "shop_test.test_(passes|every$)"]));
    assert_cmd_snapshot!("test_json", test(folder.path(), &["-r", "passes|every$|later|conflict", "-o", "json"]));
    assert_cmd_snapshot!(
        "test_junit",
        test(folder.path(), &["-r", "passes|every$|later|conflict|printed", "-o", "junit"])
    );
}

#[test]
fn table_tests_have_cases() {
    let folder = policies(&[("policies/table_test.rego", TABLES)]);
    assert_cmd_snapshot!("test_tables", test(folder.path(), &["policies"]));
    assert_cmd_snapshot!("test_tables_junit", test(folder.path(), &["-r", "replicas", "-o", "junit"]));
}

#[test]
fn rego_v0_is_supported_in_any_file() {
    let folder = folder(&[("policies/old.rego", OLD)]);
    assert_cmd_snapshot!("test_version_0", test(folder.path(), &[]));
}

#[test]
fn coverage_counts_lines_of_policies() {
    let covering = "package shop_test\n\ntest_deny if count(data.shop.deny) == 1 with input as {\"replicas\": 1}\n";
    let folder = policies(&[("policies/shop_test.rego", covering)]);
    assert_cmd_snapshot!("test_coverage", test(folder.path(), &["--coverage"]));
    assert_cmd_snapshot!("test_coverage_json", test(folder.path(), &["--coverage", "-o", "json"]));
    assert_cmd_snapshot!("test_threshold", test(folder.path(), &["--threshold", "90"]));
    assert_cmd_snapshot!("test_threshold_met", test(folder.path(), &["--threshold", "10%"]));
}

#[test]
fn verbose_shows_everything() {
    let printing =
        "package a_test\n\ntest_print if {\n\tprint(\"one\", 1)\n\tprint({\"two\"})\n}\n\ntodo_test_b if true\n";
    let folder = folder(&[("policies/a_test.rego", printing)]);
    insta::assert_snapshot!("test_verbose", without_times(&mut test(folder.path(), &["-v"])));
    assert_cmd_snapshot!("test_quiet", test(folder.path(), &[]));
}

#[test]
fn load_errors_are_2() {
    let folder = folder(&[
        ("broken/a_test.rego", "package a_test\n\ntest_a if {\n"),
        ("unknown/a_test.rego", "package a_test\n\ntest_a if starts_with(\"a\", \"b\")\n\ntest_b if data.a.f(1)\n"),
        ("circle/a_test.rego", "package a_test\n\ntest_a if test_b\n\ntest_b if test_a\n"),
        ("deep/a_test.rego", &format!("package a_test\n\ntest_a if {}1{} == 1\n", "[".repeat(40), "]".repeat(40))),
        ("none/a.rego", "package a\n\ndeny contains \"a\"\n"),
    ]);
    for name in ["broken", "unknown", "circle", "deep", "none", "missing"] {
        assert_cmd_snapshot!(format!("test_load_{name}"), test(folder.path(), &[name]));
    }
    assert_cmd_snapshot!("test_run_nothing", test(folder.path(), &["none", "-r", "abc"]));
    assert_cmd_snapshot!("test_run_wrong", test(folder.path(), &["none", "-r", "("]));
    assert_cmd_snapshot!("test_threshold_wrong", test(folder.path(), &["none", "--threshold", "120"]));
}

#[test]
fn slow_tests_time_out() {
    let slow = "package a_test\n\ntest_slow if count([x | some x in numbers.range(1, 900000); some y in numbers.range(1, 900000); x == y]) == 0\n";
    let folder = folder(&[("policies/a_test.rego", slow)]);
    assert_cmd_snapshot!("test_slow", kaudit(folder.path(), &["test", "--timeout", "200ms"]));
}

const TEMPLATE: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8slabels}
spec:
  crd:
    spec:
      names: {kind: K8sLabels}
      validation:
        openAPIV3Schema:
          type: object
          properties:
            labels: {type: array, items: {type: string}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package k8slabels
        violation[{"msg": msg}] {
          label := input.parameters.labels[_]
          not input.review.object.metadata.labels[label]
          msg := concat(" ", ["no label", label])
        }
        violation[{"msg": "same host"}] {
          host := input.review.object.spec.host
          other := data.inventory.namespace[_][_][_][name]
          other.spec.host == host
          name != input.review.object.metadata.name
        }
        violation[{"msg": "must not be deleted"}] {
          input.review.operation == "DELETE"
          input.review.oldObject.metadata.labels.keep
        }
"#;

const CONSTRAINT: &str = "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sLabels\nmetadata: {name: labels}\n\
                          spec: {parameters: {labels: [team, app]}}\n";
const INVALID: &str = "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sLabels\nmetadata: {name: labels}\n\
                       spec: {parameters: {labels: team}}\n";
const OBJECT: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop, labels: {app: a}}\nspec: {host: shop.example}\n";
const OTHER: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: shop}\nspec: {host: shop.example}\n";
const GOOD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop, labels: {app: a, team: red}}\n";
const DELETION: &str = "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest:\n  operation: DELETE\n  oldObject:\n    \
                        apiVersion: v1\n    kind: Pod\n    metadata: {name: a, labels: {app: a, team: red, keep: always}}\n";
const NO_OLD: &str = "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest:\n  operation: DELETE\n  object:\n    \
                      apiVersion: v1\n    kind: Pod\n    metadata: {name: a}\n";
const ODD_REVIEW: &str = "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest:\n  operatoin: CREATE\n  object:\n    \
                          apiVersion: v1\n    kind: Pod\n    metadata: {name: a}\n";

pub(crate) const SUITE: &str = r#"apiVersion: test.gatekeeper.sh/v1alpha1
kind: Suite
tests:
  - name: labels
    template: template.yaml
    constraint: samples/constraint.yaml
    cases:
      - {name: good, object: samples/good.yaml, assertions: [{violations: no}]}
      - {name: default is yes, object: samples/object.yaml, assertions: [{message: "label team$"}]}
      - {name: exactly, object: samples/object.yaml, assertions: [{violations: 1}, {violations: 0, message: app}]}
      - name: inventory
        object: samples/object.yaml
        inventory: [samples/other.yaml]
        assertions: [{violations: 2}, {violations: yes, message: same host}]
      - {name: deletion, object: samples/deletion.yaml, assertions: [{violations: yes, message: must not be}]}
      - {name: left out, skip: true}
  - name: invalid
    template: template.yaml
    constraint: samples/invalid.yaml
    invalid: true
  - {name: left out, skip: true}
"#;

pub(crate) const FAILING_SUITE: &str = r#"apiVersion: test.gatekeeper.sh/v1alpha1
kind: Suite
tests:
  - name: assertions
    template: template.yaml
    constraint: samples/constraint.yaml
    cases:
      - {name: too many, object: samples/object.yaml, assertions: [{violations: no}]}
      - {name: too few, object: samples/good.yaml, assertions: [{violations: yes}]}
      - {name: wrong count, object: samples/object.yaml, assertions: [{violations: 3}]}
      - {name: wrong message, object: samples/object.yaml, assertions: [{violations: 1, message: "^label"}]}
      - {name: forbidden message, object: samples/object.yaml, assertions: [{violations: no, message: team}]}
      - {name: right, object: samples/good.yaml, assertions: [{violations: no}]}
  - name: mistakes
    template: template.yaml
    constraint: samples/constraint.yaml
    cases:
      - {name: asserts nothing, object: samples/object.yaml}
      - {name: no object, assertions: [{violations: no}]}
      - {name: missing object, object: samples/missing.yaml, assertions: [{violations: no}]}
      - {name: several objects, object: samples/several.yaml, assertions: [{violations: no}]}
      - {name: missing inventory, object: samples/good.yaml, inventory: [nowhere.yaml], assertions: [{violations: no}]}
      - {name: no old object, object: samples/no_old.yaml, assertions: [{violations: no}]}
      - {name: odd review, object: samples/odd_review.yaml, assertions: [{violations: no}]}
      - {name: wrong word, object: samples/good.yaml, assertions: [{violations: never}]}
      - {name: wrong pattern, object: samples/good.yaml, assertions: [{message: "("}]}
  - {name: no template, constraint: samples/constraint.yaml}
  - {name: no constraint, template: template.yaml}
  - {name: missing template, template: nowhere.yaml, constraint: samples/constraint.yaml}
  - {name: wrong parameters, template: template.yaml, constraint: samples/invalid.yaml}
  - {name: valid after all, template: template.yaml, constraint: samples/constraint.yaml, invalid: true}
  - {name: invalid for another reason, template: template.yaml, constraint: samples/good.yaml, invalid: true}
  - {name: no constraint at all, template: template.yaml, constraint: samples/good.yaml}
  - {name: no template at all, template: samples/good.yaml, constraint: samples/constraint.yaml}
  - {name: expansion, template: template.yaml, constraint: samples/constraint.yaml, expansion: samples/expansion.yaml}
  - {name: expansion left out, expansion: samples/expansion.yaml, skip: true}
"#;

pub(crate) fn suite(name: &str, text: &str) -> tempfile::TempDir {
    folder(&[
        ("labels/template.yaml", TEMPLATE),
        ("labels/samples/constraint.yaml", CONSTRAINT),
        ("labels/samples/invalid.yaml", INVALID),
        ("labels/samples/object.yaml", OBJECT),
        ("labels/samples/other.yaml", OTHER),
        ("labels/samples/good.yaml", GOOD),
        ("labels/samples/several.yaml", &format!("{OBJECT}---\n{OTHER}")),
        ("labels/samples/deletion.yaml", DELETION),
        ("labels/samples/no_old.yaml", NO_OLD),
        ("labels/samples/odd_review.yaml", ODD_REVIEW),
        (name, text),
    ])
}

#[test]
fn suites_are_verified() {
    let folder = suite("labels/suite.yaml", SUITE);
    assert_cmd_snapshot!("test_suite", test(folder.path(), &["."]));
    assert_cmd_snapshot!("test_suite_run", test(folder.path(), &[".", "-r", "^labels$//exact"]));
    insta::assert_snapshot!("test_suite_verbose", without_times(&mut test(folder.path(), &["labels", "-v"])));
}

#[test]
fn suite_errors_are_explained() {
    let folder = suite("labels/suite.yaml", FAILING_SUITE);
    assert_cmd_snapshot!("test_suite_failing", test(folder.path(), &["labels/suite.yaml"]));
    assert_cmd_snapshot!("test_suite_junit", test(folder.path(), &["labels", "-r", "assertions//", "-o", "junit"]));
    assert_cmd_snapshot!("test_suite_json", test(folder.path(), &["labels", "-r", "mistakes//wrong", "-o", "json"]));
}

#[test]
fn unknown_fields_are_reported() {
    let text = "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n- name: a\n  template: template.yaml\n  \
                constraint: samples/constraint.yaml\n  case: []\n  cases:\n  - name: b\n    object: samples/good.yaml\n    \
                assertions:\n    - violations: no\n      mesage: x\n";
    let folder = suite("labels/suite.yaml", text);
    assert_cmd_snapshot!("test_suite_unknown_fields", test(folder.path(), &["labels"]));
    fs::write(folder.path().join("labels/suite.yaml"), text.replace("case: []", "skip: maybe").replace("no\n", "[]\n"))
        .unwrap();
    assert_cmd_snapshot!("test_suite_wrong_types", test(folder.path(), &["labels"]));
    fs::write(folder.path().join("labels/suite.yaml"), text.replace("kind: Suite", "kind: Suite: x")).unwrap();
    assert_cmd_snapshot!("test_suite_no_yaml", test(folder.path(), &["labels"]));
}

#[test]
fn both_kinds_have_one_summary() {
    let folder = suite("labels/suite.yaml", SUITE);
    fs::write(folder.path().join("a_test.rego"), "package a_test\n\ntest_a if true\n\ntest_b if false\n").unwrap();
    assert_cmd_snapshot!("test_both", test(folder.path(), &["."]));
}
