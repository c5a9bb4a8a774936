//! Views of buckets with values that no kaudit writes: hostile values in one bucket must not harm the view of others.

use hyper::body::Bytes;

use super::*;
use crate::fleet::{keys::BucketKey, packed, samples::SampleCluster};

const NAME: &str = "blue";

fn packed(json: &str) -> Bytes {
    packed::pack(json.as_bytes()).unwrap().into()
}

/// Returns the view of a live cluster.
fn live() -> FleetView {
    FleetView::sample(&[SampleCluster::new(NAME, crate::audit::result::AuditResult::sample(1), Timestamp::now())])
}

fn set(view: &mut FleetView, key: &str, value: Option<Bytes>) {
    let value = value.map(|value| (value, Timestamp::now()));
    view.take(FleetUpdate::Value(NAME.into(), BucketKey::parse(key).unwrap(), value));
}

fn problem(view: &FleetView) -> Option<String> {
    view.clusters[NAME].problem()
}

/// Returns a part in which each of some objects has its own kind.
fn part_with_kinds(kinds: usize) -> Bytes {
    let objects: Vec<String> =
        (0..kinds).map(|kind| format!(r#"{{"resource":{{"kind":"K{kind}"}},"results":[]}}"#)).collect();
    packed(&format!(r#"{{"rules":[],"objects":[{}]}}"#, objects.join(",")))
}

#[test]
fn a_cluster_is_unreadable_until_all_its_values_can_be_read() {
    let mut view = live();
    assert_eq!(problem(&view), None);
    set(&mut view, "0-1.results.a.1.0", Some("nonsense".into()));
    set(&mut view, "0-1.results.b.1.0", Some("nonsense".into()));
    assert!(problem(&view).unwrap().ends_with("(and 1 more)"));
    set(&mut view, "0-1.results.b.1.0", None);
    assert!(problem(&view).unwrap().starts_with("0-1.results.a.1.0 cannot be read: "));
    // It was deleted while the bucket was not followed.
    view.take(FleetUpdate::Read(NAME.into(), BTreeSet::new()));
    assert_eq!(problem(&view), None);
}

#[test]
fn counts_that_could_overflow_are_refused() {
    let mut view = live();
    let state = view.clusters[NAME].states().next().unwrap().clone();
    let json = |count: usize| {
        let mut state = state.clone();
        state.result.summary.objects = count;
        Bytes::from(packed::pack(&packed::json(&state).unwrap()).unwrap())
    };
    set(&mut view, "0-1.state", Some(json(usize::MAX)));
    assert!(problem(&view).unwrap().contains("has a count above"));
    set(&mut view, "0-1.state", Some(json(1)));
    assert_eq!(problem(&view), None);
}

#[test]
fn one_cluster_cannot_use_up_memory() {
    let mut view = live();
    set(&mut view, "0-1.results.a.1.0", Some(part_with_kinds(100)));
    assert_eq!(problem(&view), None);
    set(&mut view, "0-1.results.a.1.0", Some(part_with_kinds(2_000)));
    assert!(problem(&view).unwrap().contains("1000 kinds"));
    // A few kilobytes of packed JSON with very many results.
    let result = r#"{"id":"0000000000000001","rule":0,"result":"fail","message":""}"#;
    let results = vec![result; 200_000].join(",");
    let rules = r#"[{"policy":"p","rule":"deny","source":{"file":"a.rego","line":1}}]"#;
    let many = packed(&format!(r#"{{"rules":{rules},"objects":[{{"resource":{{}},"results":[{results}]}}]}}"#));
    assert!(many.len() < 10_000);
    for part in 0..40 {
        set(&mut view, &format!("0-1.results.a.64.{part}"), Some(many.clone()));
    }
    assert!(problem(&view).unwrap().contains("cannot be read"));
    assert!(view.clusters[NAME].violations().iter().sum::<usize>() < 8_000_000);
}

#[test]
fn a_selector_leaves_out_only_clusters_whose_labels_are_known() {
    let labelled = |name: &str, env: &str| {
        let mut cluster = SampleCluster::new(name, crate::audit::result::AuditResult::sample(1), Timestamp::now());
        cluster.state.labels = [("env".to_owned(), env.to_owned())].into();
        cluster
    };
    let mut view = FleetView::sample(&[labelled("prod", "prod"), labelled("dev", "dev"), labelled("lost", "dev")]);
    let listed = ["prod", "dev", "lost", "empty"].map(Arc::from).into();
    view.take(FleetUpdate::Clusters(listed));
    view.take(FleetUpdate::Read("empty".into(), BTreeSet::new()));
    let selected = |scope: &FleetScope| view.clusters_in(scope).into_keys().collect::<Vec<_>>();
    let labels = Some("env=prod".parse().unwrap());
    let scope = FleetScope { labels, expected: vec!["lost".to_owned(), "gone".to_owned()], ..FleetScope::default() };
    assert_eq!(selected(&scope), ["empty", "lost", "prod"].map(Arc::from));
    assert_eq!(view.missing(&scope).collect::<Vec<_>>(), ["gone"]);
    let scope = FleetScope { names: vec!["d*".parse().unwrap()], ..scope };
    assert_eq!(selected(&scope), [Arc::from("lost")]);
    assert_eq!(FleetView::default().missing(&scope).count(), 0);
}
