use serde_json::json;

use super::*;
use crate::{
    model::{coverage::State, object::Kind},
    source::{
        change::{Discovered, Unreadable},
        received::Received,
    },
};

fn scope(kind: &str) -> WatchScope {
    let mut kind = Kind::sample("constraints.gatekeeper.sh", &kind.to_lowercase(), kind);
    Arc::make_mut(&mut kind).namespaced = false;
    WatchScope { kind, namespace: None }
}

fn constraint(scope: &WatchScope, name: &str, parameter: u32) -> Object {
    let object = json!({"metadata": {"name": name, "uid": name}, "spec": {"parameters": {"p": parameter}}});
    Received::read(&object.to_string()).into_object(&scope.kind, Secrets::Redact, 0).unwrap()
}

fn unreadable(scope: &WatchScope) -> Change {
    Change::Unreadable(scope.clone(), Unreadable { state: State::Forbidden, message: "no right".to_owned() })
}

/// Returns the files, each with its parameter, or with the reason why it cannot be read.
fn files(reading: &ClusterPolicies) -> Vec<String> {
    let trees = reading.trees();
    let files = trees.iter().flat_map(|tree| tree.files.iter().map(|file| tree.shown(file).to_string() + &text(file)));
    files.collect()
}

fn text(file: &TreeFile) -> String {
    match &file.content {
        Ok(yaml) => {
            let yaml = String::from_utf8_lossy(yaml);
            format!(" {}", yaml.lines().find(|line| line.contains("p:")).unwrap().trim())
        }
        Err(why) => format!(": {why}"),
    }
}

#[test]
fn an_unreadable_kind_keeps_its_last_state_and_the_others_are_followed() {
    let source = ClusterSource::Gatekeeper;
    let (objects, scopes) = (BTreeMap::new(), BTreeMap::new());
    let mut reading = ClusterPolicies { source, namespace: String::new(), objects, scopes, discovered: false };
    let (a, b) = (scope("A"), scope("B"));
    for scope in [&a, &b] {
        reading.take(Change::Appeared(scope.clone()));
        reading.take(Change::Listing(scope.clone()));
        reading.take(Change::Seen(scope.clone(), constraint(scope, "one", 1)));
        reading.take(Change::Seen(scope.clone(), constraint(scope, "two", 1)));
        assert!(!reading.is_complete());
        reading.take(Change::Synced(scope.clone()));
    }
    reading.take(Change::Discovered(Discovered::default()));
    assert!(reading.is_complete());
    let path = |kind: &str, name: &str, parameter: u32| format!("cluster:gatekeeper/{kind}/{name}.yaml p: {parameter}");
    let of_a = [path("a", "one", 1), path("a", "two", 1)];
    assert_eq!(files(&reading), [&of_a[..], &[path("b", "one", 1), path("b", "two", 1)]].concat());

    // An unfinished list removes nothing, whether it hangs or fails.
    reading.take(Change::Listing(a.clone()));
    reading.take(Change::Seen(b.clone(), constraint(&b, "one", 2)));
    assert_eq!(files(&reading), [&of_a[..], &[path("b", "one", 2), path("b", "two", 1)]].concat());
    reading.take(unreadable(&a));
    reading.take(Change::Listing(a.clone()));
    reading.take(Change::Gone(b.clone(), constraint(&b, "two", 1)));
    let problem = "cluster:gatekeeper/a.constraints.gatekeeper.sh.yaml: cannot be read; its last version stays in force: \
                   no right";
    assert_eq!(files(&reading), [&[problem.to_owned()], &of_a[..], &[path("b", "one", 2)]].concat());

    // A kind that appears later is included when its list is complete.
    let c = scope("C");
    reading.take(Change::Appeared(c.clone()));
    reading.take(Change::Listing(c.clone()));
    reading.take(Change::Seen(c.clone(), constraint(&c, "one", 1)));
    assert_eq!(files(&reading).len(), 4);
    reading.take(Change::Synced(c));
    assert_eq!(files(&reading).len(), 5);

    // Objects that were deleted meanwhile are removed when the kind can be read again.
    reading.take(Change::Listing(a.clone()));
    reading.take(Change::Seen(a.clone(), constraint(&a, "two", 3)));
    reading.take(Change::Synced(a));
    assert_eq!(files(&reading), [path("a", "two", 3), path("b", "one", 2), path("c", "one", 1)]);
}
