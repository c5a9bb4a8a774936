//! Admission policies are loaded, bound to objects and evaluated. The API server is their judge in `tests/cluster`; here are
//! the parts that it does not have: what an audit does not know, what is read, and what is refused when policies are loaded.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    judge::{
        evaluate::{Job, evaluate, evaluate_shared, with_inventory},
        inventory::Inventory,
        reads::lookups::{KindLookup, LookupState, ReadState},
        set::PolicySet,
        sharing::SharedVerdicts,
        sources::FileSource,
    },
    model::{
        object::{Controller, Kind, Object, ObjectKey},
        verdict::Verdict,
    },
    rego::{ProblemSeverity, value},
};

const RULES: &str = "{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}";

/// Returns a policy with a binding; `spec` are the fields of the policy besides the rules.
fn policy(name: &str, spec: &str, binding: &str) -> String {
    let indented = spec.replace('\n', "\n  ");
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
         matchConstraints: {{resourceRules: [{RULES}]}}\n  {indented}\n---\n\
         apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: all}}\n\
         spec:\n  policyName: {name}\n  {binding}\n"
    )
}

const DENY: &str = "validationActions: [Deny]";

fn load(text: &str) -> PolicySet {
    load_files(&[("policies.yaml", text)], &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn load_files(files: &[(&str, &str)], more: &[FileSource]) -> Result<PolicySet, crate::rego::LoadError> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let sources = [directory.path().to_owned().into()].into_iter().chain(more.iter().cloned());
    PolicySet::load(&sources.collect::<Vec<FileSource>>())
}

fn object(kind: &Arc<Kind>, namespace: Option<&str>, name: &str, fields: &str) -> Object {
    let place = namespace.map_or(String::new(), |namespace| format!(r#","namespace":"{namespace}""#));
    let json = format!(
        r#"{{"apiVersion":"{}","kind":"{}","metadata":{{"name":"{name}"{place}}}{fields}}}"#,
        kind.api_version(),
        kind.kind
    );
    let key = ObjectKey { kind: Arc::clone(kind), namespace: namespace.map(Into::into), name: name.into(), copy: 0 };
    Object::sample(key, json.as_bytes())
}

fn pod(fields: &str) -> Object {
    object(&Kind::sample("", "pods", "Pod"), Some("shop"), "web", fields)
}

fn judge(policies: &Arc<PolicySet>, object: Object, namespace: Option<Object>) -> Verdict {
    evaluate(&Job { object, previous: None, deleted: false, namespace, policies: Arc::clone(policies) })
}

/// Returns the results as `OUTCOME MESSAGE`.
fn shown(verdict: &Verdict) -> Vec<String> {
    verdict.results.iter().map(|finding| format!("{} {}", finding.outcome.word(), finding.message)).collect()
}

fn results(text: &str, object: Object) -> Vec<String> {
    shown(&judge(&Arc::new(load(text)), object, None))
}

#[test]
fn what_only_a_request_has_is_an_error_unless_it_cannot_matter() {
    let conditions = |conditions: &str, validation: &str| {
        let spec = format!("matchConditions: [{conditions}]\nvalidations: [{{expression: \"{validation}\"}}]");
        results(&policy("users", &spec, DENY), pod(r#","spec":{"a":1}"#))
    };
    let user = "{name: users, expression: \"request.userInfo.username != 'admin'\"}";
    let other = "{name: other, expression: \"object.spec.a == 2\"}";
    let denied = "error cannot be evaluated on an existing object: the match condition users reads request.userInfo, \
                  which only a request has; if it applies: failed expression: object.spec.a == 2";
    assert_eq!(conditions(user, "object.spec.a == 2"), [denied]);
    // It passes whether the condition holds or not; and a condition that is false decides.
    assert!(conditions(user, "object.spec.a == 1").is_empty());
    assert!(conditions(&format!("{user}, {other}"), "object.spec.a == 2").is_empty());
    for expression in
        ["has(request.userInfo.uid)", "request.?options.hasValue()", "authorizer.path('/x').check('get').allowed()"]
    {
        let spec = format!("failurePolicy: Ignore\nvalidations: [{{expression: \"{expression}\"}}]");
        let set = Arc::new(load(&policy("users", &spec, DENY)));
        let results = shown(&judge(&set, pod(""), None));
        assert!(results.len() == 1 && results[0].starts_with("error cannot be evaluated"), "{results:?}");
        let warnings: Vec<&str> = set.problems.iter().map(|problem| problem.message.as_str()).collect();
        assert!(warnings[0].contains("which an audit does not know"), "{warnings:?}");
    }
}

#[test]
fn the_namespace_is_needed_only_for_objects_that_are_otherwise_matched() {
    let binding = format!(
        "{DENY}\n  matchResources:\n    namespaceSelector: {{matchLabels: {{env: prod}}}}\n    \
                           resourceRules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]"
    );
    let set = Arc::new(load(&policy("p", "validations: [{expression: 'false', message: denied}]", &binding)));
    let namespaces = Kind::sample("", "namespaces", "Namespace");
    let namespace = |labels: &str| {
        let json =
            format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"shop","labels":{labels}}}}}"#);
        let key = ObjectKey { kind: Arc::clone(&namespaces), namespace: None, name: "shop".into(), copy: 0 };
        Some(Object::sample(key, json.as_bytes()))
    };
    let of = |namespace| shown(&judge(&set, pod(""), namespace));
    assert_eq!(of(namespace(r#"{"env":"prod"}"#)), ["fail denied"]);
    assert!(of(namespace(r#"{"env":"dev"}"#)).is_empty());
    let missing = "error cannot be matched: its namespaceSelector needs the Namespace shop, which was not found";
    assert_eq!(of(None), [missing]);
    let service = object(&Kind::sample("", "services", "Service"), Some("shop"), "web", "");
    assert!(shown(&judge(&set, service, None)).is_empty());
    let depends = set.dependencies(&Kind::sample("", "pods", "Pod"));
    assert!(depends.namespace && !depends.inventory);
    assert_eq!(set.namespace_projection().to_string(), "metadata.labels");
}

/// An inventory with some `ConfigMap`s, by namespace and name, whose kind has been read.
fn inventory(objects: &[(&str, &str, &str)], state: ReadState) -> Inventory {
    let kind = Kind::sample("", "configmaps", "ConfigMap");
    let mut inventory = Inventory::default();
    let lookup = KindLookup { kind: Arc::clone(&kind), namespaces: BTreeMap::new(), elsewhere: state, ranged: true };
    inventory.set_lookups(Arc::new(LookupState { kinds: vec![Arc::new(lookup)], ..LookupState::default() }));
    for (namespace, name, limit) in objects {
        let object = object(&kind, Some(namespace), name, &format!(r#","data":{{"limit":"{limit}"}}"#));
        inventory.put(&object.key, Some(&value::from_json(&object.body.json().unwrap()).unwrap()));
    }
    inventory
}

#[test]
fn parameters_are_looked_up_and_never_pass_unread() {
    let spec = "paramKind: {apiVersion: v1, kind: ConfigMap}\nvalidations:\n- expression: object.spec.a <= int(params.data.limit)\n  \
                messageExpression: \"'more than ' + params.data.limit\"";
    let binding = format!("{DENY}\n  paramRef: {{name: limits, parameterNotFoundAction: Allow}}");
    let loaded = load(&policy("limits", spec, &binding));
    let pods = Kind::sample("", "pods", "Pod");
    assert!(loaded.dependencies(&pods).inventory && !loaded.dependencies(&pods).namespace);
    let params = Kind::sample("", "configmaps", "ConfigMap");
    assert_eq!(loaded.inventory_reads().of(&params).unwrap().to_string(), "data.limit");
    assert!(loaded.inventory_reads().of(&pods).is_none());
    let with = |inventory: &Inventory| {
        let set = Arc::new(with_inventory(&loaded, inventory));
        let verdict = judge(&set, pod(r#","spec":{"a":3}"#), None);
        (shown(&verdict), verdict.undecided.len())
    };
    let of = |objects: &[(&str, &str, &str)]| with(&inventory(objects, ReadState::Read)).0;
    assert_eq!(of(&[("shop", "limits", "2"), ("other", "limits", "9")]), ["fail more than 2"]);
    assert!(of(&[("shop", "limits", "3")]).is_empty());
    assert!(of(&[("other", "limits", "1"), ("shop", "others", "1")]).is_empty(), "the action is Allow");
    let unread = inventory(&[("shop", "limits", "9")], ReadState::Unread("cannot be read: forbidden".into()));
    assert_eq!(with(&unread), (vec!["error looks up configmaps, which cannot be read: forbidden".to_owned()], 1));
    let (unknown, undecided) = with(&Inventory::default());
    assert_eq!(undecided, 0, "without the kind, what was found with its objects is resolved");
    assert!(unknown[0].contains("no such kind has been read"), "{unknown:?}");
}

#[test]
fn only_the_fields_that_policies_read_are_part_of_a_verdict() {
    let spec = "variables: [{name: images, expression: 'object.spec.containers.map(c, c.image)'}]\n\
                validations: [{expression: 'variables.images.size() < 2 || object.metadata.labels.size() > 0'}]";
    let text = policy("images", spec, DENY).replace("resources: ['*']", "resources: [pods, foxen]");
    let set = load_files(
        &[
            ("p.yaml", &text),
            ("m.rego", "package main\n\ndeny contains 1 if {\n\tinput.kind == \"Fox\"\n\tinput.fur\n}\n"),
        ],
        &[],
    )
    .unwrap();
    let of = |plural: &str, kind: &str| set.projection(&Kind::sample("", plural, kind)).to_string();
    let own = "metadata.labels? spec.containers[*].image";
    assert!(of("pods", "Pod").contains("spec.containers[*].image"), "{}", of("pods", "Pod"));
    assert!(!of("pods", "Pod").contains("status"), "{}", of("pods", "Pod"));
    assert!(!of("services", "Service").contains("containers"), "{own}");
    // A kind with an irregular plural that a module names, too.
    let fox = of("foxen", "Fox");
    assert!(fox.contains("fur") && fox.contains("containers"), "{fox}");
    assert!(set.concern(&Kind::sample("", "foxen", "Vixen")) && !set.concern(&Kind::sample("", "cats", "Cat")));
}

#[test]
fn results_are_not_shared_with_equal_objects() {
    let text = policy("names", "validations: [{expression: \"object.metadata.name == 'a'\", message: named}]", DENY);
    let set = Arc::new(load_files(&[("p.yaml", &text)], &[FileSource::builtin()]).unwrap());
    let verdicts = SharedVerdicts::default();
    let of = |name: &str| {
        let mut object = object(&Kind::sample("", "pods", "Pod"), Some("shop"), name, r#","spec":{"containers":[]}"#);
        let [group, kind] = ["apps", "ReplicaSet"].map(Into::into);
        object.controller = Some(Arc::new(Controller { group, kind, name: "web".into(), uid: "1".into() }));
        let job = Job { object, previous: None, deleted: false, namespace: None, policies: Arc::clone(&set) };
        let verdict = evaluate_shared(&job, &verdicts);
        let named = verdict.results.iter().filter(|finding| &*finding.message == "named").count();
        (named, verdict.shared.is_some())
    };
    let found = ["a", "b", "a", "c"].map(of);
    assert_eq!(found.map(|(named, _)| named), [0, 1, 0, 1]);
    assert!(found[3].1, "the results of the library are shared");
}

#[test]
fn policies_are_not_evaluated_on_policies() {
    let set = Arc::new(load(&policy("all", "validations: [{expression: 'false'}]", DENY)));
    let group = "admissionregistration.k8s.io";
    let of = |kind: &str, plural: &str| {
        let kind = Kind::sample(group, plural, kind);
        (judge(&set, object(&kind, None, "a", ""), None).results.len(), set.concern(&kind))
    };
    let bindings = of("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings");
    assert_eq!([of("ValidatingAdmissionPolicy", "validatingadmissionpolicies"), bindings], [(0, false); 2]);
    assert_eq!(of("ValidatingWebhookConfiguration", "validatingwebhookconfigurations").0, 1);
}

#[test]
fn policies_that_are_not_evaluated_are_listed() {
    let own = |kind: &str, name: &str, spec: &str| {
        format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n---\n"
        )
    };
    let rules = |operations: &str| {
        format!(
            "{{matchConstraints: {{resourceRules: [{{apiGroups: ['*'], apiVersions: ['*'], operations: [{operations}], \
                 resources: ['*']}}]}}, paramKind: {{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: K8sFoo}}, \
                 validations: [{{expression: 'true'}}]}}"
        )
    };
    let text = own("ValidatingAdmissionPolicy", "unbound", &rules("CREATE"))
        + &own("ValidatingAdmissionPolicy", "updates", &rules("UPDATE, DELETE"))
        + &own("ValidatingAdmissionPolicyBinding", "of-updates", "{policyName: updates, validationActions: [Deny]}")
        + &own("ValidatingAdmissionPolicy", "connections", &rules("CONNECT"))
        + &own("ValidatingAdmissionPolicy", "gatekeeper-k8sfoo", &rules("CREATE"))
        + &own(
            "ValidatingAdmissionPolicyBinding",
            "of-gatekeeper",
            "{policyName: gatekeeper-k8sfoo, validationActions: [Deny]}",
        )
        + &own("ValidatingAdmissionPolicyBinding", "of-nothing", "{policyName: nothing, validationActions: [Deny]}")
        + &own("MutatingAdmissionPolicy", "changes", "{}")
        + &policy("evaluated", "validations: [{expression: 'true'}]", DENY);
    let set = load(&text);
    let names = |list: &[crate::judge::unjudged::Unjudged]| -> Vec<String> {
        list.iter().map(|one| format!("{}: {}", one.name.rsplit(' ').next().unwrap_or_default(), one.reason)).collect()
    };
    assert_eq!(names(&set.unjudged), ["unbound: no binding uses it", "of-nothing: its policy does not exist"]);
    let of_gatekeeper = "Gatekeeper generated it; its Constraints are evaluated with cluster:gatekeeper";
    let of_updates = "its rules cover no creation: it is evaluated on changes that are seen, not on existing objects";
    let of_connections = "its rules cover only connections to objects";
    let mut left_out = vec![
        "changes: it changes requests, and an existing object is not a request".to_owned(),
        format!("gatekeeper-k8sfoo: {of_gatekeeper}"),
        format!("updates: {of_updates}"),
        format!("connections: {of_connections}"),
        format!("of-gatekeeper: {of_gatekeeper}"),
        format!("of-updates: {of_updates}"),
    ];
    let mut found = names(&set.left_out);
    left_out.sort();
    found.sort();
    assert_eq!(found, left_out);
    let rules: Vec<String> = set.policies.iter().map(|one| format!("{}/{}", one.name, one.rules[0].name)).collect();
    assert_eq!(rules, ["evaluated/all", "updates/of-updates"]);
}

#[test]
fn policies_about_changes_are_evaluated_on_changes() {
    let about = |operations: &str, expression: &str| {
        let spec = format!("validations: [{{expression: \"{expression}\", message: denied}}]");
        policy("p", &spec, DENY).replace("operations: ['*']", &format!("operations: [{operations}]"))
    };
    let (old, new) = (r#","spec":{"size":3}"#, r#","spec":{"size":2}"#);
    // The results of the present state, of the update from the old state to the new one, and of the deletion of the old one.
    let all = |text: &str| {
        let policies = Arc::new(load(text));
        let job = |object: Object, previous: Option<Object>, deleted| {
            let verdict =
                evaluate(&Job { object, previous, deleted, namespace: None, policies: Arc::clone(&policies) });
            (verdict.results.len(), verdict.transitions.len())
        };
        let (results, updated) = job(pod(new), Some(pod(old)), false);
        let (gone, deleted) = job(pod(old), None, true);
        assert_eq!(gone, 0, "{text}");
        [results, updated, deleted]
    };
    let shrinks = "object.spec.size >= oldObject.spec.size";
    assert_eq!(all(&about("UPDATE", shrinks)), [0, 1, 0]);
    assert_eq!(all(&about("UPDATE", "object.spec.size > 1")), [0, 0, 0]);
    assert_eq!(all(&about("UPDATE", "object.spec.size > 2")), [0, 1, 0]);
    assert_eq!(all(&about("CREATE, UPDATE", &format!("oldObject == null || {shrinks}"))), [0, 1, 0]);
    assert_eq!(all(&about("DELETE", "object != null || oldObject.spec.size < 3")), [0, 0, 1]);
    assert_eq!(all(&about("'*'", "request.operation != 'UPDATE'")), [0, 1, 0]);
    assert_eq!(all(&about("'*'", "request.operation in ['CREATE', 'UPDATE']")), [0, 0, 1]);
    // The result for the new state is open, and not reported again as one of the change.
    assert_eq!(all(&about("CREATE, UPDATE", "object.spec.size > 2 || oldObject != null && false")), [1, 0, 0]);
    // Without reading the old state, a change tells nothing new.
    assert!(!load(&about("CREATE, UPDATE", "object.spec.size > 2")).policies[0].depends.transition);
    assert!(load(&about("UPDATE", "object.spec.size > 2")).policies[0].depends.transition);
}

#[test]
fn invalid_policies_are_refused_with_their_position() {
    let refused = |text: &str| {
        let error = load_files(&[("p.yaml", text)], &[]).unwrap_err();
        let refusals = error.problems.iter().filter(|problem| problem.severity == ProblemSeverity::Refused);
        let found: Vec<String> = refusals.map(|one| format!("{}:{} {}", one.line, one.column, one.message)).collect();
        found.join("; ")
    };
    let of = |spec: &str| refused(&policy("p", spec, DENY));
    let label = "ValidatingAdmissionPolicy p";
    let assigned = of("validations:\n- expression: object.spec.a = 1");
    let expected = format!("7:31 {label}: Syntax error: token recognition error at: '= '");
    assert!(assigned.starts_with(&expected), "{assigned}");
    assert_eq!(
        of("validations:\n- expression: |\n    true &&\n    nothing.a"),
        format!("9:7 {label}: undeclared reference to 'nothing' (in container '')")
    );
    assert!(
        of("validations: [{expression: object.spec.a}]").contains("must evaluate to bool, but it evaluates to dyn")
    );
    assert!(of("failurePolicy: Warn\nvalidations: [{expression: 'true'}]").contains("unknown failurePolicy \"Warn\""));
    assert!(of("validations: [{message: a}]").contains("the expression is missing"));
    assert!(of("variables: []").contains("at least one of spec.validations and spec.auditAnnotations is required"));
    let binding = |binding: &str| refused(&policy("p", "validations: [{expression: 'true'}]", binding));
    assert!(binding("validationActions: [Refuse]").contains("unknown action \"Refuse\""));
    assert!(
        binding("matchResources: {matchPolicy: Fuzzy}\n  validationActions: [Deny]")
            .contains("unknown value \"Fuzzy\"")
    );
    let twice = policy("p", "validations: [{expression: 'true'}]", DENY)
        + "---\n"
        + &policy("p", "validations: [{expression: 'false'}]", DENY);
    assert!(refused(&twice).contains("is also defined at"), "{}", refused(&twice));
}
