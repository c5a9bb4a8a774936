use std::{collections::BTreeMap, sync::Arc};

use crate::{
    judge::{
        bundle::{Bundle, Edition},
        evaluate::{Job, evaluate},
        load_options::LoadOptions,
        set::PolicySet,
        sources::{FileSource, FileTree, TreeFile},
    },
    model::object::{Kind as ObjectKind, Object, ObjectKey},
    rego::analysis::cpu_time::CpuTimer,
};

/// The kind of a source on a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceKind {
    Builtin,
    Bundle,
    ConfigMap,
    Local,
}

fn tree(name: &str, files: &[(&str, &[u8])]) -> FileTree {
    let file = |(path, content): &(&str, &[u8])| TreeFile {
        path: path.split('/').map(str::to_owned).collect(),
        content: Ok(content.to_vec()),
    };
    FileTree { name: name.into(), files: files.iter().map(file).collect() }
}

fn source(kind: SourceKind, name: &str, files: &[(&str, &[u8])]) -> FileSource {
    match kind {
        SourceKind::Builtin => FileSource::Builtin("pod_security".to_owned()),
        SourceKind::ConfigMap => FileSource::Tree(Arc::new(tree(&format!("cluster:configmaps/pol/{name}"), files))),
        SourceKind::Local => FileSource::Tree(Arc::new(tree(name, files))),
        SourceKind::Bundle => {
            let edition = Edition::sample(name);
            let (tree, versions) = (tree(name, files), BTreeMap::new());
            FileSource::Bundle(Arc::new(Bundle { tree, edition, roots: None, versions, problem: None }))
        }
    }
}

fn object(plural: &str, kind: &str, body: &str) -> Object {
    let kind = ObjectKind::sample("", plural, kind);
    Object::sample(ObjectKey { kind, namespace: Some("d".into()), name: "evil".into(), copy: 0 }, body.as_bytes())
}

fn load(sources: &[FileSource]) -> PolicySet {
    PolicySet::load_with(sources, &LoadOptions::allowing_refused()).unwrap()
}

/// Returns the results for a privileged Pod, without those of the source `attacker`.
fn results_without(set: &PolicySet, attacker: &str) -> Vec<String> {
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"evil","namespace":"d"},
        "spec":{"containers":[{"name":"c","image":"x","securityContext":{"privileged":true}}]}}"#;
    let object = object("pods", "Pod", pod);
    let policies = Arc::new(set.clone());
    let verdict = evaluate(&Job { object, previous: None, deleted: false, namespace: None, policies });
    let own = verdict.results.iter().filter(|finding| !finding.rule.source.file.starts_with(attacker));
    let mut shown: Vec<String> = own
        .map(|finding| {
            format!("{} {} {:?} {}", finding.rule.policy, finding.rule.name, finding.outcome, finding.message)
        })
        .collect();
    shown.sort();
    shown
}

fn results(set: &PolicySet) -> Vec<String> {
    results_without(set, "-")
}

/// Returns the rules of all other sources with their metadata.
fn metadata(set: &PolicySet, attacker: &str) -> Vec<String> {
    let policies = set.policies.iter().filter(|policy| !policy.source.starts_with(attacker));
    policies
        .flat_map(|policy| policy.rules.iter().map(|rule| format!("{} {} {:?}", policy.name, rule.name, rule.metadata)))
        .collect()
}

const VICTIM: &[u8] = b"package victim\n\nimport data.lib.victim\n\ndeny contains \"bad\" if victim.bad\n\n\
    deny contains \"no list\" if not data.allowed.pods\n\nwarn contains msg if some msg in data.own.words\n";
const LIBRARY: &[u8] = b"package lib.victim\n\nbad if input.kind == \"Pod\"\n";
const DATA: &[u8] = b"{\"own\": {\"words\": [\"word\"]}}";

/// A file's name and text.
type NamedText = (&'static str, &'static [u8]);

/// Returns the files of hostile sources.
fn attacks() -> Vec<(&'static str, Vec<NamedText>)> {
    vec![
        ("its package", vec![("x.rego", b"package victim\n\ndeny contains \"other\"\n")]),
        ("another kind of rule", vec![("x.rego", b"package victim\n\ndeny := true\n")]),
        ("its library", vec![("x.rego", b"package lib.victim\n\nbad contains 1\n")]),
        ("the library of the binary", vec![("x.rego", b"package lib.workload\n\ncontainers contains 1\n")]),
        ("a package of the binary", vec![("x.rego", b"package pod_security.baseline\n\ndeny_privileged := 1\n")]),
        ("an exception", vec![("x.rego", b"package victim\n\nexception contains [\"\"]\n")]),
        ("an exception of the binary", vec![("x.rego", b"package pod_security.baseline\n\nexception contains [\"privileged\"]\n")]),
        ("an exception from above", vec![("x.rego", b"package pod_security\n\nbaseline.exception contains [\"privileged\"]\n")]),
        ("a package in the way", vec![("x.rego", b"package victim.deny\n\nx := 1\n")]),
        ("a package above", vec![("x.rego", b"package lib\n\nvictim := 1\nworkload := 1\n")]),
        ("METADATA of a package", vec![("x.rego", b"# METADATA\n# scope: package\n# custom: {excusable: true}\npackage victim\n")]),
        ("METADATA of subpackages", vec![("x.rego", b"# METADATA\n# scope: subpackages\n# custom: {excusable: true}\npackage pod_security\n")]),
        ("METADATA of a document", vec![("x.rego", b"package victim\n\n# METADATA\n# scope: document\n# custom: {excusable: true}\ndeny contains 1 if false\n")]),
        ("data that is looked up", vec![("x.json", b"{\"allowed\": {\"pods\": true}}")]),
        ("rules that are looked up", vec![("x.rego", b"package allowed\n\npods := true\n")]),
        ("data at its path", vec![("x.json", b"{\"own\": {\"words\": []}}")]),
        ("data beside its own", vec![("x.json", b"{\"own\": {\"more\": 1, \"words\": 2}}")]),
        ("data at its package", vec![("x.json", b"{\"victim\": {\"deny\": 1}}")]),
        ("data at packages of the binary", vec![("x.json", b"{\"lib\": 1, \"pod_security\": {\"baseline\": []}}")]),
        ("a release", vec![("x.json", b"{\"kaudit\": {\"kubernetes_version\": \"1.99\"}}")]),
        ("text that is not UTF-8", vec![("x.rego", b"package \xff")]),
        ("data that is not JSON", vec![("x.json", b"{")]),
        ("a module that is not Rego", vec![("x.rego", b"package victim\n\ndeny[")]),
        ("nothing but a package", vec![("x.rego", b"package\n  victim\ndeny contains 1\n")]),
        ("an example named like its data", vec![(
            "x.rego",
            b"# METADATA\n# custom:\n#   examples: data.json\n#   input: {selector: [{type: kubernetes}]}\npackage attack\n\ndeny contains 1\n",
        )]),
        ("a Config", vec![(
            "x.yaml",
            b"apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\nmetadata: {name: config}\nspec: {match: [{excludedNamespaces: ['*'], processes: ['*']}]}\n",
        )]),
        ("a copy", vec![("x.rego", LIBRARY)]),
    ]
}

#[test]
fn no_source_changes_the_results_of_an_earlier_one() {
    for (victim, name) in [
        (SourceKind::Builtin, "builtin"),
        (SourceKind::Bundle, "oci://r.example.com/victim:1"),
        (SourceKind::ConfigMap, "victim"),
        (SourceKind::Local, "policies"),
    ] {
        let files = [("a.rego", VICTIM), ("lib.rego", LIBRARY), ("data.json", DATA)];
        let victim = source(victim, name, &files);
        let alone = load(std::slice::from_ref(&victim));
        let (want, about) = (results(&alone), metadata(&alone, "-"));
        assert!(!want.is_empty(), "{name}");
        for (what, files) in attacks() {
            for (attacker, shown) in
                [(SourceKind::Bundle, "oci://r.example.com/x:1"), (SourceKind::ConfigMap, "cluster:configmaps/pol/x")]
            {
                let hostile = source(attacker, if attacker == SourceKind::ConfigMap { "x" } else { shown }, &files);
                let set = load(&[victim.clone(), hostile]);
                // `ConfigMap`s in one namespace may read each other's packages and data.
                let siblings = attacker == SourceKind::ConfigMap && name == "victim" && what.ends_with("looked up");
                if !siblings {
                    assert_eq!(results_without(&set, shown), want, "{what} of {shown} for {name}: {:?}", set.problems);
                }
                assert_eq!(metadata(&set, shown), about, "{what} of {shown} for {name}");
                let refused: Vec<_> = set.refused().filter(|problem| !problem.file.starts_with(shown)).collect();
                assert!(refused.is_empty(), "{what} of {shown} for {name}: {refused:?}");
            }
        }
    }
}

#[test]
fn of_two_sources_with_one_package_the_later_is_refused_and_says_so() {
    let one = source(SourceKind::Bundle, "oci://r/one:1", &[("a.rego", b"package p\n\ndeny contains \"one\"\n")]);
    let other = source(SourceKind::ConfigMap, "other", &[("b.rego", b"\n\npackage p\n\ndeny contains \"other\"\n")]);
    let refused = |sources: &[FileSource]| load(sources).refused().map(ToString::to_string).collect::<String>();
    let second = refused(&[one.clone(), other.clone()]);
    let want = "cluster:configmaps/pol/other/b.rego:3:1: package p belongs to oci://r/one:1, which defined it first: \
                oci://r/one:1/a.rego";
    assert!(second.starts_with(want), "{second}");
    assert!(
        refused(&[other, one])
            .starts_with("oci://r/one:1/a.rego:1:1: package p belongs to cluster:configmaps/pol/other")
    );
}

#[test]
fn a_source_sees_earlier_sources_and_local_files() {
    let library = source(SourceKind::Bundle, "oci://r/lib:1", &[("lib.rego", LIBRARY), ("data.json", DATA)]);
    let user = |kind| source(kind, "user", &[("a.rego", VICTIM)]);
    let parameters = source(SourceKind::Local, "parameters", &[("p.json", b"{\"allowed\": {\"pods\": true}}")]);
    for kind in [SourceKind::Local, SourceKind::Bundle, SourceKind::ConfigMap] {
        let set = load(&[library.clone(), user(kind)]);
        assert_eq!(results(&set).len(), 3, "{kind:?}: {:?}", set.problems);
        assert_eq!(set.policies.len(), 1);
        let set = load(&[library.clone(), user(kind), parameters.clone()]);
        assert_eq!(results(&set).len(), 2, "{kind:?}: {:?}", set.problems);
        let set = load(&[user(kind), library.clone()]);
        let why = "data.lib.victim is a package of oci://r/lib:1, which comes later and is not visible here";
        assert!(set.problems.iter().any(|problem| problem.message == why), "{:?}", set.problems);
    }
    // The builtin library can be used, too.
    let own = source(
        SourceKind::Local,
        "own",
        &[("a.rego", b"package own\n\ndeny contains \"x\" if count(data.lib.workload.containers) > 0\n")],
    );
    let set = load(&[FileSource::builtin(), own]);
    assert!(
        !set.is_partial() && results(&set).iter().any(|result| result.starts_with("own deny")),
        "{:?}",
        set.problems
    );
    // Local data sets the Kubernetes release.
    let release = source(SourceKind::Local, "own", &[("r.json", b"{\"kaudit\": {\"kubernetes_version\": \"1.20\"}}")]);
    let budget = r#"{"apiVersion":"policy/v1beta1","kind":"PodDisruptionBudget","metadata":{"name":"i"}}"#;
    let violated_rules = |sources: &[FileSource]| {
        let policies = Arc::new(load(sources));
        let object = object("poddisruptionbudgets", "PodDisruptionBudget", budget);
        evaluate(&Job { object, previous: None, deleted: false, namespace: None, policies })
            .results
            .iter()
            .map(|finding| finding.rule.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_ne!(violated_rules(&[FileSource::builtin(), release]), violated_rules(&[FileSource::builtin()]));
}

#[test]
fn config_maps_in_one_namespace_see_each_other() {
    let user = source(SourceKind::ConfigMap, "a", &[("a.rego", VICTIM)]);
    let library = source(SourceKind::ConfigMap, "b", &[("lib.rego", LIBRARY), ("d.json", DATA)]);
    let set = load(&[user, library]);
    assert_eq!(results(&set).len(), 3, "{:?}", set.problems);
    let messages: Vec<&str> = set.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages, ["deny uses data.allowed.pods, but no file that is visible here defines it"]);
}

#[test]
fn a_copy_of_a_module_is_ignored() {
    let one = source(SourceKind::Local, "one", &[("a.rego", VICTIM), ("lib.rego", LIBRARY)]);
    let copy = source(SourceKind::Bundle, "oci://r/copy:1", &[("x.rego", VICTIM), ("y.rego", LIBRARY)]);
    let set = load(&[one.clone(), copy]);
    assert_eq!((results(&set), set.is_partial()), (results(&load(&[one])), false), "{:?}", set.problems);
}

/// Loads a source of this kind together with a small local policy; returns the refused files of the source.
fn refused_of(kind: SourceKind, files: &[(&str, &[u8])]) -> Vec<String> {
    let small = source(SourceKind::Local, "small", &[("a.rego", b"package small\n\ndeny contains \"small\"\n")]);
    let set = load(&[source(kind, "large", files), small]);
    assert!(results(&set).contains(&"small deny Fail small".to_owned()), "{:?}", set.problems);
    set.refused().map(|problem| format!("{}: {}", problem.file, problem.message)).collect()
}

#[test]
fn what_a_source_may_hold_is_bounded_before_it_is_parsed() {
    let values = format!("{{\"x\": [{}0]}}", "[],".repeat(200_000));
    // With fewer values of its own, the file would be refused as too many aliases in itself.
    let aliases = format!("z: [{}]\nx: &a [{}]\ny: [{}]\n", "0, ".repeat(2_000), "0, ".repeat(400), "*a, ".repeat(400));
    let tokens = format!("package large\n\nx := [{}0]\n", "[],[],\n".repeat(70_000));
    let lines = format!("package large\n{}", "\n".repeat(900_000));
    let constraint = format!(
        "{{\"apiVersion\": \"constraints.gatekeeper.sh/v1\", \"kind\": \"A\", \"metadata\": {{\"name\": \"a\"}}, \"x\": [{}0]}}",
        "[],".repeat(300_000)
    );
    for (what, name, text, fits, want) in [
        ("values", "data.json", &values, 1, "exceeds the limit of 500000 values in data for a source"),
        ("values in YAML", "data.yaml", &values, 1, "exceeds the limit of 500000 values in data for a source"),
        ("aliases", "data.yaml", &aliases, 3, "the expanded aliases in data of"),
        ("tokens", "a.rego", &tokens, 1, "exceeds the limit of 600000 tokens in modules"),
        ("lines", "a.rego", &lines, 0, "exceeds the limit of 600000 tokens in modules"),
        ("objects", "a.json", &constraint, 0, "exceeds the limit of 500000 values in data for a source"),
    ] {
        for kind in [SourceKind::Bundle, SourceKind::ConfigMap] {
            let names: Vec<String> = (0..5).map(|number| format!("d{number}/{name}")).collect();
            let files: Vec<(&str, &[u8])> = names.iter().map(|name| (&**name, text.as_bytes())).collect();
            let refused = refused_of(kind, &files);
            let excess = refused.iter().filter(|problem| problem.contains(want)).count();
            assert_eq!(excess, 5 - fits, "{what} {kind:?}: {refused:?}");
        }
    }
    // Local paths have higher limits.
    let files: Vec<(String, &[u8])> =
        (0..5).map(|number| (format!("d{number}/data.json"), values.as_bytes())).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (&**name, *text)).collect();
    assert_eq!(refused_of(SourceKind::Local, &files).len(), 1);
}

#[test]
fn loading_takes_time_in_proportion_to_the_modules() {
    let took = |count: usize| {
        let files: Vec<(String, String)> = (0..count)
            .map(|number| {
                let text =
                    format!("# METADATA\n# title: t\npackage p{number}.q\n\ndeny contains \"x\" if input.a{number}\n");
                (format!("{number}.rego"), text)
            })
            .collect();
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (&**name, text.as_bytes())).collect();
        let source = source(SourceKind::Bundle, "many", &files);
        let timer = CpuTimer::start();
        assert_eq!(load(&[source]).policies.len(), count);
        timer.elapsed()
    };
    // Warm-up: one-time work is not measured.
    took(10);
    let (few, many) = (took(150), took(1_200));
    assert!(many < few * 20, "{few:?} for 150, {many:?} for 1,200");
}

/// Loads a bundle with these modules together with a small local policy; returns its policies and the refused files.
fn load_modules(modules: impl Iterator<Item = String>) -> (Vec<String>, Vec<String>) {
    let files: Vec<(String, String)> =
        modules.enumerate().map(|(number, text)| (format!("m{number:04}.rego"), text)).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (&**name, text.as_bytes())).collect();
    let small = source(SourceKind::Local, "small", &[("a.rego", b"package small\n\ndeny contains \"small\"\n")]);
    let set = load(&[source(SourceKind::Bundle, "many", &files), small]);
    let refused = set.refused().map(|problem| format!("{}: {}", problem.file, problem.message)).collect();
    (set.policies.iter().map(|policy| policy.name.to_string()).collect(), refused)
}

#[test]
fn load_time_is_proportional_to_the_modules_of_one_package() {
    let load = |count: usize| {
        let module = |number: usize| format!("package large\n\ndeny_{number} contains \"x\" if input.a{number}\n");
        let timer = CpuTimer::start();
        let (policies, refused) = load_modules((0..count).map(module));
        assert_eq!((policies.len(), refused), (2, vec![]));
        timer.elapsed()
    };
    load(10);
    let (few, many) = (load(150), load(1_200));
    assert!(many < few * 24, "{few:?} for 150, {many:?} for 1,200");
}

#[test]
fn modules_that_use_a_refused_module_are_left_out() {
    let chain = |count: usize| {
        let module = move |number: usize| match number + 1 {
            last if last == count => format!("package p{number}\n\ndeny contains \"x\" if unknown(1)\n\nok if true\n"),
            next => format!("package p{number}\n\ndeny contains \"x\" if data.p{next}.ok\n\nok if true\n"),
        };
        let timer = CpuTimer::start();
        let (policies, refused) = load_modules((0..count).map(module));
        assert_eq!((policies.len(), refused.len()), (1, count), "{refused:?}");
        assert!(refused[0].contains("left out: deny uses data.p1.ok of many/m0001.rego"), "{}", refused[0]);
        timer.elapsed()
    };
    chain(3);
    let (few, many) = (chain(40), chain(320));
    assert!(many < few * 24, "{few:?} for 40, {many:?} for 320");
}

#[test]
fn modules_with_too_long_chains_of_references_are_refused() {
    let chain = |count: usize| {
        let module = move |number: usize| match number + 1 {
            last if last == count => format!("package p{number}\n\nok if input.x\n"),
            next => format!("package p{number}\n\nimport data.p{next}\n\nok if p{next}.ok\n"),
        };
        let timer = CpuTimer::start();
        let (_, refused) = load_modules((0..count).map(module));
        (refused, timer.elapsed())
    };
    let short = chain(40);
    assert_eq!(short.0, [""; 0]);
    let long = chain(320);
    assert!(long.0.len() > 100, "{:?}", long.0);
    for (number, refused) in long.0.iter().enumerate() {
        let want = format!("many/m{number:04}.rego: data.p{number}.ok evaluates too many rules inside one another");
        assert_eq!(*refused, want);
    }
    assert!(long.1 < short.1 * 40, "{:?} for 40, {:?} for 320", short.1, long.1);
}

#[test]
fn recursive_modules_are_refused_in_proportional_time() {
    let pairs = |count: usize| {
        let module = |number: usize| format!("package p{number}\n\na if b\n\nb if a\n");
        let timer = CpuTimer::start();
        let (_, refused) = load_modules((0..count).map(module));
        assert_eq!(refused.len(), count, "{refused:?}");
        assert_eq!(refused[1], "many/m0001.rego: rules may not refer to themselves: data.p1.a → data.p1.b → data.p1.a");
        timer.elapsed()
    };
    pairs(3);
    let (few, many) = (pairs(100), pairs(1_000));
    assert!(many < few * 30, "{few:?} for 100, {many:?} for 1,000");
}
