//! Convergence as a property: whatever happens in whatever order, in the end the verdicts are those of a fresh
//! evaluation, what was recorded says the same, and each violation was told by turns.
//!
//! A model of a cluster is written to, its kinds are lost, listed anew, refused, come and go, policies change, terms of
//! recording begin and end with some of the records unwritten, and kaudit is killed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fmt::Debug,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use proptest::{
    collection::vec,
    prelude::{Strategy, any},
    prop_oneof,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use serde_json::json;

use super::*;
use crate::{
    audit::{
        command::{Record, Term},
        ledger::{Delta, Id, Violation},
        recorded::{Recorded, RecordedObject},
        result::{Entry, Summary},
    },
    model::{
        coverage::State,
        verdict::{Finding, Outcome, Source},
    },
    rego::problem::LoadError,
    source::{
        change::{Discovered, Unreadable},
        received::{Received, Secrets},
    },
};

/// Histories; `KAUDIT_TEST_HISTORIES` makes a longer run.
const HISTORIES: u32 = 160;
/// Most of a history is waiting until what policies look up has come to rest.
const AT_A_TIME: u32 = 16;
const STEPS: usize = 120;
const OBJECTS: usize = 24;

const LABELS: &str = r#"
package labels
deny contains {"msg": sprintf("bad is %v", [input.metadata.labels.bad]), "details": {"app": input.metadata.labels.app}}
warn contains "app is 2" if input.metadata.labels.app == "2"
deny_part contains {"msg": msg, "details": {"field": sprintf("%vspec.parts[%v]", [input.spec.template, i])}} if {
    part := input.spec.parts[i]
    msg := sprintf("%v: a part is %v", [input.metadata.name, part])
}
"#;

/// Violations that an owner covered are reported a moment later.
const SETTINGS: PipelineSettings = PipelineSettings { handover: HANDOVER, ..super::SETTINGS };
const HANDOVER: Duration = Duration::from_millis(3);
/// How long a run may take to reach the results of a fresh one before it is ended and compared.
const CONVERGENCE: Duration = Duration::from_secs(2);

/// Something that happens. Numbers say to what: they are taken modulo what there is.
#[derive(Debug, Clone)]
enum Step {
    /// An object is created or changed.
    Write(usize, u8),
    Delete(usize),
    /// Deleted and created anew; a watch shows both, a list only another uid.
    Replace(usize, u8),
    /// The watch of a kind is lost: what happens now shows at the next list.
    Lose(usize),
    /// A kind can be read no more, and the server says so.
    Refuse(usize),
    /// A kind is listed again; at first in vain, where true.
    Relist(usize, bool),
    /// A kind is served no more, and its objects go with it.
    Vanish(usize),
    /// It is served again.
    Return(usize),
    /// Other policies.
    Reload(usize),
    /// Policies that cannot be loaded.
    Break,
    /// The recorder gets some of what it was told written.
    Record(u8),
    /// The term ends; what was not written by then is lost, unless true.
    End(bool),
    Begin,
    /// kaudit is started anew, after its end or (false) its death.
    Restart(bool),
    /// Judges get time to work, in milliseconds.
    Breathe(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let object = || 0..OBJECTS;
    let kind = || 0..KINDS.len();
    prop_oneof![
        12 => (object(), any::<u8>()).prop_map(|(object, value)| Step::Write(object, value)),
        3 => object().prop_map(Step::Delete),
        2 => (object(), any::<u8>()).prop_map(|(object, value)| Step::Replace(object, value)),
        2 => kind().prop_map(Step::Lose),
        1 => kind().prop_map(Step::Refuse),
        4 => (kind(), any::<bool>()).prop_map(|(kind, aborted)| Step::Relist(kind, aborted)),
        1 => kind().prop_map(Step::Vanish),
        2 => kind().prop_map(Step::Return),
        3 => any::<usize>().prop_map(Step::Reload),
        1 => proptest::strategy::Just(Step::Break),
        4 => (1_u8..9).prop_map(Step::Record),
        1 => any::<bool>().prop_map(Step::End),
        2 => proptest::strategy::Just(Step::Begin),
        1 => any::<bool>().prop_map(Step::Restart),
        4 => (0_u8..4).prop_map(Step::Breathe),
    ]
}

/// How the source stands to a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    Watched,
    Lost,
    Unserved,
}

/// What is in the cluster, by number.
#[derive(Default)]
struct Cluster {
    objects: BTreeMap<usize, Object>,
    version: u64,
}

impl Cluster {
    fn write(&mut self, number: usize, value: u8) -> Object {
        self.version += 1;
        let uid = match self.objects.get(&number) {
            Some(object) => object.uid.to_string(),
            None => format!("uid-{}", self.version),
        };
        let (name, place) = (name_of(number), format!("n{}", number / 4 % 2));
        let app = (value % 3).to_string();
        let mut labels = json!({"app": app, "stage": if value & 4 == 0 { "prod" } else { "test" }});
        if value & 8 == 0 {
            labels["bad"] = (value >> 6).to_string().into();
        }
        if value & 16 == 0 {
            labels["keep"] = "yes".into();
        }
        let owners = self.owner(number, value);
        // Owners and dependents have some in common, at the same index or at another.
        let parts: Vec<&str> = [(1, "sidecar"), (2, "app"), (4, "log")]
            .iter()
            .filter(|(bit, _)| value & bit != 0)
            .map(|(_, part)| *part)
            .collect();
        let template = if kind_of(number) == "Pod" { "" } else { "spec.template." };
        let mut json = json!({
            "metadata": {"name": name, "namespace": place, "uid": uid, "resourceVersion": self.version.to_string(),
                "labels": labels, "ownerReferences": owners.into_iter().collect::<Vec<_>>()},
            "spec": {"host": app, "selector": {"app": app}, "parts": parts, "template": template},
            "status": {"seen": self.version},
        });
        if kind_of(number) == "Namespace" {
            json["metadata"]["name"] = if number < 8 { place } else { format!("x{number}") }.into();
            json["metadata"]["namespace"] = serde_json::Value::Null;
        }
        let received = Received::read(&json.to_string());
        let object = received.into_object(&kind(kind_of(number)), Secrets::Redact, 0).unwrap();
        self.objects.insert(number, object.clone());
        object
    }

    /// Returns a reference to what controls an object, if anything does: for a Pod mostly the Ingress beside it, for that the
    /// budget. Some own each other in a circle of one, two or three.
    fn owner(&self, number: usize, value: u8) -> Option<Value> {
        let shape = value.wrapping_mul(37) >> 5;
        let owner = match (kind_of(number), shape) {
            (_, 0) => return None,
            ("Pod", _) => number - 3,
            ("Ingress", 1) => number,
            ("Ingress", _) => number + 1,
            ("PodDisruptionBudget", 1..=3) => number - 1,
            ("PodDisruptionBudget", 4) => number + 2,
            _ => return None,
        };
        let owner = self.objects.get(&owner)?;
        Some(json!({
            "apiVersion": owner.key.kind.api_version(),
            "kind": owner.key.kind.kind,
            "name": owner.key.name,
            "uid": owner.uid,
            "controller": true,
        }))
    }

    /// Returns the owners of an object by the references that there are, the nearest first; none if it is its own owner.
    fn owners(&self, uid: &str) -> Vec<&Object> {
        let by_uid: HashMap<&str, &Object> = self.objects.values().map(|object| (&*object.uid, object)).collect();
        let owner = |object: &Object| object.controller.as_ref().and_then(|owner| by_uid.get(&*owner.uid).copied());
        let mut owners: Vec<&Object> = Vec::new();
        let mut next = by_uid.get(uid).and_then(|object| owner(object));
        while let Some(object) = next {
            if *object.uid == *uid {
                return Vec::new();
            }
            if owners.iter().any(|known| known.uid == object.uid) {
                break;
            }
            owners.push(object);
            next = owner(object);
        }
        owners
    }

    /// Checks that what an owner violates, too, is covered there, that this is listed, and that nothing else is covered.
    fn check_covers(&self, result: &AuditResult) -> Result<(), TestCaseError> {
        // What is the same violation, whichever object of a tree it is about.
        let violation = |entry: &Entry| {
            let message = entry.message.replace(&*entry.resource.name, "NAME");
            let details = serde_json::to_string(&entry.details).unwrap().replace("spec.template.spec", "spec");
            let details = ["[0]", "[1]", "[2]"].iter().fold(details, |details, index| details.replace(index, "[]"));
            (entry.policy.clone(), entry.rule.clone(), entry.result, message, details)
        };
        let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for entry in &result.results {
            let (all, covered) = counts.entry((entry.resource.uid.clone(), violation(entry))).or_default();
            *all += 1;
            *covered += usize::from(entry.covered_by.is_some());
        }
        for entry in &result.results {
            let owners = self.owners(&entry.resource.uid);
            let (all, covered) = counts[&(entry.resource.uid.clone(), violation(entry))];
            let listed =
                |uid: &Arc<str>| counts.get(&(uid.clone(), violation(entry))).map_or(0, |(all, covered)| all - covered);
            let at_owners: usize = owners.iter().map(|owner| listed(&owner.uid)).sum();
            same(&format!("covered of {entry:?}"), &[covered], &[all.min(at_owners)])?;
            if let Some(by) = &entry.covered_by {
                let is_owner = owners.iter().any(|owner| owner.uid == by.uid);
                same(&format!("cover of {entry:?}"), &[is_owner, listed(&by.uid) > 0], &[true, true])?;
            }
        }
        let open = result.rolled_up();
        let number = |outcome| open.results.iter().filter(|entry| entry.result == outcome).count();
        let Summary { fail, warn, error, skip, covered, .. } = result.summary;
        let numbers = [Outcome::Fail, Outcome::Warn, Outcome::Error, Outcome::Skip].map(number);
        same("open", &[fail, warn, error, skip], &numbers)?;
        same(
            "covered",
            &[covered, covered],
            &[result.results.len() - open.results.len(), open.results.iter().map(|entry| entry.dependents).sum()],
        )
    }

    fn of_kind(&self, kind: &str) -> Vec<Object> {
        let objects = self.objects.iter().filter(|(number, _)| kind_of(**number) == kind);
        objects.map(|(_, object)| object.clone()).collect()
    }
}

/// Objects are named after their owners.
fn name_of(number: usize) -> String {
    let generated = match kind_of(number) {
        "Ingress" => "-5d8f",
        "Pod" => "-5d8f-x2k4p",
        _ => "",
    };
    format!("o{}{generated}", number / 8)
}

fn kind_of(number: usize) -> &'static str {
    KINDS[number % KINDS.len()]
}

/// What is recorded in the cluster, and survives everything.
#[derive(Default)]
struct Records {
    /// As in reports, by uid.
    results: BTreeMap<Arc<str>, RecordedObject>,
    /// Violations whose last Event said that they appeared, as Events are recorded.
    appeared: BTreeMap<Id, RecordedObject>,
    /// What was told that cannot be true.
    lies: Vec<String>,
}

impl Records {
    fn write(&mut self, delta: &Delta) {
        for violation in &delta.appeared {
            // An Event does not say where the rule stands, nor of what words the id was made.
            let finding = Finding { source: Source { file: "".into(), line: 0 }, ..violation.finding.clone() };
            let told = Violation { fingerprint: violation.id, finding, ..violation.clone() };
            let alone = Delta { results: vec![told], ..delta.clone() };
            if self.appeared.insert(violation.id, recorded_object(&alone)).is_some() {
                self.lies.push(format!("{} appeared twice: {}", delta.object, violation.finding.message));
            }
        }
        for violation in &delta.resolved {
            if self.appeared.remove(&violation.id).is_none() {
                self.lies.push(format!("{} was resolved twice: {}", delta.object, violation.finding.message));
            }
        }
        if delta.results.is_empty() {
            self.results.remove(&delta.uid);
        } else {
            self.results.insert(delta.uid.clone(), recorded_object(delta));
        }
    }

    fn recorded(&self) -> Recorded {
        let mut recorded = Recorded::default();
        self.results.values().chain(self.appeared.values()).for_each(|object| recorded.add(object.clone()));
        recorded
    }

    /// Everything recorded, each `uid outcome policy/rule: message`, sorted.
    fn texts(&self) -> Vec<String> {
        let all = self.results.values().flat_map(|object| {
            let text = |known: &Violation| {
                let finding = &known.finding;
                line(&object.object.uid, finding.outcome, &finding.policy, &finding.rule, &finding.message)
            };
            object.results.iter().map(text)
        });
        let mut all: Vec<String> = all.collect();
        all.sort();
        all
    }
}

fn line(uid: &str, outcome: impl Debug, policy: &str, rule: &str, message: &str) -> String {
    format!("{uid} {outcome:?} {policy}/{rule}: {message}")
}

/// What was told in a term and is not written yet. The pipeline's half goes when the term ends.
type Pending = Arc<Mutex<VecDeque<Delta>>>;

struct Recorder(Pending);

impl Record for Recorder {
    fn record(&mut self, delta: &Delta) {
        self.0.lock().unwrap().push_back(delta.clone());
    }

    fn policies_refused(&mut self, _: &str) {}
}

/// A cluster, its records, and a kaudit under way.
struct World {
    cluster: Cluster,
    sights: [Sight; KINDS.len()],
    policies: Vec<Arc<PolicySet>>,
    in_force: usize,
    records: Records,
    term: Option<Pending>,
    live: Live,
}

impl World {
    async fn new(policies: Vec<Arc<PolicySet>>) -> Self {
        let live = Live::recording(policies[0].clone(), SETTINGS, None);
        let (cluster, records) = (Cluster::default(), Records::default());
        let mut world =
            Self { cluster, sights: [Sight::Watched; KINDS.len()], policies, in_force: 0, records, term: None, live };
        world.sync().await;
        world
    }

    async fn take(&mut self, step: &Step) {
        match *step {
            Step::Write(number, value) => self.write(number, value).await,
            Step::Delete(number) => self.delete(number).await,
            Step::Replace(number, value) => {
                self.delete(number).await;
                self.write(number, value).await;
            }
            Step::Lose(kind) => self.lose(kind),
            Step::Refuse(kind) => {
                self.lose(kind);
                self.refuse(kind).await;
            }
            Step::Relist(kind, aborted) => self.relist(kind, aborted).await,
            Step::Vanish(kind) => self.vanish(kind).await,
            Step::Return(kind) => self.come_back(kind).await,
            Step::Reload(number) => {
                self.in_force = number % self.policies.len();
                self.live.reload(Ok(self.policies[self.in_force].clone())).await;
            }
            Step::Break => self.live.reload(Err(LoadError::new(Vec::new()))).await,
            Step::Record(count) => self.record(usize::from(count)),
            Step::End(orderly) => self.end_term(orderly).await,
            Step::Begin => self.begin_term().await,
            Step::Restart(orderly) => self.restart(orderly).await,
            Step::Breathe(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds.into())).await,
        }
    }

    /// Whether the source sees what happens to an object; `None` if there can be none.
    fn sees(&self, number: usize) -> Option<bool> {
        match self.sights[number % KINDS.len()] {
            Sight::Watched => Some(true),
            Sight::Lost => Some(false),
            Sight::Unserved => None,
        }
    }

    async fn write(&mut self, number: usize, value: u8) {
        let Some(seen) = self.sees(number) else { return };
        let object = self.cluster.write(number, value);
        if seen {
            self.live.send(Change::Seen(scope(kind_of(number)), object)).await;
        }
    }

    async fn delete(&mut self, number: usize) {
        let Some(object) = self.cluster.objects.remove(&number) else { return };
        if self.sees(number) == Some(true) {
            self.live.send(Change::Gone(scope(kind_of(number)), object)).await;
        }
    }

    fn lose(&mut self, kind: usize) {
        if self.sights[kind] == Sight::Watched {
            self.sights[kind] = Sight::Lost;
        }
    }

    async fn refuse(&mut self, kind: usize) {
        let why = Unreadable { state: State::Forbidden, message: "not now".into() };
        if self.sights[kind] != Sight::Unserved {
            self.live.send(Change::Unreadable(scope(KINDS[kind]), why)).await;
        }
    }

    async fn relist(&mut self, kind: usize, aborted: bool) {
        if self.sights[kind] == Sight::Unserved {
            return;
        }
        let (name, objects) = (KINDS[kind], self.cluster.of_kind(KINDS[kind]));
        if aborted {
            self.live.send(Change::Listing(scope(name))).await;
            for object in &objects[objects.len() / 2..] {
                self.live.send(Change::Seen(scope(name), object.clone())).await;
            }
        }
        self.live.send(Change::Listing(scope(name))).await;
        for object in objects {
            self.live.send(Change::Seen(scope(name), object)).await;
        }
        self.live.send(Change::Synced(scope(name))).await;
        self.sights[kind] = Sight::Watched;
    }

    async fn vanish(&mut self, kind: usize) {
        if std::mem::replace(&mut self.sights[kind], Sight::Unserved) != Sight::Unserved {
            self.cluster.objects.retain(|number, _| kind_of(*number) != KINDS[kind]);
            self.live.send(Change::Vanished(scope(KINDS[kind]))).await;
            self.live.send(Change::Discovered(Discovered::default())).await;
        }
    }

    async fn come_back(&mut self, kind: usize) {
        if self.sights[kind] == Sight::Unserved {
            self.sights[kind] = Sight::Lost;
            self.live.send(Change::Appeared(scope(KINDS[kind]))).await;
            self.live.send(Change::Discovered(Discovered::default())).await;
        }
    }

    fn record(&mut self, count: usize) {
        for delta in self.term.iter().flat_map(|pending| {
            let mut pending = pending.lock().unwrap();
            let count = count.min(pending.len());
            pending.drain(..count).collect::<Vec<_>>()
        }) {
            self.records.write(&delta);
        }
    }

    async fn begin_term(&mut self) {
        if self.term.is_none() {
            let pending = Pending::default();
            let recorder = Box::new(Recorder(pending.clone()));
            self.live.term(Term::Begin(self.records.recorded(), recorder)).await;
            self.term = Some(pending);
        }
    }

    async fn end_term(&mut self, orderly: bool) {
        if self.term.is_some() {
            self.live.term(Term::End).await;
            self.close_term(orderly).await;
        }
    }

    /// Waits until nothing more is told in the term, and writes what is pending, if that is still possible.
    async fn close_term(&mut self, orderly: bool) {
        let begin = Instant::now();
        while self.term.as_ref().is_some_and(|pending| Arc::strong_count(pending) > 1) {
            assert!(begin.elapsed() < PATIENCE, "a recorder outlives its term");
            tokio::task::yield_now().await;
        }
        if orderly {
            self.record(usize::MAX);
        }
        self.term = None;
    }

    async fn restart(&mut self, orderly: bool) {
        let next = Live::recording(self.policies[self.in_force].clone(), SETTINGS, None);
        let last = std::mem::replace(&mut self.live, next);
        let recording = self.term.is_some();
        if orderly {
            last.end().await;
        } else {
            last.kill().await;
        }
        self.close_term(orderly).await;
        if recording {
            self.begin_term().await;
        }
        self.sync().await;
    }

    /// Plays the first lists of the kinds that are served; those that were lost are refused for now.
    async fn sync(&mut self) {
        let served: Vec<usize> = (0..KINDS.len()).filter(|kind| self.sights[*kind] != Sight::Unserved).collect();
        for kind in &served {
            self.live.send(Change::Appeared(scope(KINDS[*kind]))).await;
        }
        for kind in served {
            if self.sights[kind] == Sight::Lost {
                self.refuse(kind).await;
            } else {
                self.relist(kind, true).await;
            }
        }
        // Taken in by now, most likely, and yet nothing may be judged or told.
        let summary = self.live.result().await.summary;
        assert_eq!((summary.objects, self.live.metric("kaudit_evaluations_total")), (0, 0), "judged before the gate");
        let told = self.term.as_ref().map_or(0, |pending| pending.lock().unwrap().len());
        assert_eq!(told, 0, "told before the gate");
        self.live.send(Change::Discovered(Discovered::default())).await;
    }

    /// Lets everything be seen, judged and recorded; compares with a fresh evaluation. Returns how many results stand, and
    /// how many of them owners stand for.
    async fn settle(mut self) -> Result<(usize, usize), TestCaseError> {
        for kind in 0..KINDS.len() {
            if self.sights[kind] == Sight::Lost {
                self.relist(kind, false).await;
            }
        }
        self.begin_term().await;
        let fresh = Live::recording(self.policies[self.in_force].clone(), SETTINGS, None);
        let served = (0..KINDS.len()).filter(|kind| self.sights[*kind] != Sight::Unserved);
        for kind in served.map(|kind| KINDS[kind]) {
            fresh.send(Change::Appeared(scope(kind))).await;
            for object in self.cluster.of_kind(kind) {
                fresh.send(Change::Seen(scope(kind), object)).await;
            }
            fresh.send(Change::Synced(scope(kind))).await;
        }
        fresh.send(Change::Discovered(Discovered::default())).await;
        let fresh = fresh.end().await;
        let next = Live::recording(self.policies[0].clone(), SETTINGS, None);
        let live = std::mem::replace(&mut self.live, next);
        live.heard().await;
        let wanted = texts(&fresh);
        // A violation that an owner covered until the last evaluation is reported after a pause.
        let begin = Instant::now();
        while begin.elapsed() < CONVERGENCE {
            let result = live.result().await;
            if texts(&result) == wanted && covered(&result) == covered(&fresh) {
                break;
            }
            tokio::time::sleep(HANDOVER).await;
        }
        tokio::time::sleep(HANDOVER).await;
        let live = live.end().await;
        self.close_term(true).await;
        same("verdicts", &texts(&live), &wanted)?;
        same("covered", &covered(&live), &covered(&fresh))?;
        self.cluster.check_covers(&fresh)?;
        same("records", &self.records.texts(), &texts(&fresh.rolled_up()))?;
        same("lies", &self.records.lies, &[])?;
        let summary = |result: &AuditResult| format!("{:?}", result.summary);
        same("summary", &[summary(&live)], &[summary(&fresh)])?;
        let standing = self.records.results.values().flat_map(|object| &object.results);
        let standing = standing.filter(|known| known.finding.outcome.is_violation());
        let mut told: BTreeSet<Id> = self.records.appeared.keys().copied().collect();
        for known in standing {
            same("told", &[told.remove(&known.id)], &[true])?;
        }
        // What is left was told before an owner came to stand for it.
        for object in told.iter().map(|id| &self.records.appeared[id]) {
            let Finding { policy, rule, .. } = &object.results[0].finding;
            let stands =
                covered(&fresh).iter().any(|line| line.starts_with(&format!("{} {policy}/{rule} ", object.object.uid)));
            same(&format!("told of {} {policy}/{rule}", object.object.uid), &[stands], &[true])?;
        }
        Ok((wanted.len(), covered(&fresh).len()))
    }
}

/// Results that owners cover, each `uid policy/rule uid: message`, sorted.
fn covered(result: &AuditResult) -> Vec<String> {
    let covered = result.results.iter().filter_map(|entry| Some((entry, entry.covered_by.as_ref()?)));
    let mut all: Vec<String> = covered
        .map(|(entry, owner)| {
            let Entry { resource, policy, rule, message, .. } = entry;
            format!("{} {policy}/{rule} {}: {message}", resource.uid, owner.uid)
        })
        .collect();
    all.sort();
    all
}

fn texts(result: &AuditResult) -> Vec<String> {
    let entries = result.results.iter();
    let mut all: Vec<String> = entries
        .map(|entry| line(&entry.resource.uid, entry.result, &entry.policy, &entry.rule, &entry.message))
        .collect();
    all.sort();
    all
}

fn same<T: PartialEq + Debug>(what: &str, found: &[T], wanted: &[T]) -> Result<(), TestCaseError> {
    if found == wanted {
        return Ok(());
    }
    let missing: Vec<_> = wanted.iter().filter(|one| !found.contains(one)).collect();
    let surplus: Vec<_> = found.iter().filter(|one| !wanted.contains(one)).collect();
    Err(TestCaseError::fail(format!("{what}: missing {missing:#?}, too many {surplus:#?}")))
}

#[test]
fn any_history_converges_and_tells_each_violation_by_turns() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let seed = number("KAUDIT_TEST_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("KAUDIT_TEST_SEED={seed} repeats this run");
    let policies = [
        load(&[("labels.rego", LABELS), ("hosts.rego", UNIQUE_HOST), ("prod.yaml", IN_PROD)]),
        load(&[("labels.rego", &LABELS.replace("app is", "it is")), ("budgets.rego", BUDGET), ("prod.yaml", IN_PROD)]),
        load(&[("labels.rego", LABELS), ("changes.rego", CHANGES)]),
        // Others, and yet the same results.
        load(&[("labels.rego", LABELS), ("changes.rego", CHANGES), ("silent.rego", "package silent\ndeny if false\n")]),
    ];
    let histories = number("KAUDIT_TEST_HISTORIES").map_or(HISTORIES, |count| u32::try_from(count).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (found, rolled_up) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let live = |steps: Vec<Step>| {
        runtime.block_on(async {
            let mut world = World::new(policies.to_vec()).await;
            for step in &steps {
                world.take(step).await;
            }
            let (standing, covered) = world.settle().await?;
            found.fetch_add(standing, Ordering::Relaxed);
            rolled_up.fetch_add(covered, Ordering::Relaxed);
            Ok(())
        })
    };
    // Each attempt to make a failure shorter is a whole run; what was found is in the seed, not in a file.
    let cases = histories.div_ceil(AT_A_TIME);
    let config = Config { cases, max_shrink_iters: 400, failure_persistence: None, ..Config::default() };
    std::thread::scope(|scope| {
        for runner in 0..AT_A_TIME {
            let (config, live) = (config.clone(), &live);
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.wrapping_add(runner.into()).to_le_bytes());
            scope.spawn(move || {
                let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
                let outcome = runner.run(&vec(step(), 1..STEPS), live);
                outcome.unwrap_or_else(|failure| panic!("KAUDIT_TEST_SEED={seed}: {failure}"));
            });
        }
    });
    let (found, rolled_up) = (found.into_inner(), rolled_up.into_inner());
    println!("{found} results stand at the end, owners stand for {rolled_up} of them");
    assert!(found > histories as usize, "the histories are to end with something in violation: {found}");
    assert!(rolled_up > histories as usize / 20, "and owners are to stand for some of it: {rolled_up}");
}
