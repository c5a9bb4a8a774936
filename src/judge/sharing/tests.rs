use std::{sync::Arc, time::Duration};

use crate::{
    judge::{
        evaluate::{Job, evaluate_shared},
        reads::{LookupReach, VISITS},
        set::PolicySet,
        sharing::{SharedVerdicts, kept::KeptFindings},
        sources::FileSource,
    },
    model::{
        body::Body,
        object::{Controller, Kind, Object, ObjectKey},
        rule_numbers::RuleNumbers,
        verdict::{Finding, Shared, Verdict},
    },
    rego::Limits,
};

fn load(module: &str) -> Arc<PolicySet> {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("p.rego"), format!("package p\n\n{module}\n")).unwrap();
    Arc::new(PolicySet::load(&[root.path().to_owned()]).unwrap())
}

fn object(name: &str) -> Object {
    let kind = Kind::sample("", "pods", "Pod");
    let key = ObjectKey { kind, namespace: Some("n".into()), name: name.into(), copy: 0 };
    let body = format!(r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}", "namespace": "n"}}}}"#);
    let controller =
        Controller { group: "apps".into(), kind: "ReplicaSet".into(), name: "web".into(), uid: "web".into() };
    Object { controller: Some(Arc::new(controller)), ..Object::sample(key, body.as_bytes()) }
}

fn evaluate_object(set: &Arc<PolicySet>, verdicts: &SharedVerdicts, object: Object) -> Verdict {
    let policies = Arc::clone(set);
    evaluate_shared(&Job { object, previous: None, deleted: false, namespace: None, policies }, verdicts)
}

fn messages(verdict: &Verdict) -> Vec<&str> {
    verdict.results.iter().map(|finding| &*finding.message).collect()
}

#[test]
fn a_wrong_shared_verdict_is_reported_and_disables_sharing() {
    let verdicts = SharedVerdicts::default();
    let set = load("deny contains sprintf(\"%s is bad\", [input.metadata.name])");
    assert_eq!(evaluate_object(&set, &verdicts, object("a")).shared, None);
    assert_eq!(evaluate_object(&set, &verdicts, object("a")).shared, Some(Shared::Miss));
    // Caches the results of another policy under this fingerprint.
    let wrong = load("deny contains sprintf(\"%s is good\", [input.metadata.name])");
    let plan = set.sharing.plan("Pod").unwrap();
    let fingerprint = |name: &str| {
        let object = object(name);
        let value = plan.parts.read(&object.body.json().unwrap()).unwrap();
        plan.fields.sharing_key(&object.key, &value).unwrap().fingerprint
    };
    assert_eq!(fingerprint("a"), fingerprint("b"));
    let mut findings = evaluate_object(&wrong, &verdicts, object("a")).results;
    findings[0].message = format!("{} is good", set.sharing.placeholders.name).into();
    verdicts.keep(&set.sharing, fingerprint("a"), Arc::new(KeptFindings::new((findings, RuleNumbers::default()))));
    let evaluated = |number| evaluate_object(&set, &verdicts, object(&format!("web-{number}")));
    let all: Vec<Verdict> = (0..600).map(evaluated).collect();
    let first = all.iter().position(|verdict| !verdict.shared_differences.is_empty()).unwrap();
    assert_eq!(u32::try_from(first), Ok(super::EVERY - 1));
    assert_eq!(all[first].shared_differences, ["p".into()]);
    for (number, verdict) in all.iter().enumerate() {
        let (what, shared) = if number < first { ("good", Some(Shared::Hit)) } else { ("bad", None) };
        assert_eq!((messages(verdict), verdict.shared), (vec![&*format!("web-{number} is {what}")], shared));
    }
    // Other policies are not affected.
    evaluate_object(&wrong, &verdicts, object("b"));
    assert!(evaluate_object(&wrong, &verdicts, object("c")).shared.is_some());
}

#[test]
fn a_rule_that_times_out_disables_sharing_for_its_siblings() {
    let root = tempfile::tempdir().unwrap();
    let endless = "some a in numbers.range(1, 5000)\n\tsome b in numbers.range(1, 5000)\n\ta + b < 0";
    std::fs::write(root.path().join("p.rego"), format!("package p\n\ndeny contains \"x\" if {{\n\t{endless}\n}}\n"))
        .unwrap();
    // Enough computation to reach the limit even on an idle machine.
    let limits = Limits { evaluation: Duration::from_millis(200), ..Limits::default() };
    let set = Arc::new(PolicySet::load_with(&[root.path().to_owned()], &limits.into()).unwrap());
    let (verdicts, a) = (SharedVerdicts::default(), object("a"));
    assert!(verdicts.plan(&set.sharing, &a).is_none() && verdicts.plan(&set.sharing, &a).is_some());
    let verdict = evaluate_object(&set, &verdicts, object("a"));
    assert!(verdict.unfinished && verdict.shared.is_none(), "{verdict:?}");
    assert!(verdicts.plan(&set.sharing, &a).is_none());
}

#[test]
fn objects_that_are_likely_to_have_siblings_share_verdicts() {
    let (verdicts, set) = (SharedVerdicts::default(), load("deny contains \"bad\""));
    let shared = |object| evaluate_object(&set, &verdicts, object).shared;
    let of = |name: &str, uid: &str| {
        let controller = Controller { group: "".into(), kind: "Job".into(), name: "a".into(), uid: uid.into() };
        Object { controller: Some(Arc::new(controller)), ..object(name) }
    };
    let alone = |name: &str| Object { controller: None, ..object(name) };
    assert_eq!([alone("a"), alone("b"), of("c", "1"), of("d", "2")].map(shared), [None; 4]);
    assert_eq!([of("e", "1"), of("f", "2")].map(shared), [Some(Shared::Miss), Some(Shared::Hit)]);
    // Now siblings are likely, until most controllers have one object again.
    assert_eq!(shared(of("g", "3")), Some(Shared::Hit));
    let sharing = (10..30).filter_map(|number| shared(of("h", &number.to_string()))).count();
    assert_eq!(sharing, 5);
}

/// Once for the hash when it is received and once for the evaluation, whether results are shared or not.
#[test]
fn the_json_of_an_object_is_parsed_twice() {
    let module = "deny_a contains \"a\"\n\ndeny_b contains \"b\"\n\n\
                  deny_node contains sprintf(\"on %s\", [input.spec.nodeName])";
    let (verdicts, set) = (SharedVerdicts::default(), load(module));
    assert!(set.sharing.plan("Pod").unwrap().has_rest);
    let on_node = |name: &str| {
        let own = object(name);
        let json = String::from_utf8(own.body.json().unwrap().into_owned()).unwrap();
        let json = format!("{},\"spec\":{{\"nodeName\":\"{name}\"}}}}", json.strip_suffix('}').unwrap());
        Object { body: Body::plain(json.as_bytes()), ..own }
    };
    for (name, shared) in [("x", None), ("y", Some(Shared::Miss)), ("z", Some(Shared::Hit))] {
        let (object, before) = (on_node(name), VISITS.get());
        assert!(set.projected(&object).is_some());
        let verdict = evaluate_object(&set, &verdicts, object);
        assert_eq!((messages(&verdict), verdict.shared), (vec!["a", "b", &*format!("on {name}")], shared));
        assert_eq!(VISITS.get() - before, 2);
    }
}

/// If all objects differ, few fingerprints are computed.
#[test]
fn few_fingerprints_are_computed_if_they_have_no_hits() {
    let (verdicts, set) = (SharedVerdicts::default(), load("deny contains input.metadata.labels.own"));
    let of = |number: usize, own: &str| {
        let json = format!(
            r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "a", "namespace": "n", "labels": {{"own": "{own}"}}}}}}"#
        );
        let uid: Arc<str> = format!("{}", number / 4).into();
        let controller = Controller { group: "".into(), kind: "Job".into(), name: "a".into(), uid };
        Object { controller: Some(Arc::new(controller)), body: Body::plain(json.as_bytes()), ..object("a") }
    };
    let shared = |object| evaluate_object(&set, &verdicts, object).shared;
    let made = (0..4_000).filter(|number| shared(of(*number, &number.to_string())).is_some()).count();
    assert!((256..700).contains(&made), "{made}");
    // Once the objects are equal, the hit rate recovers.
    let found = (4_000..40_000).filter(|number| shared(of(*number, "same")) == Some(Shared::Hit)).count();
    assert!(found > 20_000, "{found}");
}

#[test]
fn the_size_of_cached_results_is_limited() {
    let set = load("deny contains sprintf(\"%s has %s\", [input.metadata.name, input.metadata.labels.text])");
    let large = "x".repeat(1 << 10);
    let of = |number: usize| {
        Arc::new(KeptFindings::new((vec![Finding::sample(&format!("{number}{large}"))], RuleNumbers::default())))
    };
    let verdicts = SharedVerdicts::default();
    for number in 0..40_000 {
        verdicts.keep(&set.sharing, number as u128, of(number));
    }
    let kept = (0..40_000).filter(|number| verdicts.get(&set.sharing, *number).is_some()).count();
    let bytes = kept as u64 * of(0).bytes();
    assert!((super::BYTES / 2..=super::BYTES).contains(&bytes), "{kept} kept, {bytes} bytes");
    let huge = Finding::sample(&"x".repeat(100 << 10));
    verdicts.keep(&set.sharing, 99_999, Arc::new(KeptFindings::new((vec![huge], RuleNumbers::default()))));
    assert!(verdicts.get(&set.sharing, 99_999).is_none());
}

/// Each of these rules is evaluated for every Pod, and for all Pods of a namespace when an object that it looks up
/// there changes.
#[test]
fn few_builtin_rules_have_lookups_for_pods_and_only_in_their_namespace() {
    let set = PolicySet::load(&[FileSource::builtin()]).unwrap();
    let groups = set.units.iter().flat_map(|unit| &unit.groups);
    let mut rules: Vec<String> = groups
        .flat_map(|group| {
            let query = group.queries.of("Pod").unwrap();
            let looking = query.rules.iter().zip(&query.reads).filter(|(_, reads)| !reads.inventory().is_empty());
            looking
                .map(|(rule, _)| format!("{}/{}", group.entrypoints[*rule].policy, group.entrypoints[*rule].rule.name))
        })
        .collect();
    rules.sort();
    // Those of `references.pods`, and `deny_powerful_pod`, end at once for the pods of workloads.
    let want = [
        "probes/warn_missing_readiness",
        "references.pods/deny_missing_claim",
        "references.pods/deny_missing_config_map",
        "references.pods/deny_missing_pod_class",
        "references.pods/deny_missing_secret",
        "references.pods/deny_missing_service_account",
        "service_accounts/deny_powerful_pod",
        "service_accounts/warn_default_token",
    ];
    assert_eq!(rules, want);
    assert!(set.sharing.plan("Pod").is_some());
    let pod = Kind::sample("", "pods", "Pod");
    for (plural, kind, reach) in [
        ("services", "Service", Some(LookupReach::Own)),
        ("serviceaccounts", "ServiceAccount", Some(LookupReach::Own)),
        ("limitranges", "LimitRange", None),
        ("pods", "Pod", None),
    ] {
        assert_eq!(set.widest_reach(&pod, &Kind::sample("", plural, kind)), reach, "{kind}");
    }
    let limits = Kind::sample("", "limitranges", "LimitRange");
    assert_eq!(set.widest_reach(&Kind::sample("apps", "deployments", "Deployment"), &limits), Some(LookupReach::Own));
}

#[test]
fn numbers_that_policies_can_distinguish_have_different_fingerprints() {
    let set = load("deny contains sprintf(\"%v\", [input.spec.x])");
    let plan = set.sharing.plan("Pod").unwrap();
    let fingerprint = |number: &str| {
        let object = object("a");
        let json = format!(r#"{{"metadata":{{"name":"a","namespace":"n"}},"spec":{{"x":{number}}}}}"#);
        let value = plan.parts.read(json.as_bytes()).unwrap();
        plan.fields.sharing_key(&object.key, &value).unwrap().fingerprint
    };
    assert_eq!(fingerprint("7"), fingerprint("7"));
    for (whole, float) in [("10000000000000000000000000", "1e25"), ("18446744073709551616", "1.8446744073709551616e19")]
    {
        assert_ne!(fingerprint(whole), fingerprint(float), "{float}");
    }
}
