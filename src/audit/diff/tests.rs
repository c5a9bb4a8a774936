//! Comparisons of results that are made by hand.

use super::*;
use crate::{
    audit::result::{AuditScope, ObjectSource, PolicySummary},
    model::{coverage::State, shard::Shard, verdict::Finding},
};

/// An audit of Pods by the rule `p/deny`, in which each pair is an object and a message.
fn audit(found: &[(&str, &str)]) -> AuditResult {
    let entry = |(name, message): &(&str, &str)| {
        let resource = ObjectRef {
            cluster: None,
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some("n".into()),
            name: (*name).into(),
            uid: "".into(),
        };
        Entry::new(&Finding::sample(message), &Arc::new(resource), None, None)
    };
    let policy = PolicySummary {
        name: "p".into(),
        dialect: "conftest".into(),
        source: "p.rego".into(),
        rules: vec!["deny".into()],
        about: crate::audit::result::About::default(),
        about_rules: BTreeMap::new(),
        objects: BTreeMap::new(),
        texts: BTreeMap::new(),
        excusable: BTreeMap::new(),
    };
    let mut audit = AuditResult {
        scope: Some(AuditScope {
            clusters: Vec::new(),
            source: ObjectSource::Cluster,
            namespaces: vec![],
            shard: Shard::WHOLE,
            selector: None,
        }),
        policies: vec![policy],
        results: found.iter().map(entry).collect(),
        ..AuditResult::sample(0)
    };
    audit.sort();
    audit
}

fn tally(before: &AuditResult, after: &AuditResult, compared: Compared) -> [usize; 5] {
    let diff = compare(("a", before), ("b", after), compared);
    let Tally { appears, changes, resolves, stays, incomparable } = diff.summary;
    assert_eq!(appears + changes + stays + incomparable_on(&diff, Side::After), violations(after).count());
    assert_eq!(resolves + changes + stays + incomparable_on(&diff, Side::Before), violations(before).count());
    let counted: Vec<Tally> = diff.rules.iter().map(|rule| rule.tally).collect();
    assert_eq!(counted.iter().map(|tally| tally.appears).sum::<usize>(), appears);
    assert_eq!((diff.appears.len(), diff.changes.len(), diff.resolves.len()), (appears, changes, resolves));
    [appears, changes, resolves, stays, incomparable]
}

fn incomparable_on(diff: &AuditDiff, side: Side) -> usize {
    diff.incomparable.iter().filter(|one| one.side == side).count()
}

#[test]
fn each_violation_is_in_one_class() {
    let before = audit(&[("a", "x"), ("a", "y"), ("b", "x"), ("c", "has 1"), ("c", "has 2"), ("d", "x")]);
    let after = audit(&[("a", "x"), ("b", "z"), ("c", "has 3"), ("e", "x"), ("e", "y")]);
    // Between two audits other words are another violation.
    assert_eq!(tally(&before, &after, Compared::Audits), [4, 0, 5, 1, 0]);
    assert_eq!(tally(&before, &after, Compared::Policies), [2, 1, 3, 2, 0]);
    assert_eq!(tally(&after, &before, Compared::Policies), [3, 1, 2, 2, 0]);
    assert_eq!(tally(&before, &before, Compared::Audits), [0, 0, 0, 6, 0]);
}

proptest::proptest! {
    #[test]
    fn between_audits_violations_are_the_same_by_object_and_value(
        before in proptest::collection::vec((0..3usize, 0..4usize), 0..12),
        after in proptest::collection::vec((0..3usize, 0..4usize), 0..12),
    ) {
        let names = ["a", "b", "c"];
        let messages = ["opens port 80", "opens port 22", "opens all", "opens port 443"];
        let made = |side: &[(usize, usize)]| {
            audit(&side.iter().map(|(name, message)| (names[*name], messages[*message])).collect::<Vec<_>>())
        };
        let mut left = before.clone();
        let stays = after.iter().filter(|one| {
            let place = left.iter().position(|other| other == *one);
            place.map(|place| left.remove(place)).is_some()
        });
        let stays = stays.count();
        let want = [after.len() - stays, 0, before.len() - stays, stays, 0];
        proptest::prop_assert_eq!(tally(&made(&before), &made(&after), Compared::Audits), want);
    }
}

#[test]
fn only_new_violations_appear() {
    let message = |entries: &[Entry]| entries.iter().map(|entry| entry.message.to_string()).collect::<Vec<_>>();
    let diff = compare(
        ("a", &audit(&[("a", "opens port 80"), ("b", "x")])),
        ("b", &audit(&[("a", "opens port 22"), ("a", "opens port 80"), ("b", "x")])),
        Compared::Audits,
    );
    assert_eq!(message(&diff.appears), ["opens port 22"]);
    // The same object in two files: what is fixed is in the other one.
    let in_file = |names: &[&str]| {
        let mut audit = audit(&vec![("a", "x"); names.len()]);
        for (entry, name) in audit.results.iter_mut().zip(names) {
            entry.location = Some(Location { file: (*name).into(), line: 1 });
        }
        audit
    };
    let diff = compare(("a", &in_file(&["dev.yaml", "prod.yaml"])), ("b", &in_file(&["prod.yaml"])), Compared::Audits);
    let gone: Vec<_> = diff.resolves.iter().filter_map(|entry| entry.location.as_ref()).map(|at| &*at.file).collect();
    assert_eq!(gone, ["dev.yaml"]);
}

#[test]
fn violations_that_the_other_could_not_have_found_are_kept_apart() {
    let (before, after) = (audit(&[("a", "x")]), audit(&[("b", "x")]));
    let with = |change: fn(&mut AuditResult)| {
        let mut before = before.clone();
        change(&mut before);
        tally(&before, &after, Compared::Audits)
    };
    let apart = [0, 0, 1, 0, 1];
    assert_eq!(with(|_| {}), [1, 0, 1, 0, 0]);
    assert_eq!(with(|audit| audit.policies.clear()), apart);
    assert_eq!(with(|audit| audit.scope.iter_mut().for_each(|scope| scope.namespaces = vec!["m".into()])), apart);
    assert_eq!(
        with(|audit| audit.scope.iter_mut().for_each(|scope| scope.namespaces = vec!["n".into()])),
        [1, 0, 1, 0, 0]
    );
    let gap = |state| Coverage {
        group: String::new(),
        version: "v1".into(),
        kind: "Pod".into(),
        resource: "pods".into(),
        state,
        objects: 0,
        inactive: 0,
        message: "no".into(),
    };
    for state in State::ALL {
        let mut before = before.clone();
        before.coverage.push(gap(state));
        assert_eq!(tally(&before, &after, Compared::Audits), apart, "{state:?}");
    }
    // One of a cluster and one of manifests have nothing in common.
    let elsewhere = with(|audit| audit.scope.iter_mut().for_each(|scope| scope.source = ObjectSource::Manifests));
    assert_eq!(elsewhere, [0, 0, 0, 0, 2]);
}

#[test]
fn covered_results_are_reported_at_the_owner() {
    let covered = |names: &[&str]| {
        let mut audit = audit(&[("web", "x"), ("web-1", "y"), ("web-2", "y")]);
        let owner = Arc::clone(&audit.results[0].resource);
        for entry in audit.results.iter_mut().filter(|entry| names.contains(&&*entry.resource.name)) {
            entry.covered_by = Some(Arc::clone(&owner));
        }
        audit
    };
    let names = |entries: &[Entry]| entries.iter().map(|entry| entry.resource.name.to_string()).collect::<Vec<_>>();
    let diff = compare(("a", &audit(&[])), ("b", &covered(&["web-1", "web-2"])), Compared::Policies);
    assert_eq!((names(&diff.appears), diff.summary.appears), (vec!["web".to_owned()], 1));
    // Whether owners cover them makes no difference.
    let diff = compare(("a", &covered(&["web-1"])), ("b", &covered(&["web-2"])), Compared::Policies);
    assert_eq!((diff.summary.stays, diff.summary.differs()), (1, false));
}
