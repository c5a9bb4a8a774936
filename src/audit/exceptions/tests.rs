use super::*;
use crate::{
    model::{
        object::Kind,
        verdict::{Excused, Outcome},
    },
    rego::analysis::yaml,
};

const POLICIES: &str = "# METADATA\n# custom: {excusable: true}\npackage p\n\nimport rego.v1\n\n\
                        deny contains \"x\" if input.x\n\ndeny_other contains \"y\" if input.y\n";

fn policies() -> PolicySet {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.rego"), POLICIES).unwrap();
    std::fs::write(folder.path().join("q.rego"), POLICIES.replace("p\n", "q\n").replace("true", "false")).unwrap();
    PolicySet::load(&[folder.path().to_owned()]).unwrap()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn document(name: &str, namespace: &str, spec: &str) -> String {
    let metadata =
        if namespace.is_empty() { format!("name: {name}") } else { format!("name: {name}, namespace: {namespace}") };
    format!("apiVersion: kaudit.dev/v1alpha1\nkind: PolicyException\nmetadata: {{{metadata}}}\nspec: {{{spec}}}\n")
}

const FULL: &str = "policies: [{name: p, rules: [deny]}], reason: legacy, expiresAt: 2027-01-31";

fn load(text: &str) -> anyhow::Result<Exceptions> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exceptions.yaml");
    std::fs::write(&path, text).unwrap();
    Exceptions::load(&[path])?.checked(&policies())
}

/// Returns what is wrong with a file, without its folder.
fn refused(text: &str) -> String {
    let why = format!("{:#}", load(text).unwrap_err());
    why.lines()
        .map(|line| line.rsplit_once("exceptions.yaml").map_or(line, |(_, rest)| rest))
        .collect::<Vec<_>>()
        .join("\n")
}

fn key(kind: &str, namespace: &str, name: &str) -> ObjectKey {
    let kind = Kind::sample("apps", &format!("{}s", kind.to_lowercase()), kind);
    ObjectKey { kind, namespace: Some(namespace.into()), name: name.into(), copy: 0 }
}

/// Returns what excuses `p/deny` about an object at a time.
fn excused(exceptions: &Exceptions, key: &ObjectKey, labels: &str, now: &str) -> Option<String> {
    let body = Body::plain(format!(r#"{{"metadata":{{"labels":{labels}}}}}"#).as_bytes());
    let mut findings = [Finding::sample("x")];
    exceptions.apply(&[(key.clone(), body)], &mut findings, time(now));
    let [Finding { outcome, excused, .. }] = findings;
    assert_eq!(outcome, if excused.is_some() { Outcome::Skip } else { Outcome::Fail });
    excused.map(|Excused { excuse, .. }| excuse.to_string())
}

#[test]
fn a_violation_is_excused_until_the_end_of_the_last_day() {
    let exceptions = load(&document("e", "", FULL)).unwrap();
    let object = key("Deployment", "shop", "web");
    let excuse = Some("excused by e until 2027-02-01T00:00:00Z: legacy".to_owned());
    assert_eq!(excused(&exceptions, &object, "{}", "2027-01-31T23:59:59Z"), excuse);
    assert_eq!(excused(&exceptions, &object, "{}", "2027-02-01T00:00:00Z"), None);
    let notice = time("2027-01-18T00:00:00.000000001Z");
    assert_eq!(exceptions.next_turn(time("2027-01-01T00:00:00Z")), Some(notice));
    assert_eq!(exceptions.summaries(&HashMap::from([("e".into(), 1)]), notice)[0].state, ExceptionState::Expiring);
    assert_eq!(exceptions.next_turn(notice), Some(time("2027-02-01T00:00:00Z")));
    assert_eq!(exceptions.next_turn(time("2027-02-01T00:00:00Z")), None);
    // What was excused before and no longer is, is what the policy says.
    let mut findings = [Finding::sample("x"), Finding { outcome: Outcome::Error, ..Finding::sample("x") }];
    for (now, outcome) in [("2027-01-01T00:00:00Z", Outcome::Skip), ("2028-01-01T00:00:00Z", Outcome::Fail)] {
        exceptions.apply(&[(object.clone(), Body::default())], &mut findings, time(now));
        assert_eq!((findings[0].outcome, findings[1].outcome), (outcome, Outcome::Error));
    }
}

#[test]
fn what_is_excused_stays_so_until_an_evaluation_without_its_rule() {
    let (now, object) = (time("2027-01-01T00:00:00Z"), key("Deployment", "shop", "web"));
    let mut exceptions = load(&document("e", "", FULL)).unwrap();
    let mut findings = [Finding::sample("x")];
    exceptions.apply(&[(object.clone(), Body::default())], &mut findings, now);
    // Results of a removed rule remain until the objects are evaluated again, and exceptions may change meanwhile.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("q.rego"), POLICIES.replace("package p", "package q")).unwrap();
    exceptions.set_policies(&PolicySet::load(&[folder.path().to_owned()]).unwrap());
    for subjects in [vec![(object, Body::default())], Vec::new()] {
        exceptions.apply(&subjects, &mut findings, now);
        assert_eq!(findings[0].outcome, Outcome::Skip);
    }
}

#[test]
fn all_conditions_of_a_selector_must_match() {
    let now = "2027-01-01T00:00:00Z";
    for (matching, wanted) in [
        ("", [true, true, true]),
        ("kinds: [deployments.apps]", [true, true, false]),
        ("names: [we*]", [true, false, true]),
        ("names: [api, web]", [true, true, true]),
        ("namespaces: [\"*op\"]", [true, false, true]),
        ("labelSelector: {matchLabels: {old: \"yes\"}}", [true, false, false]),
        ("labelSelector: {matchExpressions: [{key: old, operator: DoesNotExist}]}", [false, true, true]),
        ("kinds: [Deployment], names: [api]", [false, true, false]),
    ] {
        let exceptions = load(&document("e", "", &format!("{FULL}, match: {{{matching}}}"))).unwrap();
        let objects = [
            (key("Deployment", "shop", "web"), r#"{"old":"yes"}"#),
            (key("Deployment", "billing", "api"), "{}"),
            (key("StatefulSet", "shop", "web"), "null"),
        ];
        let found = objects.map(|(key, labels)| excused(&exceptions, &key, labels, now).is_some());
        assert_eq!(found, wanted, "{matching}");
    }
    let own = load(&document("e", "shop", FULL)).unwrap();
    assert!(excused(&own, &key("Pod", "shop", "a"), "{}", now).is_some());
    assert!(excused(&own, &key("Pod", "billing", "a"), "{}", now).is_none());
}

#[test]
fn invalid_exceptions_are_refused_with_file_and_line() {
    let good = document("good", "", FULL);
    for (spec, why) in [
        (
            "policies: [{name: p}], expiresAt: 2027-01-31",
            "spec.reason: is missing or empty: say why this may stay as it is",
        ),
        ("policies: [{name: p}], reason: r", "spec.expiresAt: is missing: say until when, such as 2027-01-31"),
        (
            "policies: [{name: p}], reason: r, expiresAt: soon",
            "spec.expiresAt: \"soon\" is no date such as 2027-01-31 and no time such as 2027-01-31T12:00:00Z",
        ),
        ("policies: [], reason: r, expiresAt: 2027-01-31", "spec.policies: names no policy"),
        (
            "policies: [{name: pp}], reason: r, expiresAt: 2027-01-31",
            ": there is no policy or rule pp; did you mean p?",
        ),
        (
            "policies: [{name: p, rules: [dney]}], reason: r, expiresAt: 2027-01-31",
            ": policy p has no rule dney; did you mean deny?",
        ),
        (
            "policies: [{name: p}], reason: r, expires: 2027-01-31",
            "spec: unknown field expires, expected one of policies, match, reason, expiresAt",
        ),
        (
            "policies: [{name: p}], reason: r, expiresAt: 2027-01-31, match: {kinds: [\"a b\"]}",
            "spec.match.kinds: \"a b\": expected a kind such as deployments, Deployment, deploy, deployments.apps, *.apps or *",
        ),
    ] {
        let text = format!("{good}---\n{}", document("bad", "", spec));
        let (space, why) = why.strip_prefix(": ").map_or((" ", why), |why| (": ", why));
        assert_eq!(refused(&text), format!(":9: bad{space}{why}"));
    }
    assert!(
        refused("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n").starts_with(":1: a is a Pod of v1, not")
    );
    assert!(load("{").is_err() && Exceptions::load(&["/nowhere/at/all".into()]).is_err());
}

#[test]
fn a_long_file_with_a_mistake_at_its_beginning_is_refused() {
    let rest = document("e", "", FULL) + "---\n";
    assert!(refused(&format!("a: [\n---\n{}", rest.repeat(500))).starts_with(':'));
}

/// Takes in an exception of the cluster.
fn put(exceptions: &mut Exceptions, name: &str, spec: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.yaml");
    std::fs::write(&path, document(name, "shop", spec)).unwrap();
    let file = ManifestFile::named(path);
    exceptions.put(&Object { location: None, ..objects(file).unwrap().remove(0) });
}

/// Takes in an exception of a manifest without a namespace.
fn put_nowhere(exceptions: &mut Exceptions, name: &str, spec: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.yaml");
    std::fs::write(&path, document(name, "", spec)).unwrap();
    exceptions.put(&objects(ManifestFile::named(path)).unwrap().remove(0));
}

#[test]
fn an_exception_of_a_team_without_a_namespace_is_for_the_namespace_default() {
    let mut exceptions = Exceptions::default();
    exceptions.set_policies(&policies());
    put_nowhere(&mut exceptions, "all", FULL);
    let now = "2027-01-01T00:00:00Z";
    let cluster_scoped = ObjectKey { namespace: None, ..key("Node", "", "a") };
    for object in [key("Pod", "shop", "a"), key("Pod", "default-2", "a"), cluster_scoped] {
        assert_eq!(excused(&exceptions, &object, "{}", now), None, "{object:?}");
    }
    let [summary] = &exceptions.summaries(&HashMap::new(), time(now))[..] else { panic!() };
    let why = "excuses nothing: without metadata.namespace it is for the namespace default";
    assert_eq!((&*summary.name, &*summary.message), ("default/all", why));
    assert!(excused(&exceptions, &key("Pod", "default", "a"), "{}", now).is_some());
}

#[test]
fn an_exception_of_a_team_that_ends_too_late_is_invalid_until_its_end_is_near_enough() {
    let longest = Some(SignedDuration::from_hours(90 * 24));
    let object = key("Pod", "shop", "a");
    let mut exceptions = Exceptions::default().limited(longest);
    exceptions.set_policies(&policies());
    put(&mut exceptions, "long", "policies: [{name: p}], reason: r, expiresAt: \"2027-05-01T00:00:00Z\"");
    let (early, late) = ("2027-01-30T23:59:59Z", "2027-01-31T00:00:00Z");
    assert_eq!(excused(&exceptions, &object, "{}", early), None);
    let summary = exceptions.summaries(&HashMap::new(), time(early)).remove(0);
    let why = "spec.expiresAt: 2027-05-01T00:00:00Z is later than --max-exception-duration allows before \
               2027-01-31T00:00:00Z: choose an earlier end";
    assert_eq!((summary.state, &*summary.message), (ExceptionState::Invalid, why));
    assert_eq!(exceptions.next_turn(time(early)), Some(time(late)));
    assert!(excused(&exceptions, &object, "{}", late).is_some());
    assert_ne!(exceptions.summaries(&HashMap::new(), time(late))[0].state, ExceptionState::Invalid);
    // Files given by the operator have no limit, also when they are read again.
    exceptions.replace_given(load(&document("e", "", FULL)).unwrap());
    assert_eq!(exceptions.longest, longest);
    let mine = load(&document("e", "", &FULL.replace("2027", "2099"))).unwrap().limited(longest);
    assert!(excused(&mine, &object, "{}", early).is_some());
}

#[test]
fn the_last_days_of_the_calendar_are_ends() {
    let end = |text: &str| {
        let spec = format!("policies: [{{name: p}}], reason: r, expiresAt: \"{text}\"");
        let exceptions = load(&document("e", "", &spec)).unwrap();
        let summary = exceptions.summaries(&HashMap::from([("e".into(), 1)]), time("2027-01-01T00:00:00Z")).remove(0);
        assert!(exceptions.next_turn(time("2027-01-01T00:00:00Z")).is_some());
        (summary.state, summary.expires_at.unwrap() > time("9999-01-01T00:00:00Z"))
    };
    for text in ["9999-12-31", "9999-12-30", "9999-12-29", "9999-12-31T23:59:59Z", "9999-12-31T00:00:00+02:00"] {
        assert_eq!(end(text), (ExceptionState::Active, true), "{text}");
    }
    let none = format!("policies: [{{name: p}}], reason: r, expiresAt: {}", "9999-13-01");
    assert!(refused(&document("e", "", &none)).contains("is no date"));
}

#[test]
fn directories_are_read_and_names_of_exceptions_are_unique() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("b")).unwrap();
    std::fs::write(folder.path().join("a.yaml"), document("one", "", FULL)).unwrap();
    let second = folder.path().join("b/c.yml");
    std::fs::write(&second, document("two", "", FULL)).unwrap();
    let load = || Exceptions::load(&[folder.path().to_owned()]);
    let names: Vec<_> = load().unwrap().given.iter().map(|(_, exception)| exception.excuse.by.to_string()).collect();
    assert_eq!(names, ["one", "two"]);
    std::fs::write(&second, format!("---\n{}---\n{}", document("one", "shop", FULL), document("one", "", FULL)))
        .unwrap();
    let why = load().unwrap_err().to_string();
    assert!(why.contains("c.yml:7: one is the name of the exception at ") && why.contains("a.yaml:1, too"), "{why}");
}

#[test]
fn an_exception_that_overlaps_another_names_it() {
    let exceptions = load(&[document("a", "", FULL), document("b", "", FULL)].join("---\n")).unwrap();
    let now = "2026-12-01T00:00:00Z";
    let message = |of_a: Option<usize>| {
        let counts = of_a.map(|count| ("a".into(), count)).into_iter().collect();
        exceptions.summaries(&counts, time(now)).remove(1).message
    };
    assert_eq!(message(Some(1)), "excuses nothing");
    assert!(excused(&exceptions, &key("Pod", "shop", "x"), "{}", now).unwrap().starts_with("excused by a "));
    assert_eq!(message(Some(1)), "excuses nothing that a does not excuse");
    assert_eq!(message(None), "excuses nothing");
}

#[test]
fn a_team_may_excuse_only_what_policies_allow_and_only_in_its_namespace() {
    let mut exceptions = Exceptions::default();
    exceptions.set_policies(&policies());
    let (now, object) = ("2027-01-01T00:00:00Z", key("Pod", "shop", "a"));
    put(&mut exceptions, "both", "policies: [{name: p}, {name: q}], reason: r, expiresAt: 2027-01-31");
    assert!(excused(&exceptions, &object, "{}", now).is_some());
    assert!(excused(&exceptions, &key("Pod", "billing", "a"), "{}", now).is_none());
    let mut findings = [Finding::sample_of("q", "deny", "x")];
    exceptions.apply(&[(object.clone(), Body::default())], &mut findings, time(now));
    assert_eq!(findings[0].outcome, Outcome::Fail);
    let summaries = exceptions.summaries(&HashMap::new(), time(now));
    assert_eq!(summaries[0].message, "rules of policy q cannot be excused by a namespace");
    put(
        &mut exceptions,
        "both",
        "policies: [{name: p}], reason: r, expiresAt: 2027-01-31, match: {namespaces: [\"*\"]}",
    );
    assert!(excused(&exceptions, &object, "{}", now).is_none());
    let ObjectKey { kind, .. } = key("PolicyException", "shop", "both");
    assert_eq!(exceptions.found.iter().count(), 1);
    let known = exceptions.found.iter().next().unwrap().0.clone();
    assert_eq!((&*known.name, &*kind.kind), ("both", "PolicyException"));
    exceptions.remove(&known);
    assert!(exceptions.all().next().is_none() && exceptions.summaries(&HashMap::new(), time(now)).is_empty());
}

#[test]
fn each_exception_has_its_state() {
    let exceptions = load(&document("e", "", FULL)).unwrap();
    let state = |now: &str, results: usize| {
        let excused = HashMap::from([("e".into(), results)]);
        let summary = exceptions.summaries(&excused, time(now)).remove(0);
        (summary.state, summary.message)
    };
    assert_eq!(state("2026-12-01T00:00:00Z", 2), (ExceptionState::Active, String::new()));
    assert_eq!(state("2026-12-01T00:00:00Z", 0), (ExceptionState::Unused, "excuses nothing".into()));
    assert_eq!(state("2027-01-20T00:00:00Z", 2), (ExceptionState::Expiring, "expires in 12 days".into()));
    assert_eq!(state("2027-01-31T12:00:00Z", 2), (ExceptionState::Expiring, "expires in less than a day".into()));
    let expired = (ExceptionState::Expired, "expired at 2027-02-01T00:00:00Z".into());
    assert_eq!(state("2027-03-01T00:00:00Z", 0), expired);
    // Other policies are loaded later, in the long run.
    let mut exceptions = exceptions;
    let mut none = policies();
    none.policies.clear();
    exceptions.set_policies(&none);
    let summary = exceptions.summaries(&HashMap::new(), time("2026-12-01T00:00:00Z")).remove(0);
    assert_eq!((summary.state, &*summary.message), (ExceptionState::Invalid, "there is no policy p"));
}

/// The specification of an exception with values in place of others.
fn spec_with(pointer: &str, value: serde_json::Value) -> serde_json::Value {
    let mut spec = serde_json::json!({
        "policies": [{"name": "p", "rules": ["deny"]}], "reason": "r", "expiresAt": "2027-01-31",
        "match": {"kinds": ["Pod"], "names": ["a"], "labelSelector": {
            "matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
    });
    *spec.pointer_mut(pointer).unwrap() = value;
    spec
}

/// Where an exception has lists, and a single text, with their bounds.
const BOUNDS: [(&str, &str, usize); 6] = [
    ("/policies", "spec.policies", 100),
    ("/policies/0/rules", "spec.policies[0].rules", 100),
    ("/match/kinds", "spec.match.kinds", 100),
    ("/match/names", "spec.match.names", 100),
    ("/match/labelSelector/matchExpressions", "spec.match.labelSelector.matchExpressions", 100),
    ("/match/labelSelector/matchExpressions/0/values", "spec.match.labelSelector.matchExpressions[0].values", 100),
];
const TEXTS: [(&str, &str, usize); 7] = [
    ("/policies/0/name", "spec.policies[0].name", 317),
    ("/policies/0/rules/0", "spec.policies[0].rules[0]", 317),
    ("/match/kinds/0", "spec.match.kinds[0]", 317),
    ("/match/names/0", "spec.match.names[0]", 317),
    ("/match/labelSelector/matchLabels/a", "spec.match.labelSelector.matchLabels[0]", 317),
    ("/match/labelSelector/matchExpressions/0/key", "spec.match.labelSelector.matchExpressions[0].key", 317),
    ("/reason", "spec.reason", 1_024),
];

#[test]
fn an_exception_of_a_team_beyond_the_bounds_is_invalid_and_one_of_the_operator_is_not() {
    let now = time("2027-01-01T00:00:00Z");
    let mut exceptions = Exceptions::default();
    exceptions.set_policies(&policies());
    let mut message = |spec: &serde_json::Value| {
        put(&mut exceptions, "e", spec.to_string().trim_matches(['{', '}']));
        exceptions.summaries(&HashMap::new(), now).remove(0)
    };
    for (pointer, field, most) in BOUNDS {
        let item = spec_with("/reason", "r".into()).pointer(&format!("{pointer}/0")).unwrap().clone();
        assert_eq!(message(&spec_with(pointer, vec![item.clone(); most].into())).message, "excuses nothing", "{field}");
        let beyond = message(&spec_with(pointer, vec![item; most + 1].into()));
        assert_eq!(beyond.state, ExceptionState::Invalid);
        assert_eq!(beyond.message, format!("{field}: has {} items, of at most {most}", most + 1));
    }
    for (pointer, field, most) in TEXTS {
        let beyond = message(&spec_with(pointer, "ä".repeat(most + 1).into()));
        assert_eq!(beyond.message, format!("{field}: has {} characters, of at most {most}", most + 1));
        assert!(!message(&spec_with(pointer, "ä".repeat(most).into())).message.contains("characters"), "{field}");
    }
    let spec = spec_with("/match/names", vec!["a"; 101].into()).to_string();
    assert!(load(&document("e", "", spec.trim_matches(['{', '}']))).is_ok());
}

#[test]
fn the_schema_of_the_chart_has_the_same_bounds() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/kaudit/crds/policyexceptions.kaudit.dev.yaml");
    let crd: serde_json::Value = yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap();
    let of = |pointer: &str| {
        pointer.split('/').skip(1).fold(schema, |schema, step| {
            let inner = if step == "0" { schema.get("items") } else { schema.pointer(&format!("/properties/{step}")) };
            inner.unwrap_or_else(|| &schema["additionalProperties"])
        })
    };
    for (pointer, _, most) in BOUNDS {
        assert_eq!(of(pointer)["maxItems"], most, "{pointer}");
    }
    for (pointer, _, most) in TEXTS {
        assert_eq!(of(pointer)["maxLength"], most, "{pointer}");
    }
    // None is forgotten.
    let text = schema.to_string();
    let count = |word: &str| text.matches(word).count();
    assert_eq!(count("\"type\":\"array\""), count("maxItems"));
    assert_eq!(count("\"type\":\"string\""), count("maxLength") + count("\"enum\""));
    assert_eq!(count("additionalProperties"), count("maxProperties"));
}

/// Takes in exceptions of a namespace with the largest specification that is valid, none of which excuses anything.
fn put_largest(exceptions: &mut Exceptions, namespace: &str, number: usize) {
    let mut kind = Kind::sample("kaudit.dev", "policyexceptions", "PolicyException");
    Arc::make_mut(&mut kind).version = "v1alpha1".to_owned();
    let names: Vec<_> = (0..100).map(|number| format!("*{number:0260}*")).collect();
    let policies: Vec<_> = (0..100)
        .map(|policy| match policy {
            0 => "p".to_owned(),
            1..=20 => format!("p{policy:020}*"),
            _ => format!("p{policy:030}"),
        })
        .map(|name| serde_json::json!({"name": name}))
        .collect();
    let spec =
        serde_json::json!({"policies": policies, "reason": "r", "expiresAt": "2027-01-31", "match": {"names": names}});
    let json = serde_json::json!({"apiVersion": "kaudit.dev/v1alpha1", "kind": "PolicyException", "spec": spec});
    let json = serde_json::to_vec(&json).unwrap();
    let key = |number: usize| ObjectKey {
        kind: Arc::clone(&kind),
        namespace: Some(namespace.into()),
        name: number.to_string().into(),
        copy: 0,
    };
    (0..number).for_each(|number| assert!(exceptions.put(&Object::sample(key(number), &json))));
}

#[test]
fn the_largest_exceptions_of_one_namespace_cost_others_nothing_and_itself_little() {
    let now = "2027-01-01T00:00:00Z";
    let (mut exceptions, began) = (Exceptions::default(), std::time::Instant::now());
    exceptions.set_policies(&policies());
    put_largest(&mut exceptions, "attacker", 1_000);
    assert_eq!(exceptions.found.readable().count(), 1_000);
    for _ in 0..100 {
        let summaries = exceptions.summaries(&HashMap::new(), time(now));
        assert!(summaries.len() == 1_000 && summaries[0].message.starts_with("there is no policy or rule p0"));
    }
    for _ in 0..20 {
        assert!(excused(&exceptions, &key("Pod", "attacker", &"a".repeat(253)), "{}", now).is_none());
    }
    for _ in 0..20_000 {
        assert!(excused(&exceptions, &key("Pod", "shop", "a"), "{}", now).is_none());
    }
    assert!(began.elapsed() < std::time::Duration::from_mins(1), "{:?}", began.elapsed());
    let keys: Vec<_> = exceptions.found.iter().map(|(key, _)| key.clone()).collect();
    for key in &keys {
        exceptions.remove(key);
    }
    assert!(exceptions.all().next().is_none());
}

#[test]
fn names_of_policies_and_rules_may_be_globs_and_ids() {
    let folder = tempfile::tempdir().unwrap();
    let text = "# METADATA\n# custom: {excusable: true}\npackage a.b\n\nimport rego.v1\n\n# METADATA\n# custom: {id: POL-1}\n\
                deny_x contains \"x\" if input.x\n\n# METADATA\n# custom: {id: POL-2, excusable: false}\n\
                deny_y contains \"y\" if input.y\n";
    std::fs::write(folder.path().join("ab.rego"), text).unwrap();
    std::fs::write(folder.path().join("ac.rego"), text.replace("a.b", "a.c").replace("POL", "QOP")).unwrap();
    let policies = PolicySet::load(&[folder.path().to_owned()]).unwrap();
    let (now, object) = (time("2027-01-01T00:00:00Z"), key("Pod", "shop", "a"));
    let excused = |policies_of_spec: &str| {
        let mut exceptions = Exceptions::default();
        exceptions.set_policies(&policies);
        put(&mut exceptions, "e", &format!("policies: {policies_of_spec}, reason: r, expiresAt: 2027-01-31"));
        let all = [("a.b", "deny_x"), ("a.b", "deny_y"), ("a.c", "deny_x"), ("a.c", "deny_y")];
        let mut findings = all.map(|(policy, rule)| Finding::sample_of(policy, rule, "x"));
        exceptions.apply(&[(object.clone(), Body::default())], &mut findings, now);
        let skipped = findings.iter().filter(|finding| finding.outcome == Outcome::Skip);
        let names: Vec<_> = skipped.map(|finding| format!("{}/{}", finding.rule.policy, finding.rule.name)).collect();
        (names.join(" "), exceptions.summaries(&HashMap::new(), now).remove(0).message)
    };
    let fine = "excuses nothing";
    for (names, wanted, message) in [
        ("[{name: a.*}]", "a.b/deny_x a.c/deny_x", fine),
        ("[{name: POL-1}]", "a.b/deny_x", fine),
        ("[{name: \"a.b/deny_*\"}]", "a.b/deny_x", fine),
        ("[{name: deny_x}]", "a.b/deny_x a.c/deny_x", fine),
        ("[{name: \"*\", rules: [deny_x]}]", "a.b/deny_x a.c/deny_x", fine),
        ("[{name: a.c, rules: [QOP-?]}]", "a.c/deny_x", fine),
        ("[{name: a.?, rules: [QOP-1]}]", "a.c/deny_x", fine),
        ("[{name: POL-2}]", "", "rule POL-2 cannot be excused by a namespace"),
        ("[{name: a.b, rules: [deny_y]}]", "", "rule deny_y of policy a.b cannot be excused by a namespace"),
        ("[{name: POL-3}]", "", "there is no policy or rule POL-3; did you mean POL-2?"),
        ("[{name: a.b, rules: [POL-11]}]", "", "policy a.b has no rule POL-11; did you mean POL-1?"),
        ("[{name: a.b, rules: [\"deny-*\"]}]", "", "policy a.b has no rule deny-*; did you mean deny_y?"),
        ("[{name: \"x*\", rules: [deny]}]", "", "no policy that matches x* has a rule deny"),
        ("[{name: a.bb, rules: [deny_x]}]", "", "there is no policy a.bb; did you mean a.b?"),
    ] {
        assert_eq!(excused(names), (wanted.to_owned(), message.to_owned()), "{names}");
    }
    let many: Vec<_> = (0..21).map(|number| format!("{{name: \"a{number}*\"}}")).collect();
    let (_, message) = excused(&format!("[{}]", many.join(", ")));
    assert_eq!(message, "spec.policies: has 21 names with wildcards, of at most 20");
}

#[test]
fn a_write_of_the_status_changes_nothing_about_an_exception() {
    let mut exceptions = Exceptions::default();
    exceptions.set_policies(&policies());
    let state = |generation: i64, results: usize| {
        let metadata = serde_json::json!({"name": "e", "namespace": "shop", "uid": "u", "generation": generation});
        let condition = serde_json::json!({"type": "Accepted", "status": "True", "reason": "Active", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2027-01-01T00:00:00Z"});
        let json = serde_json::json!({"apiVersion": "kaudit.dev/v1alpha1", "kind": "PolicyException", "metadata": metadata,
            "spec": spec_with("/reason", "r".into()), "status": {"conditions": [condition], "results": results}});
        Object::sample(key("PolicyException", "shop", "e"), &serde_json::to_vec(&json).unwrap())
    };
    let results = |exceptions: &Exceptions| {
        let summary = exceptions.summaries(&HashMap::new(), time("2027-01-01T00:00:00Z")).remove(0);
        summary.object.unwrap().status.as_ref().unwrap().results
    };
    assert!(exceptions.put(&state(1, 1)));
    assert!(!exceptions.put(&state(1, 2)) && results(&exceptions) == 2);
    assert!(exceptions.put(&state(2, 2)));
}
