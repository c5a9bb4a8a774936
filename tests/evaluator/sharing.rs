//! Verdicts shared between objects with the same sharing key equal those of each object, whatever policies do with its
//! name.
//!
//! `KAUDIT_TEST_LIBRARY` sets a folder of further templates to evaluate, in addition to the policies of this
//! repository.

use std::{fs, path::Path, sync::Arc};

use kaudit::{
    judge::{
        evaluate::{Job, evaluate_shared},
        load_options::LoadOptions,
        set::PolicySet,
        sharing::SharedVerdicts,
    },
    model::{
        object::{Controller, Object},
        verdict::{Shared, Verdict},
    },
    rego::Limits,
};
use kaudit_test_support::files::folder;
use serde_json::{Value, json};

use crate::{
    object,
    objects::{alter, objects},
    shown,
};

/// Modules that use the object's name in odd ways.
const ODD: &[(&str, &str)] = &[
    ("plain", "deny contains sprintf(\"%s/%v is bad\", [input.metadata.namespace, input.metadata.name])"),
    ("alone", "deny contains input.metadata.name"),
    (
        "details",
        "deny contains {\"msg\": \"m\", \"details\": {\"list\": [input.metadata.name, {\"at\": input.metadata.name}]}}",
    ),
    ("joined", "deny contains concat(\"/\", [\"a\", input.metadata.namespace, input.metadata.name])"),
    (
        "handed",
        "deny contains message(input)\nmessage(o) := sprintf(\"%s\", [sprintf(\"<%s>\", [called(o)])])\ncalled(o) := o.metadata.name",
    ),
    ("template", "deny contains $\"{input.metadata.name} in {input.metadata.namespace}\""),
    ("templates", "deny contains $\"{concat(\"-\", [input.metadata.name, \"web\"])}\""),
    ("prefix", "deny contains \"w\" if startswith(input.metadata.name, \"web\")"),
    ("equal", "deny contains \"web\" if input.metadata.name == \"web\""),
    ("unequal", "deny contains \"not web\" if input.metadata.name != \"web\""),
    ("less", "deny contains \"less\" if input.metadata.name < \"m\""),
    ("unified", "deny contains \"web\" if { x = input.metadata.name; x = \"web\" }"),
    ("pattern", "deny contains \"web\" if { [n, \"a\"] = [input.metadata.name, \"a\"]; n == \"web\" }"),
    ("counted", "deny contains \"one\" if count({input.metadata.name, \"web\"}) == 1"),
    ("length", "deny contains \"long\" if count(input.metadata.name) > 3"),
    (
        "width",
        "deny contains sprintf(\"%10s|%-8v|%.2s\", [input.metadata.name, input.metadata.name, input.metadata.name])",
    ),
    ("quoted", "deny contains sprintf(\"%q %d %x\", [input.metadata.name, input.metadata.name, input.metadata.name])"),
    ("listed", "deny contains sprintf(\"%v\", [[input.metadata.name, \"x\"]])"),
    (
        "verbs",
        "deny contains sprintf(\"%s %s\", [input.metadata.name])\ndeny contains sprintf(\"%s\", [input.metadata.name, 1])\ndeny contains sprintf(\"%[2]s %s\", [\"a\", input.metadata.name])",
    ),
    ("width_by_name", "deny contains sprintf(\"%*s\", [input.metadata.name, \"a\"])"),
    (
        "format",
        "deny contains sprintf(input.metadata.name, [])\ndeny contains sprintf(concat(\"\", [\"%\", \"s\"]), [input.metadata.name])",
    ),
    ("sorted", "deny contains concat(\",\", sort([input.metadata.name, \"m\"]))"),
    ("ordered", "deny contains concat(\",\", [n | some n in {input.metadata.name, \"m\"}])"),
    ("delimiter", "deny contains concat(input.metadata.name, [\"a\", \"b\"])"),
    ("keys", "deny contains {\"msg\": \"m\", \"details\": {input.metadata.name: 1, \"m\": 2}}"),
    ("sets", "deny contains {\"msg\": \"m\", \"details\": {\"s\": {input.metadata.name, \"m\"}}}"),
    ("result", "deny contains result.new(sprintf(\"%s\", [input.metadata.name]), input.metadata)"),
    ("causes", "deny contains result.new(\"m\", cause) if some cause in [input.metadata, {\"name\": \"m\"}]"),
    ("cause", "deny contains \"web\" if result.new(\"m\", input.metadata).cause.name == \"web\""),
    ("managed", "deny contains sprintf(\"%v\", [isManaged({\"managed\": input.metadata.name})])"),
    ("severity", "deny contains {\"msg\": \"m\", \"severity\": input.metadata.name}"),
    ("severities", "deny contains {k: input.metadata.name | some k in [\"msg\", \"severity\"]}"),
    (
        "no_text",
        "deny contains [input.metadata.name, 1]\ndeny contains {\"msg\": [input.metadata.name]}\ndeny contains {\"nothing\": input.metadata.name}",
    ),
    (
        "two_in_one",
        "# METADATA\n# custom: {severity: high}\ndeny contains \"web is bad\"\n\ndeny contains sprintf(\"%s is bad\", [input.metadata.name])",
    ),
    (
        "two_details",
        "deny contains {\"msg\": \"m\", \"details\": {\"n\": \"web\"}}\n\ndeny contains {\"msg\": \"m\", \"details\": {\"n\": input.metadata.name}}",
    ),
    ("conflict", "deny := \"web\"\n\ndeny := input.metadata.name"),
    ("conflicts", "deny contains \"c\" if both\n\nboth := \"web\"\n\nboth := input.metadata.name"),
    (
        "chain",
        "deny contains msg\n\nmsg := \"is web\" if input.metadata.name == \"web\" else := sprintf(\"is %s\", [input.metadata.name])",
    ),
    ("function", "deny contains \"web\" if is(input.metadata.name)\n\nis(n) if n == \"web\""),
    ("value", "deny contains \"web\" if is(input.metadata.name)\n\nis(\"web\") := true"),
    ("member", "deny contains \"in\" if input.metadata.name in [\"web\", \"a\"]"),
    ("members", "deny contains \"in\" if \"web\" in [input.metadata.name, \"a\"]"),
    ("every_name", "deny contains \"none\" if every n in [input.metadata.name, \"a\"] { n != \"web\" }"),
    ("walked", "deny contains \"walked\" if { walk(input.metadata, [_, v]); v == \"web\" }"),
    ("marshalled", "deny contains json.marshal(input.metadata)"),
    ("encoded", "deny contains base64.encode(input.metadata.name)"),
    ("matched", "deny contains \"w\" if regex.match(\"^w\", input.metadata.name)"),
    ("split_up", "deny contains sprintf(\"%v\", [split(sprintf(\"a-%s\", [input.metadata.name]), \"-\")])"),
    ("upper_case", "deny contains upper(sprintf(\"%s\", [input.metadata.name]))"),
    (
        "compared",
        "deny contains \"list\" if [input.metadata.name, 1] == [\"web\", 1]\ndeny contains \"set\" if {input.metadata.name} == {\"web\"}",
    ),
    (
        "taken",
        "deny contains \"taken\" if { some m in messages; m == \"web is bad\" }\n\nmessages contains sprintf(\"%s is bad\", [input.metadata.name])",
    ),
    (
        "taken_again",
        "deny contains m if some m in messages\n\nmessages contains \"web is bad\"\n\nmessages contains sprintf(\"%s is bad\", [input.metadata.name])",
    ),
    (
        "number",
        "deny contains sprintf(\"%d\", [count(messages)])\n\nmessages contains \"web is bad\"\n\nmessages contains sprintf(\"%s is bad\", [input.metadata.name])",
    ),
    (
        "of_another",
        "deny contains sprintf(\"%d\", [count(warn)])\n\nwarn contains \"web\"\n\nwarn contains input.metadata.name",
    ),
    ("comprehension", "deny contains \"x\" if count({input.metadata.name: 1, \"web\": 1}) == 1"),
    (
        "indexed",
        "deny contains {\"web\": \"x\", \"a\": \"y\"}[input.metadata.name]\n\ndeny contains \"l\" if input.metadata.labels[input.metadata.name]",
    ),
    (
        "fallback",
        "deny contains object.get(input, [\"metadata\", \"name\"], \"none\")\n\ndeny contains \"web\" if object.get(input.metadata, \"name\", \"\") == \"web\"",
    ),
    ("replaced", "deny contains \"r\" if r with input.metadata.name as \"web\"\n\nr if input.metadata.name == \"web\""),
    ("partial", "deny[input.metadata.name] := \"m\"\n\nwarn.k := input.metadata.name"),
    ("any_field", "deny contains \"f\" if { some k; input.metadata[k] == \"web\" }"),
    (
        "excepted",
        "exception contains [\"z\"] if input.metadata.name == \"web\"\n\ndeny_z contains input.metadata.name\n\ndeny_y contains input.metadata.name",
    ),
    (
        "namespaced",
        "deny contains \"none\" if not input.metadata.namespace\n\ndeny contains \"shop\" if input.metadata.namespace == \"shop\"",
    ),
    (
        "typed",
        "deny contains type_name(input.metadata.name)\n\ndeny contains \"string\" if is_string(input.metadata.name)",
    ),
    ("null", "deny contains \"named\" if input.metadata.name != null"),
    ("truth", "deny contains \"named\" if input.metadata.name\n\ndeny contains \"unnamed\" if not input.metadata.name"),
    ("fails", "deny contains \"x\" if x\n\nx := y if some y in [1, input.metadata.name]"),
    ("reviewed", "deny contains sprintf(\"%s %s\", [input.request.name, input.request.object.metadata.name])"),
    (
        "review_equal",
        "deny contains \"web\" if input.request.name == \"web\"\n\ndeny contains \"u\" if input.request.uid",
    ),
    (
        "review_space",
        "deny contains \"shop\" if input.request.namespace == \"shop\"\n\nwarn contains input.request.namespace",
    ),
    ("review_whole", "deny contains json.marshal(input.request)"),
    (
        "review_operation",
        "deny contains \"o\" if { input.request.operation == \"CREATE\"; input.request.oldObject == null }",
    ),
];

/// Modules that use the name of a token's volume in odd ways, and match set elements with patterns.
const TOKENS: &[(&str, &str)] = &[
    ("prints", "deny contains sprintf(\"%s\", [v.name]) if some v in input.spec.volumes"),
    ("lists", "deny contains sprintf(\"%v\", [[v.name | some v in input.spec.volumes]])"),
    ("lists_set", "deny contains sprintf(\"%v\", [{v.name | some v in input.spec.volumes}])"),
    ("whole", "deny contains sprintf(\"%v\", [v]) if some v in input.spec.volumes"),
    ("details", "deny contains {\"msg\": \"m\", \"details\": v} if some v in input.spec.volumes"),
    ("key", "deny contains {\"msg\": \"m\", \"details\": {v.name: 1}} if some v in input.spec.volumes"),
    ("starts", "deny contains v.name if { some v in input.spec.volumes; startswith(v.name, \"kube-\") }"),
    ("suffix", "deny contains substring(v.name, 16, 2) if some v in input.spec.volumes"),
    ("length", "deny contains sprintf(\"%d\", [count(v.name)]) if some v in input.spec.volumes"),
    ("number", "deny contains sprintf(\"%d\", [count({v.name | some v in input.spec.volumes})])"),
    (
        "pairs",
        "deny contains m.name if { some m in input.spec.containers[_].volumeMounts; input.spec.volumes[_].name == m.name }",
    ),
    ("less", "deny contains v.name if { some v in input.spec.volumes; v.name < \"kube-b\" }"),
    ("sorts", "deny contains concat(\",\", sort([v.name | some v in input.spec.volumes]))"),
    ("named", "deny contains \"known\" if input.spec.volumes[_].name == \"kube-api-access-aaaaa\""),
    (
        "built",
        "deny contains \"known\" if input.spec.volumes[_].name == concat(\"-\", [\"kube-api\", \"access-aaaaa\"])",
    ),
    ("label", "deny contains \"known\" if input.spec.volumes[_].name == input.metadata.labels.volume"),
    (
        "pattern",
        "deny contains msg if general[{\"msg\": msg, \"field\": \"containers\"}]\n\n\
         general contains {\"msg\": msg, \"field\": field} if {\n  c := input.spec[field][_]\n  not c.image == \"b\"\n  msg := sprintf(\"%s of %s\", [c.name, input.metadata.name])\n}",
    ),
    (
        "pattern_counted",
        "deny contains sprintf(\"%d\", [count([m | general[{\"msg\": m}]])])\n\n\
         general contains {\"msg\": sprintf(\"%s\", [n])} if some n in [input.metadata.name, \"web\", input.spec.volumes[_].name]",
    ),
    (
        "pattern_collected",
        "deny contains sprintf(\"%d\", [count({m | general[{\"msg\": m}]})])\n\n\
         general contains {\"msg\": sprintf(\"%s%s\", n)} if some n in [[input.metadata.name, \"\"], [\"we\", \"b\"]]",
    ),
    (
        "pattern_texts",
        "deny contains sprintf(\"%d\", [count({m | general[{\"msg\": m, \"of\": \"x\"}]})])\n\n\
         general contains {\"msg\": sprintf(\"%s\", [input.metadata.name]), \"of\": \"x\"}\n\n\
         general contains {\"msg\": \"web\", \"of\": \"x\"}",
    ),
    (
        "pattern_compared",
        "deny contains \"web\" if { m := \"web\"; general[{\"msg\": m}] }\n\n\
         general contains {\"msg\": sprintf(\"%s\", [input.metadata.name])}",
    ),
    (
        "pattern_later",
        "deny contains \"web\" if { general[{\"msg\": m}]; m == \"web\" }\n\n\
         deny contains \"web\" if { general[{\"msg\": n}]; n = input.metadata.labels.app }\n\n\
         general contains {\"msg\": sprintf(\"%s\", [input.metadata.name])}",
    ),
    (
        "pattern_twice",
        "deny contains m if { general[{\"msg\": m}]; other[{\"msg\": m}] }\n\n\
         general contains {\"msg\": sprintf(\"%s\", [input.metadata.name])}\n\nother contains {\"msg\": \"web\"}",
    ),
    (
        "pattern_nested",
        "deny contains m if general[{\"at\": {\"msg\": m, \"of\": \"web\"}}]\n\n\
         general contains {\"at\": {\"msg\": \"m\", \"of\": input.metadata.name}}",
    ),
    (
        "pattern_key",
        "deny contains \"m\" if { k := sprintf(\"%s\", [input.metadata.name]); general[{k: \"x\"}] }\n\n\
         general contains {\"web\": \"x\"}",
    ),
    (
        "pattern_element",
        "deny contains x.msg if { x := general[{\"msg\": _, \"field\": \"a\"}] }\n\n\
         deny contains \"web\" if general[{\"msg\": _, \"field\": \"a\"}].msg == \"web\"\n\n\
         general contains {\"msg\": input.metadata.name, \"field\": \"a\"}",
    ),
    (
        "pattern_conflict",
        "deny contains message\n\nmessage := m if general[{\"msg\": m}]\n\n\
         general contains {\"msg\": input.metadata.name}\n\ngeneral contains {\"msg\": \"web\"}",
    ),
    (
        "pattern_object",
        "deny contains concat(\",\", sort(object.keys({m: 1 | general[{\"msg\": m}]})))\n\n\
         general contains {\"msg\": input.metadata.name}\n\ngeneral contains {\"msg\": \"web\"}",
    ),
];

/// Returns a template with this rule and two Constraints.
fn template(kind: &str, rule: &str, matching: &str) -> String {
    let name = kind.to_lowercase();
    let rule = rule.replace('\n', "\n        ");
    format!(
        "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: {name}}}\nspec:\n  crd: {{spec: {{names: {{kind: {kind}}}}}}}\n  \
         targets:\n  - target: admission.k8s.gatekeeper.sh\n    rego: |\n        package {name}\n\n        {rule}\n---\n\
         apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: {kind}\nmetadata: {{name: all}}\n---\n\
         apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: {kind}\nmetadata: {{name: some}}\nspec: {{match: {matching}}}\n"
    )
}

/// Rules that use the name, and the match of their Constraints.
const TEMPLATES: &[(&str, &str, &str)] = &[
    (
        "Prints",
        "violation[{\"msg\": msg, \"details\": {\"n\": input.review.name}}] {\n  msg := sprintf(\"%v of %v\", [input.review.object.metadata.name, input.review.namespace])\n}",
        "{name: \"web*\"}",
    ),
    ("Compares", "violation[{\"msg\": \"m\"}] {\n  input.review.name == \"web\"\n}", "{namespaces: [shop]}"),
    (
        "Spaces",
        "violation[{\"msg\": \"m\"}] {\n  input.review.namespace == \"shop\"\n}",
        "{excludedNamespaces: [shop]}",
    ),
    (
        "Labels",
        "violation[{\"msg\": input.review.object.metadata.name}] { true }",
        "{labelSelector: {matchLabels: {app: web}}}",
    ),
    (
        "Selects",
        "violation[{\"msg\": input.review.object.metadata.name}] { true }",
        "{namespaceSelector: {matchLabels: {app: web}}}",
    ),
    (
        "Kinds",
        "violation[{\"msg\": input.review.object.metadata.name}] { true }",
        "{scope: Namespaced, kinds: [{apiGroups: [\"\"], kinds: [Pod, Namespace]}]}",
    ),
    ("Keys", "violation[{\"msg\": \"m\", \"details\": {input.review.name: 1}}] { true }", "{scope: Cluster}"),
    ("Wrong", "violation[{\"msg\": [input.review.name]}] { true }", "{}"),
];

/// Loads policies twice: with and without shared verdicts.
fn both(path: &Path) -> Option<[Arc<PolicySet>; 2]> {
    let load = |share_verdicts| {
        let limits = Limits { share_verdicts, ..Limits::default() };
        let options = LoadOptions { limits, ..LoadOptions::allowing_refused() };
        PolicySet::load_with(&[path.to_owned()], &options).map(Arc::new)
    };
    Some([load(true).ok()?, load(false).ok()?])
}

/// Evaluates an object as a dependent of a common controller.
fn evaluate_object(set: &Arc<PolicySet>, verdicts: &SharedVerdicts, value: &Value) -> Verdict {
    let controller =
        Controller { group: "apps".into(), kind: "ReplicaSet".into(), name: "web".into(), uid: "web".into() };
    let object = Object { controller: Some(Arc::new(controller)), ..object(value) };
    let policies = Arc::clone(set);
    evaluate_shared(&Job { object, previous: None, deleted: false, namespace: None, policies }, verdicts)
}

/// Changes fields that no shareable rule reads, for another object with the same sharing key.
fn rename(value: &mut Value, random: &mut fastrand::Rng) {
    let names =
        ["web", "web", "high", "a", "m", "x", "web-0", "web-1", "system:web", "zz-9", "we\"b", "w eb", "", "%s"];
    let namespaces = ["shop", "shop", "high", "m", "web"];
    let metadata = &mut value["metadata"];
    if !metadata.is_object() {
        return;
    }
    metadata["name"] = names[random.usize(..names.len())].into();
    match random.u8(..6) {
        0 => drop(metadata.as_object_mut().unwrap().remove("namespace")),
        1 => metadata["namespace"] = namespaces[random.usize(..namespaces.len())].into(),
        _ => {}
    }
    metadata["uid"] = random.u64(..).to_string().into();
    metadata["resourceVersion"] = random.u32(..).to_string().into();
    metadata["creationTimestamp"] = format!("2026-01-01T00:00:{:02}Z", random.u8(..60)).into();
    value["status"] =
        json!({"phase": (["Running", "Pending"][random.usize(..2)]), "podIP": random.u32(..).to_string()});
    if value["kind"] == "Pod" && value["spec"].is_object() {
        value["spec"]["nodeName"] = format!("node-{}", random.u8(..9)).into();
        let tokens = ["aaaaa", "aaaaa", "bbbbb", "zz9zz", "00000", "AAAAA", "aaaaaa"];
        rename_token(value, &format!("kube-api-access-{}", tokens[random.usize(..tokens.len())]));
    }
}

/// Renames each token volume, wherever it is mounted.
fn rename_token(value: &mut Value, name: &str) {
    match value {
        Value::String(text) if text.starts_with("kube-api-access-") => name.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| rename_token(item, name)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename_token(field, name)),
        _ => {}
    }
}

/// Compares the results of objects that share, and of some altered ones. Returns the numbers of hits and results.
fn compare(sets: &[Arc<PolicySet>; 2], objects: &[Value], rounds: usize) -> (usize, usize) {
    let (mut hits, mut results) = (0, 0);
    let mut random = fastrand::Rng::with_seed(7);
    let shared = SharedVerdicts::default();
    for original in objects {
        let mut replica = original.clone();
        for round in 0..rounds {
            if round % 10 == 9 {
                replica = original.clone();
                for part in ["metadata", "spec"] {
                    replica.get_mut(part).into_iter().for_each(|part| alter(part, &mut random));
                }
            }
            let mut one = replica.clone();
            rename(&mut one, &mut random);
            let verdicts = sets.each_ref().map(|set| evaluate_object(set, &shared, &one));
            let [by_others, own] = verdicts.each_ref().map(|verdict| {
                (verdict.results.iter().map(shown).collect::<Vec<_>>(), verdict.passed.clone(), verdict.unfinished)
            });
            assert_eq!(by_others, own, "{one}");
            assert_eq!((verdicts[1].shared, verdicts[0].shared_differences.len()), (None, 0), "{one}");
            hits += usize::from(verdicts[0].shared == Some(Shared::Hit));
            results += by_others.0.len();
        }
    }
    (hits, results)
}

#[test]
fn shared_verdicts_equal_unshared_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let objects = objects();
    // Few of the examples can share.
    for (path, least) in
        [("policies", 50), ("examples/policies", 0), ("examples/bench/policies", 50), ("examples/bench/templates", 50)]
    {
        let (hits, results) = compare(&both(&root.join(path)).unwrap(), &objects, 40);
        assert!(hits >= least && results > 100, "{path}: {hits} hits, {results} results");
    }
    let Some(library) = std::env::var_os("KAUDIT_TEST_LIBRARY") else { return };
    let mut folders = vec![std::path::PathBuf::from(library)];
    while let Some(path) = folders.pop() {
        folders.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
        let Some(sets) = both(&path).filter(|sets| sets[0].policies.iter().all(|policy| !policy.depends.clock)) else {
            continue;
        };
        let (hits, results) = compare(&sets, &objects, 20);
        eprintln!("{}: {hits} hits, {results} results", path.display());
    }
}

/// A template in CEL, whose results are not shared.
const EXPRESSIONS: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: expressions}
spec:
  crd: {spec: {names: {kind: Expressions}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source: {validations: [{expression: "false", messageExpression: "object.metadata.name + ' of ' + object.kind"}]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Expressions
metadata: {name: some}
spec: {match: {scope: Namespaced, labelSelector: {matchLabels: {app: web}}}}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Expressions
metadata: {name: others}
spec: {match: {kinds: [{kinds: [Service, Namespace]}], excludedNamespaces: [shop]}}
"#;

#[test]
fn templates_in_cel_are_evaluated_beside_shared_verdicts() {
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/bench/templates");
    let all = folder(&[("expressions.yaml", EXPRESSIONS)]);
    for entry in fs::read_dir(templates).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), all.path().join(entry.file_name())).unwrap();
    }
    let (hits, results) = compare(&both(all.path()).unwrap(), &objects(), 40);
    assert!(hits >= 50 && results > 100, "{hits} hits, {results} results");
}

#[test]
fn shared_verdicts_are_right_for_any_use_of_names() {
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web", "web": "y"}},
            "spec": {"containers": [{"name": "a", "image": "web"}]}})
    };
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web", "labels": {"app": "web"}}});
    let objects = [pod("web"), pod("a"), namespace];
    let modules = ODD.iter().map(|(name, rules)| (format!("{name}.rego"), format!("package odd.{name}_\n\n{rules}\n")));
    let templates =
        TEMPLATES.iter().map(|(kind, rule, matching)| (format!("{kind}.yaml"), template(kind, rule, matching)));
    let files: Vec<(String, String)> = modules.chain(templates).collect();
    let mut hits = 0;
    for (name, text) in &files {
        let one = folder(&[(name, text)]);
        let sets = both(one.path()).unwrap_or_else(|| panic!("{name} is not loaded:\n{text}"));
        let (shared, results) = compare(&sets, &objects, 60);
        assert!(results > 0, "{name} has no results");
        eprintln!("{name}: {shared} hits");
        hits += usize::from(shared > 0);
    }
    assert!((15..40).contains(&hits), "{hits} of {} share", files.len());
    let all: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    // Most of these rules cannot share, so they are evaluated together.
    compare(&both(folder(&all).path()).unwrap(), &objects, 60);
}

#[test]
fn shared_verdicts_are_right_for_any_use_of_token_volumes() {
    let mount = |name: &str| json!({"name": name, "mountPath": "/m"});
    let token = "kube-api-access-aaaaa";
    let pod = |volumes: &[&str]| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"volumes": volumes.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
                "containers": [{"name": "a", "image": "web", "volumeMounts": [mount("v"), mount(token)]}, {"name": "b", "image": "b"}]}})
    };
    let mut labelled = pod(&["v", token]);
    labelled["metadata"]["labels"]["volume"] = token.into();
    let objects =
        [pod(&["v", token]), pod(&[token, "kube-api-access", "kube-b"]), pod(&[token, "kube-api-access-x"]), labelled];
    let mut hits = 0;
    for (name, rules) in TOKENS {
        let text = format!("package odd.{name}_\n\n{rules}\n");
        let one = folder(&[("p.rego", &text)]);
        let sets = both(one.path()).unwrap_or_else(|| panic!("{name} is not loaded:\n{text}"));
        let (shared, results) = compare(&sets, &objects, 60);
        assert!(results > 0, "{name} has no results");
        eprintln!("{name}: {shared} hits");
        hits += usize::from(shared > 0);
    }
    assert!((5..20).contains(&hits), "{hits} of {} share", TOKENS.len());
}

#[test]
fn replicas_are_evaluated_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pod = objects().pop().unwrap();
    for path in ["policies", "examples/bench/policies", "examples/bench/templates"] {
        let [set, _] = both(&root.join(path)).unwrap();
        let verdicts = SharedVerdicts::default();
        let shared = (0..30).map(|number| {
            let mut replica = pod.clone();
            let suffix = format!("{number:05}");
            replica["metadata"]["name"] = format!("web-5d8f-{suffix}").into();
            replica["metadata"]["uid"] = suffix.as_str().into();
            replica["metadata"]["generateName"] = "web-5d8f-".into();
            replica["spec"]["nodeName"] = format!("node-{}", number % 7).into();
            replica["status"] = json!({"podIP": suffix});
            let token = json!({"name": format!("kube-api-access-{suffix}"), "projected": {"sources": []}});
            replica["spec"]["volumes"].as_array_mut().unwrap().push(token);
            evaluate_object(&set, &verdicts, &replica).shared
        });
        let shared: Vec<_> = shared.collect();
        assert_eq!(shared[..2], [None, Some(Shared::Miss)], "{path}");
        assert!(shared[2..].iter().all(|shared| *shared == Some(Shared::Hit)), "{path}: {shared:?}");
    }
}
