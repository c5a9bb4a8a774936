use super::*;
use crate::model::{
    object::Kind,
    verdict::{Excused, Outcome},
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
fn all_that_is_said_of_an_object_must_hold() {
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
fn what_cannot_be_an_exception_is_refused_with_its_place() {
    let good = document("good", "", FULL);
    for (spec, why) in [
        ("policies: [{name: p}], expiresAt: 2027-01-31", "spec.reason: is missing: say why this may stay as it is"),
        ("policies: [{name: p}], reason: r", "spec.expiresAt: is missing: say until when, such as 2027-01-31"),
        (
            "policies: [{name: p}], reason: r, expiresAt: soon",
            "spec.expiresAt: \"soon\" is no date such as 2027-01-31 and no time such as 2027-01-31T12:00:00Z",
        ),
        ("policies: [], reason: r, expiresAt: 2027-01-31", "spec.policies: names no policy"),
        ("policies: [{name: pp}], reason: r, expiresAt: 2027-01-31", ": there is no policy pp; did you mean p?"),
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
        assert_eq!(refused(&text), format!(":6: bad{space}{why}"));
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
    exceptions.put(&Object { location: None, ..objects(&path).unwrap().remove(0) });
}

#[test]
fn a_team_may_excuse_only_what_policies_allow_and_only_in_its_namespace() {
    let mut exceptions = Exceptions::default();
    exceptions.judged_by(&policies());
    let (now, object) = ("2027-01-01T00:00:00Z", key("Pod", "shop", "a"));
    put(&mut exceptions, "both", "policies: [{name: p}, {name: q}], reason: r, expiresAt: 2027-01-31");
    assert!(excused(&exceptions, &object, "{}", now).is_some());
    assert!(excused(&exceptions, &key("Pod", "billing", "a"), "{}", now).is_none());
    let mut findings = [Finding { policy: "q".into(), ..Finding::sample("x") }];
    exceptions.apply(&[(object.clone(), Body::default())], &mut findings, time(now));
    assert_eq!(findings[0].outcome, Outcome::Fail);
    let summaries = exceptions.summaries(&HashMap::new(), time(now));
    assert_eq!(
        summaries[0].message,
        "policy q has no rule that a namespace may excuse (custom.excusable: true in its METADATA)"
    );
    put(
        &mut exceptions,
        "both",
        "policies: [{name: p}], reason: r, expiresAt: 2027-01-31, match: {namespaces: [\"*\"]}",
    );
    assert!(excused(&exceptions, &object, "{}", now).is_none());
    let ObjectKey { kind, .. } = key("PolicyException", "shop", "both");
    assert_eq!(exceptions.found.len(), 1);
    let known = exceptions.found.keys().next().unwrap().clone();
    assert_eq!((&*known.name, &*kind.kind), ("both", "PolicyException"));
    exceptions.remove(&known);
    assert!(exceptions.is_empty() && exceptions.summaries(&HashMap::new(), time(now)).is_empty());
}

#[test]
fn each_exception_says_how_it_stands() {
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
    exceptions.rules.clear();
    let summary = exceptions.summaries(&HashMap::new(), time("2026-12-01T00:00:00Z")).remove(0);
    assert_eq!((summary.state, &*summary.message), (ExceptionState::Invalid, "there is no policy p"));
}
