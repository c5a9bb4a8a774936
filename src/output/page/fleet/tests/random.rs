//! Random small fleets and queries. Names are few, so that much coincides.

use std::sync::Arc;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};

use super::{
    super::super::query::{PageQuery, View},
    now,
};
use crate::{
    audit::result::{AuditResult, Entry},
    fleet::samples::SampleCluster,
    model::verdict::{Outcome, Severity},
    output::tests::{audit, entry, resource},
};

const MESSAGES: [&str; 4] = ["no tag", "Größe 7", "<b>large</b> tag", "\u{1b}[31mred"];
const OUTCOMES: [Outcome; 4] = [Outcome::Fail, Outcome::Warn, Outcome::Error, Outcome::Skip];

/// Returns up to five clusters with up to 40 results each.
pub(super) fn clusters(random: &mut Rng) -> Vec<SampleCluster> {
    (0..random.usize(..6)).map(|number| cluster(random, &format!("c{number}"))).collect()
}

fn cluster(random: &mut Rng, name: &str) -> SampleCluster {
    let count = random.usize(..40);
    let results: Vec<Entry> = (0..count).map(|_| result(random)).collect();
    let result = AuditResult {
        teams: [("n0".into(), "t0".into()), ("n1".into(), "t1".into())].into(),
        ..audit(results, vec![], 0)
    };
    let mut cluster = SampleCluster::new(name, result, now());
    cluster.state.labels = [("env".to_owned(), (*random.choice(["prod", "test"].iter()).unwrap()).to_owned())].into();
    cluster.ended = (0..random.usize(..8)).map(|_| (result_of_ended(random), ago(random))).collect();
    cluster
}

fn result_of_ended(random: &mut Rng) -> Entry {
    Entry { result: Outcome::Fail, ..result(random) }
}

/// Returns a time within the last two days.
fn ago(random: &mut Rng) -> Timestamp {
    now().saturating_sub(SignedDuration::from_secs(random.i64(0..172_800))).unwrap()
}

fn result(random: &mut Rng) -> Entry {
    let (policy, rule) = (format!("p{}", random.u8(..2)), format!("r{}", random.u8(..3)));
    let name = format!("o{}", random.u8(..6));
    // Policies decide the owner of an object by its name alone.
    let (version, kind) = if random.bool() { ("v1", "Pod") } else { ("apps/v1", "Deployment") };
    let namespace = *random.choice(["n0", "n1", "n2", ""].iter()).unwrap();
    let object = resource(version, kind, namespace, &name);
    let owner = (kind == "Pod" && &*name < "o3").then(|| Arc::new(resource("apps/v1", "ReplicaSet", namespace, &name)));
    let message = random.choice(MESSAGES.iter()).unwrap();
    let found = entry(object, &policy, &rule, *random.choice(OUTCOMES.iter()).unwrap(), message);
    let id = (rule == "r0").then(|| Arc::from(format!("ID-{policy}")));
    Entry {
        owner,
        severity: random.choice(Severity::ALL).filter(|_| random.u8(..6) > 0),
        rule_id: id,
        since: random.bool().then(|| ago(random)),
        is_handed_over: random.u8(..5) == 0,
        ..found
    }
}

/// Returns a query with some filters.
pub(super) fn query(random: &mut Rng) -> PageQuery {
    let mut one = |values: &[&str]| -> Option<String> {
        let value = random.choice(values.iter())?;
        (random.u8(..4) == 0).then(|| (*value).to_owned())
    };
    PageQuery {
        view: View::Objects,
        cluster: one(&["c0", "c1", "c9"]),
        label: one(&["env=prod", "env!=prod", "env in (prod, test)", "zone"]).or(Some("env".to_owned())),
        namespace: one(&["n0", "n1", "-", "n9"]),
        team: one(&["t0", "t1", "-", "t9"]),
        rule: one(&["p0", "r1", "p1/r2", "ID-p0", "r*", "none"]),
        kind: one(&["Pod", "Deployment.apps", "ReplicaSet.apps", "Other"]),
        severity: one(&["critical", "high", "info", "none", "other"]),
        since: one(&["1h", "12h", "1d", "30h", "99d", "soon"]),
        q: one(&["tag", "LARGE b", "größe", "pod n0/o1", "replicaset", "p1/r2 red", " ", "absent"]),
        ..PageQuery::default()
    }
}
