//! Kyverno's policies are loaded and evaluated. Its engine is their judge in `tests/evaluator`; here are the parts that it
//! does not have: what is not evaluated, what kaudit does not support, lookups, and results that are counted once.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    judge::{
        evaluate::{Job, evaluate, with_inventory},
        inventory::Inventory,
        reads::lookups::{KindLookup, LookupState, ReadState},
        set::PolicySet,
    },
    model::{
        object::{Kind, Object, ObjectKey},
        verdict::{Finding, Outcome},
    },
    rego::{LoadError, value},
};

const PODS: &str = "{resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}";

fn document(kind: &str, name: &str, spec: &str) -> String {
    let spec = spec.replace('\n', "\n  ");
    format!("apiVersion: policies.kyverno.io/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n---\n")
}

fn policy(name: &str, spec: &str) -> String {
    document("ValidatingPolicy", name, &format!("matchConstraints: {PODS}\n{spec}"))
}

fn try_load(text: &str) -> Result<PolicySet, LoadError> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("policies.yaml"), text).unwrap();
    PolicySet::load(&[directory.path().to_owned()])
}

fn load(text: &str) -> PolicySet {
    try_load(text).unwrap_or_else(|error| panic!("{error}"))
}

fn object(kind: &Arc<Kind>, namespace: &str, name: &str, fields: &str) -> Object {
    let (version, shown) = (kind.api_version(), &kind.kind);
    let json = format!(
        r#"{{"apiVersion":"{version}","kind":"{shown}","metadata":{{"name":"{name}","namespace":"{namespace}"}}{fields}}}"#
    );
    let key = ObjectKey { kind: Arc::clone(kind), namespace: Some(namespace.into()), name: name.into(), copy: 0 };
    Object::sample(key, json.as_bytes())
}

fn pod(name: &str, fields: &str) -> Object {
    object(&Kind::sample("", "pods", "Pod"), "shop", name, fields)
}

fn findings(set: &Arc<PolicySet>, object: Object) -> Vec<Finding> {
    evaluate(&Job { object, previous: None, deleted: false, namespace: None, policies: Arc::clone(set) }).results
}

fn shown(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{} {}", finding.outcome.word(), finding.message)).collect()
}

#[test]
fn a_pod_and_its_workload_have_the_same_result() {
    let text =
        policy("host-network", "validationActions: [Audit]\nvalidations: [{expression: '!object.spec.hostNetwork'}]");
    let set = Arc::new(load(&text));
    let deployment = object(
        &Kind::sample("apps", "deployments", "Deployment"),
        "shop",
        "web",
        r#","spec":{"template":{"spec":{"hostNetwork":true}}}"#,
    );
    let [own, owners] =
        [pod("web-1", r#","spec":{"hostNetwork":true}"#), deployment].map(|object| findings(&set, object));
    assert_eq!(shown(&own), ["warn failed expression: !object.spec.hostNetwork"]);
    assert!(own[0].is_same_result(&owners[0]), "{owners:?}");
    assert_eq!(set.policies.len(), 1);
    assert_eq!(set.policies[0].rules[0].name.as_ref(), "validations");
    let matches = set.policies[0].matches.to_string();
    assert!(["CronJob", "Deployment", "Pod"].iter().all(|kind| matches.contains(kind)), "{matches}");
}

#[test]
fn policies_that_are_not_evaluated_are_listed() {
    let vap = |name: &str| {
        format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata:\n  name: {name}\n  \
             ownerReferences: [{{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, name: own, uid: a}}]\nspec:\n  \
             matchConstraints: {PODS}\n  validations: [{{expression: 'true'}}]\n---\napiVersion: \
             admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: {name}-binding}}\n\
             spec: {{policyName: {name}, validationActions: [Deny]}}\n---\n"
        )
    };
    let validations = "validations: [{expression: 'true'}]";
    let text = policy("own", validations)
        + &policy("json", &format!("evaluation: {{mode: JSON}}\n{validations}"))
        + &policy("requests", &format!("evaluation: {{background: {{enabled: false}}}}\n{validations}"))
        + &document("ImageValidatingPolicy", "images", "{}")
        + &document("NamespacedMutatingPolicy", "changes", "{}")
        + &document("GeneratingPolicy", "creates", "{}")
        + &document("DeletingPolicy", "deletes", "{}")
        + &vap("vpol-own")
        + &document("PolicyException", "useless", "policyRefs: [{kind: ValidatingPolicy, name: none}]");
    let set = load(&text);
    let names: Vec<&str> = set.left_out.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "DeletingPolicy deletes",
            "GeneratingPolicy creates",
            "ImageValidatingPolicy images",
            "NamespacedMutatingPolicy changes",
            "ValidatingAdmissionPolicy vpol-own",
            "ValidatingAdmissionPolicyBinding vpol-own-binding",
            "ValidatingPolicy requests",
        ]
    );
    let unjudged: Vec<&str> = set.unjudged.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(unjudged, ["ValidatingPolicy json"]);
    assert_eq!(set.policies.len(), 1);
    let warnings: Vec<&str> = set.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(warnings, ["PolicyException useless: there is no ValidatingPolicy none"]);
    // Without the policy, the one that Kyverno generated is evaluated.
    assert_eq!(load(&vap("vpol-own")).policies.len(), 1);
}

#[test]
fn what_is_not_supported_is_an_error_where_it_matters() {
    let spec = "failurePolicy: Ignore\nvariables: [{name: answer, expression: \"http.Get('https://example.com')\"}]\n\
                validations: [{expression: 'object.spec.a == 1 || variables.answer.ok'}]";
    let set = Arc::new(load(&policy("answers", spec)));
    let warnings: Vec<&str> = set.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(warnings, ["ValidatingPolicy answers calls http.Get, which kaudit does not support"]);
    assert!(findings(&set, pod("web", r#","spec":{"a":1}"#)).is_empty());
    let unknown = shown(&findings(&set, pod("web", r#","spec":{"a":2}"#)));
    assert!(unknown[0].starts_with("error cannot be evaluated: ") && unknown[0].contains("http.Get"), "{unknown:?}");
    let condition = "failurePolicy: Ignore\nmatchConditions: [{name: answer, expression: \"http.Get('a').ok == true\"}]\n\
                     validations: [{expression: 'false', message: denied}]";
    let unknown = shown(&findings(&Arc::new(load(&policy("answers", condition))), pod("web", "")));
    assert!(unknown[0].starts_with("error ") && unknown[0].ends_with("if it applies: denied"), "{unknown:?}");
}

#[test]
fn exceptions_of_kyverno_excuse_and_stay() {
    let exception = |spec: &str| {
        document("PolicyException", "known", &format!("policyRefs: [{{kind: ValidatingPolicy, name: p}}]\n{spec}"))
    };
    let of = |spec: &str, name: &str| {
        let text = policy("p", "validations: [{expression: 'false', message: denied}]") + &exception(spec);
        let mut findings = findings(&Arc::new(load(&text)), pod(name, ""));
        // Exceptions of kaudit are applied to all results again.
        findings.iter_mut().for_each(Finding::restore);
        findings.first().map(|finding| (finding.outcome, finding.excused.clone().map(|one| one.excuse.by.to_string())))
    };
    let condition = "matchConditions: [{name: web, expression: \"object.metadata.name == 'web'\"}]";
    assert_eq!(of(condition, "web"), Some((Outcome::Skip, Some("kyverno:known".to_owned()))));
    assert_eq!(of(condition, "api"), Some((Outcome::Fail, None)));
    assert_eq!(of("expiresAt: '2020-01-01T00:00:00Z'", "web"), Some((Outcome::Fail, None)));
    assert_eq!(of("images: [a]", "web"), Some((Outcome::Fail, None)));
    let user = "matchConditions: [{name: user, expression: \"request.userInfo.username == 'a'\"}]";
    assert_eq!(of(user, "web"), Some((Outcome::Error, None)));
    let refused = try_load(&(policy("p", "validations: [{expression: 'true'}]") + &exception("expiresAt: tomorrow")));
    assert!(refused.unwrap_err().to_string().contains("spec.expiresAt must be an RFC 3339 time"));
}

/// An inventory with a `ConfigMap`, whose kind has been read.
fn inventory(limit: Option<&str>, state: ReadState) -> Inventory {
    let kind = Kind::sample("", "configmaps", "ConfigMap");
    let mut inventory = Inventory::default();
    let lookup = KindLookup { kind: Arc::clone(&kind), namespaces: BTreeMap::new(), elsewhere: state, ranged: true };
    inventory.set_lookups(Arc::new(LookupState { kinds: vec![Arc::new(lookup)], ..LookupState::default() }));
    if let Some(limit) = limit {
        let object = object(&kind, "shop", "limits", &format!(r#","data":{{"limit":"{limit}"}}"#));
        inventory.put(&object.key, Some(&value::from_json(&object.body.json().unwrap()).unwrap()));
    }
    inventory
}

#[test]
fn other_objects_are_looked_up_and_never_pass_unread() {
    let get = "resource.Get('v1', 'configmaps', object.metadata.namespace, 'limits')";
    let spec = format!(
        "variables: [{{name: map, expression: \"{get}\"}}]\nvalidations: [{{expression: \"object.spec.a <= \
                        int(variables.map.?data.?limit.orValue('0'))\", message: too many}}]"
    );
    let loaded = load(&policy("limits", &spec));
    assert!(loaded.dependencies(&Kind::sample("", "pods", "Pod")).inventory);
    assert!(loaded.inventory_reads().touches(&Kind::sample("", "configmaps", "ConfigMap")));
    let with = |inventory: &Inventory| {
        let set = Arc::new(with_inventory(&loaded, inventory));
        shown(&findings(&set, pod("web", r#","spec":{"a":3}"#)))
    };
    assert_eq!(with(&inventory(Some("2"), ReadState::Read)), ["fail too many"]);
    assert!(with(&inventory(Some("3"), ReadState::Read)).is_empty());
    let unread = with(&inventory(None, ReadState::Unread("cannot be read: forbidden".into())));
    assert_eq!(unread, ["error looks up configmaps, which cannot be read: forbidden"]);
    let unknown = with(&Inventory::default());
    assert!(unknown[0].contains("no configmaps of v1 have been read"), "{unknown:?}");
    let list =
        "validations: [{expression: \"resource.List('v1', 'configmaps', '').items.all(map, map.data.limit != '2')\"}]";
    let loaded = load(&policy("lists", list));
    let set = Arc::new(with_inventory(&loaded, &inventory(Some("2"), ReadState::Read)));
    assert_eq!(findings(&set, pod("web", "")).len(), 1);
}

#[test]
fn a_policy_for_a_namespace_applies_there_only() {
    let text = policy("p", "validations: [{expression: 'false'}]")
        .replace("kind: ValidatingPolicy", "kind: NamespacedValidatingPolicy")
        .replace("{name: p}", "{name: p, namespace: shop}");
    let set = Arc::new(load(&text));
    let pods = Kind::sample("", "pods", "Pod");
    let of = |namespace: &str| findings(&set, object(&pods, namespace, "web", "")).len();
    assert_eq!([of("shop"), of("other")], [1, 0]);
    assert_eq!(set.policies[0].rules[0].name.as_ref(), "shop");
    let set = Arc::new(load(&text.replace(", namespace: shop", "")));
    let of = |namespace: &str| findings(&set, object(&pods, namespace, "web", "")).len();
    assert_eq!([of("default"), of("shop")], [1, 0]);
}
