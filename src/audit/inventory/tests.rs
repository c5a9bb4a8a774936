use super::*;
use crate::{
    judge::evaluate::{Job, evaluate},
    model::object::Object,
};

#[test]
fn an_object_that_changes_while_it_waits_waits_for_what_happened_before() {
    let (mut sync, start) = (InventorySync::new(&Updates::new().loaded), Instant::now());
    let after = |milliseconds| start + Duration::from_millis(milliseconds);
    let (key, _) = state("Pod", "n", "a", None);
    let queued = Queued { since: start, priority: QueuePriority::Bulk };
    sync.wait_for_policies(key.clone(), queued, false);
    assert!(sync.wait(key.clone(), QueuePriority::Change, after(1_000)).is_none());
    assert!(sync.release(after(500)).is_empty() && sync.waits(&key), "its new state may depend on later changes");
    assert_eq!(sync.release(after(1_100)).len(), 1);
    assert!(!sync.waits(&key));
    sync.wait_for_policies(key.clone(), queued, false);
    for time in (0..).step_by(10) {
        assert!(sync.wait(key.clone(), QueuePriority::Change, after(time)).is_none());
        if !sync.release(after(time)).is_empty() {
            return assert_eq!(Duration::from_millis(time) + SETTLE, LONGEST_WAIT);
        }
    }
}

#[test]
fn only_the_read_fields_of_looked_up_objects_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let policy = "package p\n\nimport rego.v1\n\n\
                  deny contains name if {\n\tsome name\n\t\
                  data.kubernetes.ingresses[_][name].spec.host == input.spec.host\n}\n";
    std::fs::write(directory.path().join("p.rego"), policy).unwrap();
    let policies = Arc::new(PolicySet::load(&[directory.path().to_owned()]).unwrap());
    let kind = Kind::sample("networking.k8s.io", "ingresses", "Ingress");
    let key = ObjectKey { kind, namespace: Some("n".into()), name: "a".into(), copy: 0 };
    let object = r#"{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"a","labels":{"b":"c"}},
        "spec":{"host":"h","tls":[1,2]},"status":{"large":true}}"#;
    let updated = |all| {
        let update = Update {
            inventory: Inventory::default(),
            policies: Arc::clone(&policies),
            present: None,
            generation: 0,
            began: Instant::now(),
            lookups: Arc::default(),
        };
        let updated = update.run(vec![(key.clone(), Some(Body::plain(object.as_bytes())))], all);
        updated.inventory.unwrap().document("kubernetes").clone()
    };
    let kept = r#"{"ingresses":{"n":{"a":{"apiVersion":"networking.k8s.io/v1","kind":"Ingress",
        "metadata":{"name":"a"},"spec":{"host":"h"}}}}}"#;
    assert_eq!(updated(false), value::from_json(kept.as_bytes()).unwrap());
    let whole = format!(r#"{{"ingresses":{{"n":{{"a":{object}}}}}}}"#);
    assert_eq!(updated(true), value::from_json(whole.as_bytes()).unwrap());
}

/// Writes a rule in Kubescape's layout: Pods may not be selected by a Service in their namespace.
fn library(directory: &std::path::Path) {
    let rule = directory.join("rules/selected");
    std::fs::create_dir_all(&rule).unwrap();
    let matching = r#"{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["Pod", "Service"]}"#;
    let metadata = format!(r#"{{"name": "selected", "ruleLanguage": "Rego", "match": [{matching}]}}"#);
    std::fs::write(rule.join("rule.metadata.json"), metadata).unwrap();
    let module = "package armo_builtins\n\ndeny contains result if {\n\tpod := input[_]\n\tpod.kind == \"Pod\"\n\t\
        service := input[_]\n\tservice.kind == \"Service\"\n\tservice.spec.app == pod.spec.app\n\t\
        result := {\"alertMessage\": \"selected\", \"alertObject\": {\"k8sApiObjects\": [pod]}}\n}";
    std::fs::write(rule.join("raw.rego"), module).unwrap();
}

/// An object of the core group, or a deleted one.
fn state(kind: &str, namespace: &str, name: &str, app: Option<&str>) -> ObjectState {
    let plural = format!("{}s", kind.to_lowercase());
    let kind_of_key = Kind::sample("", &plural, kind);
    let key = ObjectKey { kind: kind_of_key, namespace: Some(namespace.into()), name: name.into(), copy: 0 };
    let body = app.map(|app| {
        let metadata = format!(r#"{{"name":"{name}","namespace":"{namespace}"}}"#);
        format!(r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{metadata},"spec":{{"app":"{app}"}}}}"#)
    });
    (key, body.map(|body| Body::plain(body.as_bytes())))
}

/// The states of an inventory, one after the other.
struct Updates {
    loaded: Arc<PolicySet>,
    inventory: Inventory,
    present: Option<Arc<PolicySet>>,
    /// Objects that are evaluated in each state.
    evaluated: Vec<ObjectState>,
}

impl Updates {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        library(directory.path());
        let loaded = Arc::new(PolicySet::load(&[directory.path().to_owned()]).unwrap());
        Self { loaded, inventory: Inventory::default(), present: None, evaluated: Vec::new() }
    }

    /// Takes states in; returns the names of the objects that are touched.
    fn update(&mut self, states: Vec<ObjectState>) -> String {
        let update = Update {
            inventory: std::mem::take(&mut self.inventory),
            policies: Arc::clone(&self.loaded),
            present: self.present.take(),
            generation: 0,
            began: Instant::now(),
            lookups: Arc::default(),
        };
        let updated = update.run(states, false);
        self.inventory = updated.inventory.unwrap();
        let policies = updated.policies.unwrap();
        for (key, body) in &self.evaluated {
            let object = Object { body: body.clone().unwrap(), ..Object::sample(key.clone(), b"") };
            let policies = Arc::clone(&policies);
            evaluate(&Job { object, previous: None, deleted: false, namespace: None, policies });
        }
        self.present = Some(policies);
        assert!(!updated.touched.all && updated.touched.places.is_empty());
        updated.touched.objects.into_iter().map(|key| key.name.to_string()).collect::<Vec<_>>().concat()
    }
}

#[test]
fn a_change_touches_only_those_that_have_other_results() {
    let pod = |namespace, name, app| state("Pod", namespace, name, Some(app));
    let service = |app| state("Service", "n", "s", app);
    let mut updates = Updates::new();
    let pods = vec![pod("n", "a", "x"), pod("n", "b", "y"), pod("n", "c", "y"), pod("m", "d", "y")];
    updates.evaluated.clone_from(&pods);
    let mut update = |states| updates.update(states);
    assert_eq!(update(pods), "", "no verdict was given before");
    assert_eq!(update(vec![service(Some("x"))]), "a");
    assert_eq!(update(vec![service(Some("x"))]), "", "nothing changed");
    assert_eq!(update(vec![service(Some("y"))]), "abc", "not in the other namespace");
    assert_eq!(update(vec![service(Some("z"))]), "bc");
    assert_eq!(update(vec![service(None)]), "", "no result was due to it");
    assert_eq!(update(vec![pod("m", "e", "y")]), "");
}
