//! Checks of manifests, the first use of most users.

use std::{fs, path::Path, process::Command};

use clap::ValueEnum as _;
use insta_cmd::assert_cmd_snapshot;
use kaudit::output::Format;
use kaudit_test_support::files;

use crate::kaudit;

/// Denies images with the tag latest, and warns of images from other registries.
const IMAGES: &str = r#"# METADATA
# title: Images
package images

# METADATA
# title: Tag latest
# custom:
#   severity: high
deny_latest contains {"msg": msg, "details": {"container": container.name}} if {
	some container in input.spec.containers
	endswith(container.image, ":latest")
	msg := sprintf("container %s runs %s: name a version", [container.name, container.image])
}

warn_registry contains msg if {
	some container in input.spec.containers
	not startswith(container.image, "registry.example.com/")
	msg := sprintf("container %s comes from elsewhere", [container.name])
}
"#;

/// Has conflicting values for Pods on two networks.
const CONTRADICTION: &str = r#"package network

deny_network contains msg if {
	network == "host"
	msg := "pod is in the host's network"
}

network := "host" if input.spec.hostNetwork

network := "pod" if input.metadata.labels.network == "pod"
"#;

/// Returns the manifest of a Pod.
fn pod(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: shop\nspec:\n  containers:\n  - name: web\n    image: {image}\n"
    )
}

fn good() -> String {
    pod("good", "registry.example.com/web:1")
}

fn bad() -> String {
    pod("bad", "registry.example.com/web:latest")
}

fn foreign() -> String {
    pod("foreign", "elsewhere.example.com/web:1")
}

/// Creates a folder with `policies/images.rego` and other files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    files::folder(&[&[("policies/images.rego", IMAGES)][..], files].concat())
}

/// Returns `kaudit check` with a working directory, so that paths are relative.
fn check(folder: &Path, arguments: &[&str]) -> Command {
    kaudit(folder, &[&["check"], arguments].concat())
}

#[test]
fn clean_is_0_and_violations_are_1() {
    let folder = folder(&[("good.yaml", &good()), ("all/bad.yaml", &bad()), ("all/more/foreign.yml", &foreign())]);
    assert_cmd_snapshot!("clean", check(folder.path(), &["-f", "good.yaml"]));
    assert_cmd_snapshot!("violations", check(folder.path(), &["-f", "good.yaml", "-f", "all"]));
}

#[test]
fn fail_on_decides_what_counts() {
    let folder = folder(&[("foreign.yaml", &foreign()), ("bad.yaml", &bad())]);
    assert_cmd_snapshot!("warning", check(folder.path(), &["-f", "foreign.yaml"]));
    assert_cmd_snapshot!("fail_on_warn", check(folder.path(), &["-f", "foreign.yaml", "--fail-on", "warn"]));
    assert_cmd_snapshot!("fail_on_none", check(folder.path(), &["-f", "bad.yaml", "--fail-on", "none"]));
}

#[test]
fn a_broken_document_does_not_affect_others() {
    let broken = format!("{}---\nkind: Pod\nmetadata: [\n---\nreplicas: 3\n---\n{}", good(), foreign());
    let folder = folder(&[("broken.yaml", &broken), ("bad.yaml", &bad())]);
    assert_cmd_snapshot!("broken_document", check(folder.path(), &["-f", "broken.yaml"]));
    assert_cmd_snapshot!("broken_document_json", check(folder.path(), &["-f", "broken.yaml", "-o", "json"]));
    assert_cmd_snapshot!("broken_document_and_violation", check(folder.path(), &["-f", "."]));
}

#[test]
fn without_objects_it_is_2() {
    let folder = folder(&[("broken.yaml", "kind: Pod\nmetadata: [\n"), ("empty.yaml", "# Nothing.\n---\n")]);
    fs::create_dir(folder.path().join("nothing")).unwrap();
    fs::write(folder.path().join("binary.yaml"), [0xff, 0xfe, 0x00]).unwrap();
    assert_cmd_snapshot!("nothing_readable", check(folder.path(), &["-f", "broken.yaml"]));
    assert_cmd_snapshot!("no_text", check(folder.path(), &["-f", "binary.yaml"]));
    assert_cmd_snapshot!("missing_file", check(folder.path(), &["-f", "nowhere.yaml"]));
    assert_cmd_snapshot!("no_manifests", check(folder.path(), &["-f", "nothing"]));
    // An empty pipe from a failed command must not count as clean.
    assert_cmd_snapshot!("empty_file", check(folder.path(), &["-f", "empty.yaml"]));
}

#[test]
fn policies_that_do_not_load_are_2() {
    let folder = folder(&[
        ("good.yaml", &good()),
        ("broken/images.rego", &IMAGES.replace("endswith(container.image, \":latest\")", "endswith(container.image")),
        ("unknown/images.rego", &IMAGES.replace("endswith", "ends_with")),
        ("library/lib.rego", "package helpers\n\nis_pod if input.kind == \"Pod\"\n"),
    ]);
    fs::create_dir(folder.path().join("empty")).unwrap();
    let with = |policies: &str| check(folder.path(), &["-f", "good.yaml", "-p", policies]);
    assert_cmd_snapshot!("policies_missing", with("nowhere"));
    assert_cmd_snapshot!("policies_empty", with("empty"));
    assert_cmd_snapshot!("policies_broken", with("broken"));
    assert_cmd_snapshot!("policies_unknown_function", with("unknown"));
    assert_cmd_snapshot!("policies_without_rules", with("library"));
    let elsewhere = tempfile::tempdir().unwrap();
    assert_cmd_snapshot!("policies_default_missing", check(elsewhere.path(), &["-f", "good.yaml"]));
}

#[test]
fn programs_get_json() {
    let folder = folder(&[("all.yaml", &[good(), bad(), foreign()].join("---\n"))]);
    assert_cmd_snapshot!("json", check(folder.path(), &["-f", "all.yaml", "-o", "json"]));
    assert_cmd_snapshot!("ndjson", check(folder.path(), &["-f", "all.yaml", "-o", "ndjson"]));
}

#[test]
fn several_outputs_at_once_are_the_same_as_each_alone() {
    let folder = folder(&[("bad.yaml", &bad())]);
    let all = ["-f", "bad.yaml", "-o", "text", "-o", "json=out.json,ndjson=out.ndjson"];
    assert_cmd_snapshot!("several_outputs", check(folder.path(), &all));
    for format in ["json", "ndjson"] {
        let alone = check(folder.path(), &["-f", "bad.yaml", "-o", format]).output().unwrap();
        let file = fs::read(folder.path().join(format!("out.{format}"))).unwrap();
        assert_eq!(String::from_utf8(file).unwrap(), String::from_utf8(alone.stdout).unwrap());
    }
    let files: Vec<String> =
        Format::value_variants().iter().map(|format| format!("{0}=all.{0}", format.name())).collect();
    let all = check(folder.path(), &["-f", "bad.yaml", "-o", &files.join(",")]).output().unwrap();
    assert_eq!((all.status.code(), all.stdout.len()), (Some(1), 0), "{all:?}");
    for name in Format::value_variants().iter().map(|format| format.name()) {
        let alone = check(folder.path(), &["-f", "bad.yaml", "-o", name]).output().unwrap();
        assert_eq!(alone.status.code(), Some(1), "{name}");
        let together = fs::read(folder.path().join(format!("all.{name}"))).unwrap();
        // A page file names when it was made.
        let undated = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap();
            let (before, after) = text.split_once("Audit of <time").unwrap_or((&text, ""));
            [before, after.split_once("</time>").map_or(after, |(_, after)| after)].concat()
        };
        assert_eq!(undated(together), undated(alone.stdout), "{name}");
    }
    let nowhere = ["-f", "bad.yaml", "-o", "json=nowhere/out.json"];
    assert_cmd_snapshot!("output_to_nowhere", check(folder.path(), &nowhere));
}

#[test]
fn markdown_is_cut_to_the_size_limit() {
    let folder = folder(&[]);
    let objects: Vec<String> =
        (0..2_000).map(|number| bad().replace("name: bad", &format!("name: bad-{number}"))).collect();
    fs::write(folder.path().join("many.yaml"), objects.join("\n---\n")).unwrap();
    let size = |arguments: &[&str]| {
        let arguments = [&["-f", "many.yaml", "-o", "markdown"], arguments].concat();
        let ended = check(folder.path(), &arguments).output().unwrap();
        assert_eq!(ended.status.code(), Some(1));
        ended.stdout.len()
    };
    let (summary, comment) = (size(&[]), size(&["--for", "comment"]));
    assert!(comment < 60_000 && comment > 50_000 && summary > 100_000, "{summary} {comment}");
}

#[test]
fn results_of_replicas_do_not_depend_on_sharing() {
    let container =
        |image: &str| serde_json::json!([{"name": "web", "image": image, "securityContext": {"privileged": true}}]);
    let pods = (0..900).map(|number| {
        let (app, suffix) = (["web", "api", "db"][number % 3], format!("{number:05}"));
        let pod = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{app}-{suffix}"), "namespace": (["shop", "pay"][number % 2]), "uid": suffix},
            "spec": {"nodeName": suffix, "containers": container(&format!("{app}:latest")), "volumes": [
                {"name": format!("kube-api-access-{suffix}"), "hostPath": {"path": "/"}},
            ]},
            "status": {"podIP": suffix},
        });
        format!("{pod}\n")
    });
    let own = "package own\n\ndeny_name contains sprintf(\"%s is in %s\", [input.metadata.name, input.metadata.namespace])\n\n\
               warn_seven contains \"7\" if endswith(input.metadata.name, \"7\")\n";
    let folder = folder(&[("pods.json", &pods.collect::<String>()), ("own.rego", own)]);
    let run = |share: &str, format: &str| {
        let arguments = ["-f", "pods.json", "-p", "builtin", "-p", "own.rego", "-o", format, "--share-verdicts", share];
        let output = check(folder.path(), &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for format in ["json", "text"] {
        let shared = run("on", format);
        assert!(shared.len() > 100_000, "{} bytes", shared.len());
        assert!(shared == run("off", format), "{format} is not the same");
    }
}

#[test]
fn standard_input_is_read() {
    let folder = folder(&[]);
    let mut piped = check(folder.path(), &["-f", "-"]);
    assert_cmd_snapshot!("stdin", piped.pass_stdin([good(), bad()].join("---\n")));
    let mut broken = check(folder.path(), &["-f", "-"]);
    assert_cmd_snapshot!("stdin_broken", broken.pass_stdin("kind: [\n"));
    let mut empty = check(folder.path(), &["-f", "-"]);
    assert_cmd_snapshot!("stdin_empty", empty.pass_stdin(""));
}

#[test]
fn lists_and_reviews_are_unpacked() {
    let item = |manifest: &str| manifest.replace('\n', "\n  ").trim_end().to_owned();
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}\n- {}\n", item(&good()), item(&bad()));
    let review = r#"{
  "apiVersion": "admission.k8s.io/v1",
  "kind": "AdmissionReview",
  "request": {
    "uid": "1",
    "operation": "CREATE",
    "object": {
      "apiVersion": "v1",
      "kind": "Pod",
      "metadata": {"name": "reviewed", "namespace": "shop"},
      "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:latest"}]}
    }
  }
}
"#;
    let nested =
        format!("apiVersion: v1\nkind: List\nitems:\n- {}\n- apiVersion: v1\n  kind: List\n  items:\n", item(&list));
    let folder = folder(&[("list.yaml", &list), ("nested.yaml", &nested), ("review.json", review)]);
    assert_cmd_snapshot!("list_in_list", check(folder.path(), &["-f", "nested.yaml"]));
    assert_cmd_snapshot!("list", check(folder.path(), &["-f", "list.yaml"]));
    assert_cmd_snapshot!("review", check(folder.path(), &["-f", "review.json"]));
}

#[test]
fn the_object_in_a_review_of_an_update_is_evaluated_as_a_new_one() {
    let policy = "package p\n\ndeny contains msg if {\n\tinput.request.oldObject == null\n\tmsg := \
                  input.request.operation\n}\n\nwarn contains \"updated\" if input.request.operation == \"UPDATE\"\n";
    let deployment = |replicas: u8| {
        format!(
            r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "a"}}, "spec": {{"replicas": {replicas}}}}}"#
        )
    };
    let review = format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{"uid": "1", "operation": "UPDATE",
            "object": {}, "oldObject": {}}}}}"#,
        deployment(0),
        deployment(2)
    );
    let folder = files::folder(&[("policies/p.rego", policy), ("review.json", &review)]);
    let output = check(folder.path(), &["-f", "review.json", "-o", "json"]).output().unwrap();
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["results"][0]["message"], "CREATE", "{result}");
    // The rule about updates was evaluated and has no result for a new object.
    let summary = &result["summary"];
    assert!(summary["fail"] == 1 && summary["pass"] == 1, "{result}");
}

#[test]
fn json_between_separators_is_read_completely() {
    let object = |name: &str| {
        let container = r#"{"name":"web","image":"registry.example.com/web:latest"}"#;
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{container}]}}}}"#
        )
    };
    let folder = folder(&[]);
    let stream: Vec<String> = (0..3).map(|number| object(&format!("p{number}"))).collect();
    let mut piped = check(folder.path(), &["-f", "-"]);
    assert_cmd_snapshot!("json_stream", piped.pass_stdin(stream.join("\n---\n")));
}

#[test]
fn settings_files_of_tools_are_no_gap() {
    let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: shop}\n";
    let files = [
        ("shop/base/kustomization.yaml", kustomization),
        ("shop/chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        ("shop/chart/values.yaml", "image: registry.example.com/web:1\nreplicas: 2\n"),
        ("shop/chart/values-prod.yaml", "# Nothing else.\nreplicas: 3\n---\nreplicas: 4\n"),
        ("shop/helmfile.yaml", "releases: [{name: web, chart: ./chart}]\n"),
        ("shop/good.yaml", &good()),
    ];
    let folder = folder(&files);
    assert_cmd_snapshot!("settings", check(folder.path(), &["-f", "shop"]));
    // A settings file named explicitly is read, and objects are evaluated in any file.
    assert_cmd_snapshot!(
        "settings_named",
        check(folder.path(), &["-f", "shop/good.yaml", "-f", "shop/chart/values.yaml"])
    );
    fs::write(folder.path().join("shop/chart/values-objects.yaml"), bad()).unwrap();
    fs::write(folder.path().join("shop/chart/values.schema.json"), "{\"type\": \"object\"}").unwrap();
    fs::write(folder.path().join("shop/broken.yaml"), "kind: Pod\nmetadata: [\n").unwrap();
    assert_cmd_snapshot!("settings_and_others", check(folder.path(), &["-f", "shop", "-o", "json"]));
}

#[test]
fn templates_must_be_rendered_first() {
    let template =
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n{{- if .Values.more }}\n{{- end }}\n";
    let folder = folder(&[("good.yaml", &good()), ("templates/pod.yaml", template)]);
    assert_cmd_snapshot!("template", check(folder.path(), &["-f", "."]));
}

#[test]
fn a_policy_that_fails_while_running_is_3() {
    let both = good().replace("spec:\n", "  labels: {network: pod}\nspec:\n  hostNetwork: true\n");
    let folder = folder(&[("policies/network.rego", CONTRADICTION), ("both.yaml", &both), ("bad.yaml", &bad())]);
    assert_cmd_snapshot!("policy_error", check(folder.path(), &["-f", "both.yaml"]));
    assert_cmd_snapshot!("policy_error_json", check(folder.path(), &["-f", "both.yaml", "-o", "json"]));
    // The other rules and the other objects are still evaluated.
    assert_cmd_snapshot!("policy_error_and_violation", check(folder.path(), &["-f", "both.yaml", "-f", "bad.yaml"]));
}

#[test]
fn an_excused_result_is_a_skip() {
    let exception = "package images\n\nexception contains [\"latest\"] if input.metadata.name == \"bad\"\n";
    let folder = folder(&[("policies/exceptions.rego", exception), ("bad.yaml", &bad())]);
    assert_cmd_snapshot!("exception", check(folder.path(), &["-f", "bad.yaml"]));
    assert_cmd_snapshot!("exception_json", check(folder.path(), &["-f", "bad.yaml", "-o", "json"]));
}

#[test]
fn scope_options_limit_the_evaluated_objects() {
    let other = bad().replace("namespace: shop", "namespace: other");
    let service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  namespace: shop\n";
    let folder = folder(&[("all.yaml", &[bad(), other, service.to_owned()].join("---\n"))]);
    assert_cmd_snapshot!("one_namespace", check(folder.path(), &["-f", "all.yaml", "-n", "other"]));
    assert_cmd_snapshot!("no_such_namespace", check(folder.path(), &["-f", "all.yaml", "-n", "nowhere"]));
    assert_cmd_snapshot!("excluded_kind", check(folder.path(), &["-f", "all.yaml", "--exclude", "pods"]));
}

/// A template next to packages, with Constraints that deny, warn and do not match.
const OWNER: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata:
  name: k8sowner
  annotations:
    metadata.gatekeeper.sh/title: Owner
    description: Everything has an owner.
spec:
  crd:
    spec:
      names: {kind: K8sOwner}
      validation:
        openAPIV3Schema:
          type: object
          properties:
            label: {type: string, default: owner}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package k8sowner

        violation[{"msg": msg, "details": {"label": label}}] {
          label := input.parameters.label
          not input.review.object.metadata.labels[label]
          msg := sprintf("%v has no label %v", [input.review.name, label])
        }
"#;

/// Returns a Constraint of [`OWNER`].
fn owner(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sOwner\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

#[test]
fn gatekeeper_constraints_work_with_packages() {
    let pods = "{match: {kinds: [{apiGroups: [\"\"], kinds: [Pod]}]}, parameters: {}}";
    let sound = [OWNER, &owner("pods", pods), &owner("team", "{enforcementAction: dryrun, parameters: {label: team}}")];
    let elsewhere = owner("elsewhere", "{match: {namespaces: [\"kube-*\"]}}");
    let wrong = owner("wrong", "{parameters: {lable: team}}");
    let folder = folder(&[
        ("bad.yaml", &bad()),
        ("policies/owner.yaml", &[&sound.concat(), &*elsewhere].concat()),
        ("wrong/owner.yaml", &[&sound.concat(), &*wrong].concat()),
    ]);
    assert_cmd_snapshot!("gatekeeper", check(folder.path(), &["-f", "bad.yaml"]));
    assert_cmd_snapshot!("gatekeeper_json", check(folder.path(), &["-f", "bad.yaml", "-o", "json"]));
    assert_cmd_snapshot!("gatekeeper_wrong", check(folder.path(), &["-f", "bad.yaml", "-p", "wrong"]));
}

#[test]
fn exceptions_are_skipped_with_their_reason() {
    let exception = |name: &str, spec: &str| {
        format!(
            "apiVersion: kaudit.dev/v1alpha1\nkind: PolicyException\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
        )
    };
    let until = "reason: rebuilt with the next release, expiresAt: 2999-12-31";
    let tags = exception(
        "tags",
        &format!("policies: [{{name: images, rules: [deny_latest]}}], match: {{names: [bad]}}, {until}"),
    );
    let unused = exception("unused", &format!("policies: [{{name: images}}], match: {{kinds: [deploy]}}, {until}"));
    let old = exception("old", "policies: [{name: images}], reason: r, expiresAt: 2020-01-31");
    let mistaken = exception("typo", &format!("policies: [{{name: image}}], {until}"));
    let folder = folder(&[
        ("bad.yaml", &bad()),
        ("exceptions.yaml", &[tags.clone(), unused, old].join("---\n")),
        ("mistake.yaml", &[tags, mistaken].join("---\n")),
    ]);
    let check = ["check", "-f", "bad.yaml", "--exceptions", "exceptions.yaml"];
    assert_cmd_snapshot!("exceptions", kaudit(folder.path(), &check));
    assert_cmd_snapshot!("exceptions_json", kaudit(folder.path(), &[&check[..], &["-o", "json"]].concat()));
    assert_cmd_snapshot!(
        "exceptions_mistaken",
        kaudit(folder.path(), &["check", "-f", "bad.yaml", "--exceptions", "mistake.yaml"])
    );
    // Exceptions in the manifests also count, if the policies allow them.
    let own = exception("own, namespace: shop", &format!("policies: [{{name: images}}], {until}"));
    fs::write(folder.path().join("with.yaml"), format!("{}---\n{own}", bad())).unwrap();
    assert_cmd_snapshot!("exceptions_not_allowed", kaudit(folder.path(), &["check", "-f", "with.yaml"]));
    let excusable = IMAGES.replace("# title: Images\n", "# title: Images\n# custom: {excusable: true}\n");
    fs::write(folder.path().join("policies/images.rego"), excusable).unwrap();
    assert_cmd_snapshot!("exceptions_of_a_team", kaudit(folder.path(), &["check", "-f", "with.yaml"]));
}

#[test]
fn only_results_outside_the_baseline_count() {
    let folder = folder(&[("a.yaml", &bad()), ("b.yaml", &foreign())]);
    let path = |name: &str| folder.path().join(name);
    let both = ["-f", "a.yaml", "-f", "b.yaml", "--fail-on", "warn"];
    let check = |arguments: &[&str]| check(folder.path(), &[&both[..], arguments].concat());
    assert_cmd_snapshot!("baseline_written", check(&["--write-baseline", "baseline.json"]));
    insta::assert_snapshot!(
        "baseline_file",
        fs::read_to_string(path("baseline.json")).unwrap().replace(&digest(&path("baseline.json")), "DIGEST")
    );
    // One is fixed, another has a further violation.
    fs::write(path("a.yaml"), good()).unwrap();
    fs::write(path("b.yaml"), [foreign(), foreign().replace("name: foreign", "name: new")].join("---\n")).unwrap();
    assert_cmd_snapshot!("baseline_new_and_fixed", check(&["--baseline", "baseline.json"]));
    fs::write(path("b.yaml"), foreign()).unwrap();
    assert_cmd_snapshot!("baseline_pruned", check(&["--baseline", "baseline.json", "--prune-baseline", "-o", "json"]));
    let left: serde_json::Value = serde_json::from_slice(&fs::read(path("baseline.json")).unwrap()).unwrap();
    assert_eq!(left["results"].as_array().unwrap().len(), 1);
    // Violations that cannot be compared do not count as fixed.
    fs::write(path("policies/images.rego"), IMAGES.replace("warn_registry", "warn_origin")).unwrap();
    fs::write(path("b.yaml"), good()).unwrap();
    assert_cmd_snapshot!("baseline_not_compared", check(&["--baseline", "baseline.json"]));
    assert_cmd_snapshot!("baseline_missing", check(&["--baseline", "nowhere.json"]));
    fs::write(path("broken.json"), "{\n\"kind\": 7}").unwrap();
    assert_cmd_snapshot!("baseline_broken", check(&["--baseline", "broken.json"]));
    assert_cmd_snapshot!("baseline_of_a_watch", kaudit(folder.path(), &["check", "--baseline", "baseline.json"]));
}

fn digest(path: &Path) -> String {
    let baseline: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    baseline["policies"].as_str().unwrap().to_owned()
}

#[test]
fn drafted_exceptions_need_a_reason() {
    let folder = folder(&[("a.yaml", &[bad(), foreign()].join("---\n"))]);
    let path = folder.path().join("drafts.yaml");
    let drafted = check(folder.path(), &["-f", "a.yaml", "--write-exceptions", "drafts.yaml"]).output().unwrap();
    assert_eq!(drafted.status.code(), Some(1));
    let drafts = fs::read_to_string(&path).unwrap();
    let dated = drafts.lines().map(|line| if line.contains("expiresAt") { "  expiresAt: DAY" } else { line });
    insta::assert_snapshot!("exceptions_drafted", dated.collect::<Vec<_>>().join("\n"));
    let excused = ["-f", "a.yaml", "--exceptions", "drafts.yaml", "--fail-on", "warn"];
    let refused = check(folder.path(), &excused).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("spec.reason: is missing"), "{refused:?}");
    fs::write(&path, drafts.replace("reason: ''", "reason: legacy").replace("reason: \"\"", "reason: legacy")).unwrap();
    assert_eq!(check(folder.path(), &excused).output().unwrap().status.code(), Some(0));
    // From a directory, and from standard input.
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::copy(&path, folder.path().join("d/drafts.yaml")).unwrap();
    let from = |source: &'static str| ["-f", "a.yaml", "--exceptions", source, "--fail-on", "warn"];
    assert_eq!(check(folder.path(), &from("d")).output().unwrap().status.code(), Some(0));
    let mut command = check(folder.path(), &from("-"));
    command.stdin(fs::File::open(&path).unwrap());
    assert_eq!(command.output().unwrap().status.code(), Some(0));
    let twice = check(folder.path(), &["-f", "-", "--exceptions", "-"]).output().unwrap();
    assert!(String::from_utf8_lossy(&twice.stderr).contains("standard input can be read only once"), "{twice:?}");
}

#[test]
fn baseline_violations_get_no_draft() {
    let folder = folder(&[("a.yaml", &bad()), ("b.yaml", &foreign())]);
    let run = |arguments: &[&str]| check(folder.path(), arguments).output().unwrap();
    run(&["-f", "a.yaml", "--write-baseline", "baseline.json"]);
    let both = ["-f", "a.yaml", "-f", "b.yaml", "--baseline", "baseline.json", "--write-exceptions", "drafts.yaml"];
    run(&both);
    let drafts = fs::read_to_string(folder.path().join("drafts.yaml")).unwrap();
    assert!(drafts.contains("- foreign") && !drafts.contains("- bad"), "{drafts}");
}

#[test]
fn notification_receivers_are_validated_first() {
    let folder = files::folder(&[
        ("p/p.rego", IMAGES),
        ("pod.yaml", &good()),
        ("inline.yaml", "receivers:\n- name: team\n  slack: {url: https://hooks.example.com/services/T0/B0/secret}\n"),
    ]);
    let run = |more: &[&str]| kaudit(folder.path(), &[&["check", "-p", "p", "--notify", "inline.yaml"], more].concat());
    assert_cmd_snapshot!("notify_inline_secret", run(&["--once"]));
    assert_cmd_snapshot!("notify_with_files", run(&["-f", "pod.yaml"]));
}
