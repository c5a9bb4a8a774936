//! Events at scale, and as the persistent state of a kaudit that writes no reports.
//!
//! `KAUDIT_TEST_OBJECTS=20000 cargo test --test cluster events::` is the long version; it takes some minutes.

mod rates;
mod stopping;

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use k8s_openapi::api::{core::v1::ConfigMap, events::v1::Event};
use kaudit_controlplane::{ControlPlane, User, require, shared};
use kaudit_test_support::settings::setting;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    kubectl::operator,
    proxy::{Act, Proxy},
    support::{PATIENCE, Running, denies_marked, policies, results_in, run, wait_for},
};

const APPEARED: &str = "PolicyViolation";
const RESOLVED: &str = "PolicyResolved";

/// How late the Event of a change may be, whatever else is pending: in order after the others it would be much later.
/// On a quiet machine it takes some milliseconds; `examples/bench` measures that.
const PROMPT: Duration = Duration::from_secs(10);

/// How long a kaudit that is stopping may write pending records.
const FLUSH: Duration = Duration::from_secs(10);

/// A namespace with objects and their Events.
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) user: User,
    pub(crate) policies: tempfile::TempDir,
}

impl Scene {
    /// Creates a namespace and a policy that denies marked objects in it.
    pub(crate) async fn new(plane: &ControlPlane, name: &str) -> Self {
        let namespace = plane.temp_namespace(name).await.unwrap();
        let user = operator(plane, &namespace).await;
        let policies = policies(&[("marked.rego", &denies_marked(&namespace))]);
        Self { client: plane.admin().unwrap(), namespace, user, policies }
    }

    pub(crate) fn objects(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates objects, marked with `value` unless it is empty.
    pub(crate) async fn create(&self, names: impl IntoIterator<Item = String>, value: &str) {
        let create = |name: String| async move {
            let labels = if value.is_empty() { json!({}) } else { json!({&self.namespace: value}) };
            let object = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap();
            self.objects().create(&PostParams::default(), &object).await.unwrap();
        };
        stream::iter(names).map(create).buffer_unordered(8).collect::<()>().await;
    }

    /// Marks an object with a value, or removes the mark.
    pub(crate) async fn mark(&self, name: &str, value: Option<&str>) {
        let patch = json!({"metadata": {"labels": {&self.namespace: value}}});
        self.objects().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.objects().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Starts a kaudit that only writes Events of this namespace.
    pub(crate) async fn start(&self, arguments: &[&str]) -> Running {
        self.start_as(self.user.kubeconfig_path(), arguments).await
    }

    /// The same, with another kubeconfig.
    async fn start_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Running {
        let path = self.policies.path().to_str().unwrap();
        let base =
            ["--record=events", "--include=configmaps", "--exclude=*", "--policies", path, "-n", &self.namespace];
        let kaudit = Running::start(kubeconfig, &[&base[..], arguments].concat()).await;
        kaudit.ready().await;
        kaudit
    }

    /// Lists all Events, or those of one object.
    pub(crate) async fn events(&self, of: Option<&str>) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = ListParams::default();
        let list = of.map_or(all.clone(), |name| all.fields(&format!("regarding.name={name}")));
        let mut events = api.list(&list).await.unwrap().items;
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        events
    }

    /// Returns the reasons of all Events by object, in their order.
    pub(crate) async fn recorded(&self) -> BTreeMap<String, Vec<String>> {
        let mut recorded: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for event in self.events(None).await {
            let regarding = event.regarding.unwrap();
            if regarding.kind.as_deref() == Some("ConfigMap") {
                recorded.entry(regarding.name.unwrap()).or_default().push(event.reason.unwrap());
            }
        }
        recorded
    }

    /// Returns the number of Events in the namespace.
    async fn count(&self) -> usize {
        self.events(None).await.len()
    }
}

async fn until_written(kaudit: &Running) {
    let end = Instant::now() + PATIENCE * 10;
    while kaudit.metric("kaudit_events_pending") != Some(0) {
        assert!(Instant::now() < end, "Events still wait");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until each of the initial `objects` is evaluated.
async fn until_evaluated(kaudit: &Running, objects: usize) {
    let evaluated = || async { kaudit.metric("kaudit_evaluations_total").filter(|evaluated| *evaluated >= objects) };
    wait_for("all to be judged", evaluated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_resolved_events_restarts_resolve_nothing_again() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "appeared-only").await;
    scene.create(["fixed", "stays"].map(str::to_owned), "yes").await;
    let kaudit = scene.start(&["--events=appeared"]).await;
    wait_for("both Events", || async { (scene.count().await == 2).then_some(()) }).await;
    scene.mark("fixed", None).await;
    let resolved = |kaudit: &Running| {
        let metrics = kaudit.get("/metrics").unwrap();
        let lines = metrics.lines().filter(|line| line.starts_with("kaudit_violations_resolved_total{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    wait_for("the end", || async { (resolved(&kaudit) > 0.0).then_some(()) }).await;
    kaudit.kill();
    for _ in 0..2 {
        let kaudit = scene.start(&["--events=appeared"]).await;
        // New violations are recorded only after the earlier records have been read.
        scene.create(["new".to_owned()], "yes").await;
        wait_for("the new one", || async { (scene.events(Some("new")).await.len() == 1).then_some(()) }).await;
        assert!(resolved(&kaudit) == 0.0, "{}", kaudit.log());
        scene.delete("new").await;
        wait_for("its end", || async { (resolved(&kaudit) > 0.0).then_some(()) }).await;
        assert!(resolved(&kaudit) > 0.9);
        let events: Api<Event> = Api::namespaced(scene.client.clone(), &scene.namespace);
        for event in scene.events(Some("new")).await {
            events.delete(&event.metadata.name.unwrap(), &DeleteParams::default()).await.unwrap();
        }
        assert_eq!(kaudit.stop().await, Some(0));
    }
    assert_eq!(scene.count().await, 2, "nothing is repeated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_delays_no_change_and_restarts_repeat_no_event() {
    if !require() {
        return;
    }
    let objects = setting("KAUDIT_TEST_OBJECTS").unwrap_or(2_000);
    let scene = Scene::new(shared().await, "scale").await;
    scene.create((0..objects).map(|number| format!("old-{number}")), "yes").await;
    scene.create(["new".to_owned()], "").await;

    let kaudit = scene.start(&["--events-per-second=50"]).await;
    let pending = || kaudit.metric("kaudit_events_pending").unwrap_or_default();
    let half = objects / 2;
    wait_for("a backlog", || async { (pending() > half).then_some(()) }).await;
    let begin = Instant::now();
    scene.mark("new", Some("yes")).await;
    wait_for("the Event of the change", || async { (!scene.events(Some("new")).await.is_empty()).then_some(()) }).await;
    let took = begin.elapsed();
    assert!(pending() > half, "the backlog was still there");
    println!("change recorded after {took:?}, before {} others", pending());
    assert!(took < PROMPT, "{took:?}");

    // A violation that is resolved before its Event is written has none. If the Event is written meanwhile, try the
    // next object.
    until_evaluated(&kaudit, objects + 1).await;
    let mut fixed_late = Vec::new();
    let never_recorded = loop {
        let recorded = scene.recorded().await;
        let name =
            (0..objects).map(|number| format!("old-{number}")).find(|name| !recorded.contains_key(name)).unwrap();
        scene.mark(&name, None).await;
        let over = || async {
            let superseded = kaudit.metric("kaudit_events_superseded_total")? == 2;
            (superseded || scene.events(Some(&name)).await.len() == 2).then_some(superseded)
        };
        if wait_for("the fixed violation to be left out, or recorded", over).await {
            break name;
        }
        fixed_late.push(name);
    };

    // Killed and then stopped while Events are pending; the next run records the rest.
    kaudit.signal("KILL");
    drop(kaudit);
    let kaudit = scene.start(&["--events-per-second=20"]).await;
    wait_for("the backlog", || async { (kaudit.metric("kaudit_events_pending")? > half).then_some(()) }).await;
    wait_for("some of it to be recorded", || async { (scene.recorded().await.len() > 100).then_some(()) }).await;
    let begin = Instant::now();
    assert_eq!(kaudit.stop().await, Some(0));
    assert!(begin.elapsed() < FLUSH + PROMPT * 2, "{:?}", begin.elapsed());
    let (before, events_before) = (scene.recorded().await, scene.count().await);
    assert!(before.len() > 100 && before.len() < objects - 100, "{}", before.len());
    let kaudit = scene.start(&["--events-per-second=2000"]).await;
    until_evaluated(&kaudit, objects + 1).await;
    // Before it has read the earlier records it records nothing, and nothing is pending.
    wait_for("more to be recorded", || async { (scene.recorded().await.len() > before.len()).then_some(()) }).await;
    until_written(&kaudit).await;
    let recorded = scene.recorded().await;
    assert!(!recorded.contains_key(&never_recorded), "{:?}", recorded[&never_recorded]);
    let expected = |name| if fixed_late.contains(name) { &[APPEARED, RESOLVED][..] } else { &[APPEARED] };
    let wrong: Vec<_> = recorded.iter().filter(|(name, reasons)| **reasons != expected(name)).collect();
    assert!(wrong.is_empty(), "not recorded exactly once: {wrong:?}");
    assert_eq!(recorded.len(), objects, "all but one of the old, and the new");
    let written = kaudit.metric(r#"kaudit_recorder_writes_total{recorder="events"}"#);
    // On a busy machine there is also one that says that many are pending.
    let new = scene.count().await - events_before;
    assert_eq!(written, Some(new), "only what was not recorded before");
    assert_eq!(kaudit.stop().await, Some(0));

    restarts_are_silent(&scene, objects).await;
}

/// A run that finds no change since the previous one records nothing; otherwise only the difference.
async fn restarts_are_silent(scene: &Scene, objects: usize) {
    let old = async || {
        let mut recorded = scene.recorded().await;
        recorded.remove("new").unwrap();
        recorded
    };
    let before = old().await;
    restart(scene, "second", objects + 1).await;
    assert_eq!(old().await, before, "nothing is recorded again");

    let [fixed, deleted, changed]: [String; 3] = {
        let mut open = before.iter().filter(|(_, reasons)| **reasons == [APPEARED]).map(|(name, _)| name.clone());
        std::array::from_fn(|_| open.next().unwrap())
    };
    scene.mark(&fixed, None).await;
    scene.delete(&deleted).await;
    scene.mark(&changed, Some("otherwise")).await;
    restart(scene, "third", objects).await;
    let mut recorded = old().await;
    // Both are recorded at the same time.
    recorded.get_mut(&changed).unwrap().sort();
    let mut expected = before;
    expected.insert(fixed, vec![APPEARED.to_owned(), RESOLVED.to_owned()]);
    expected.insert(deleted, vec![APPEARED.to_owned(), RESOLVED.to_owned()]);
    expected.insert(changed, vec![RESOLVED.to_owned(), APPEARED.to_owned(), APPEARED.to_owned()]);
    assert_eq!(recorded, expected);
    // A third run records nothing more.
    let recorded = old().await;
    restart(scene, "fourth", objects).await;
    assert_eq!(old().await, recorded);
}

/// Runs kaudit until it has evaluated each of `objects` and recorded everything.
///
/// Earlier records are read while objects are evaluated, and possibly later than the last verdict: until then nothing
/// is recorded or pending. So each run gets a change to record, which shows that it records.
async fn restart(scene: &Scene, mark: &str, objects: usize) {
    let note = format!("marked/deny: marked {mark}");
    scene.mark("new", Some(mark)).await;
    let kaudit = scene.start(&[]).await;
    until_evaluated(&kaudit, objects).await;
    let recorded = || async {
        let events = scene.events(Some("new")).await;
        events.iter().any(|event| event.note.as_ref() == Some(&note)).then_some(())
    };
    wait_for("the change to be recorded", recorded).await;
    until_written(&kaudit).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test]
async fn earlier_records_may_be_read_after_all_evaluations() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let scene = Scene::new(plane, "late").await;
    scene.create(["mended", "back", "gone", "changed", "same"].map(str::to_owned), "yes").await;
    let way = Proxy::start(plane, |_| Act::Pass).await;
    let kaudit = scene.start_as(way.kubeconfig(), &[]).await;
    wait_for("Events", || async { (scene.count().await == 5).then_some(()) }).await;
    assert_eq!(kaudit.stop().await, Some(0));

    for name in ["mended", "back"] {
        scene.mark(name, None).await;
    }
    scene.delete("gone").await;
    scene.mark("changed", Some("otherwise")).await;
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", scene.namespace);
    let way = Proxy::holding(plane, &path).await;
    let kaudit = scene.start_as(way.kubeconfig(), &[]).await;
    until_evaluated(&kaudit, 4).await;
    // Changes continue, and are evaluated.
    scene.mark("back", Some("yes")).await;
    scene.delete("same").await;
    scene.create(["fresh".to_owned()], "yes").await;
    let open = || async {
        let results = results_in(&kaudit.status(), &scene.namespace);
        let names: Vec<_> = results.iter().map(|result| result["resource"]["name"].as_str().unwrap()).collect();
        (names == ["back", "changed", "fresh"]).then_some(())
    };
    wait_for("the verdicts", open).await;
    assert_eq!(
        (kaudit.metric("kaudit_events_pending"), scene.count().await),
        (Some(0), 5),
        "nothing is recorded before the earlier records are read"
    );

    way.release();
    let expected = BTreeMap::from([
        ("mended", vec![APPEARED, RESOLVED]),
        // It was open, and still is.
        ("back", vec![APPEARED]),
        ("gone", vec![APPEARED, RESOLVED]),
        ("changed", vec![APPEARED, APPEARED, RESOLVED]),
        ("same", vec![APPEARED, RESOLVED]),
        ("fresh", vec![APPEARED]),
    ]);
    let events = expected.values().flatten().count();
    wait_for("all to be recorded", || async { (scene.count().await >= events).then_some(()) }).await;
    assert_eq!(kaudit.stop().await, Some(0));
    let mut recorded = scene.recorded().await;
    // Both are recorded at the same time.
    recorded.get_mut("changed").unwrap().sort_by(|one, other| other.cmp(one));
    let recorded: BTreeMap<_, Vec<_>> =
        recorded.iter().map(|(name, reasons)| (&**name, reasons.iter().map(|reason| &**reason).collect())).collect();
    assert_eq!(recorded, expected);
}

#[tokio::test]
async fn recorded_events_are_configurable() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "choice").await;
    scene.create(["one".to_owned(), "two".to_owned()], "").await;
    let violate_and_fix = async |kaudit: &Running, name: &str, events: usize| {
        let until_failing = async |number: usize| {
            let seen = || async { (kaudit.status()["summary"]["fail"] == number).then_some(()) };
            wait_for("the verdict", seen).await;
        };
        scene.mark(name, Some("yes")).await;
        until_failing(1).await;
        // A violation that is resolved before its Event is written has none.
        wait_for("its Event", || async { (scene.events(Some(name)).await.len() == events).then_some(()) }).await;
        scene.mark(name, None).await;
        until_failing(0).await;
    };
    let kaudit = scene.start(&["--events=none"]).await;
    violate_and_fix(&kaudit, "one", 0).await;
    assert_eq!(kaudit.stop().await, Some(0));
    assert_eq!(scene.count().await, 0);
    let kaudit = scene.start(&["--events=appeared"]).await;
    violate_and_fix(&kaudit, "one", 1).await;
    assert_eq!(kaudit.stop().await, Some(0));
    assert_eq!(scene.recorded().await["one"], ["PolicyViolation"]);
    let kaudit = scene.start(&["--events=all"]).await;
    violate_and_fix(&kaudit, "two", 1).await;
    assert_eq!(kaudit.stop().await, Some(0));
    assert_eq!(scene.recorded().await["two"], ["PolicyViolation", "PolicyResolved"]);
}

#[tokio::test]
async fn periodic_audits_record_the_changes_between_them() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "cron").await;
    scene.create(["one".to_owned()], "yes").await;
    scene.create(["two".to_owned()], "yes").await;
    let path = scene.policies.path().to_str().unwrap();
    let arguments = ["check", "--once", "--record=events", "-o", "json", "--policies", path, "-n", &scene.namespace];
    let audit = async || {
        let ended = run(scene.user.kubeconfig_path(), &arguments).await;
        assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
        scene.recorded().await.into_values().flatten().collect::<Vec<_>>()
    };
    assert_eq!(audit().await, ["PolicyViolation", "PolicyViolation"]);
    assert_eq!(audit().await.len(), 2);
    scene.mark("two", None).await;
    assert_eq!(audit().await, ["PolicyViolation", "PolicyViolation", "PolicyResolved"]);
    assert_eq!(audit().await.len(), 3);
}

#[tokio::test]
async fn events_are_readable_by_people_and_programs() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let scene = Scene::new(plane, "golden").await;
    let kaudit = scene.start(&[]).await;
    scene.create(["one".to_owned()], "").await;
    scene.mark("one", Some("first")).await;
    let until = async |number: usize| {
        wait_for("Events", || async { (scene.count().await == number).then_some(()) }).await;
    };
    until(1).await;
    scene.mark("one", None).await;
    until(2).await;
    assert_eq!(kaudit.stop().await, Some(0));

    let table = plane.kubectl(&["-n", &scene.namespace, "get", "events", "--sort-by=.eventTime"]).await.unwrap();
    let rows: Vec<_> =
        table.lines().map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        rows,
        [
            "SEEN TYPE REASON OBJECT MESSAGE",
            "Warning PolicyViolation configmap/one marked/deny: marked first",
            "Normal PolicyResolved configmap/one resolved: marked/deny: marked first",
        ]
    );
    let events = scene.events(None).await;
    let known: Vec<Value> = events.iter().map(|event| json!(event.metadata.annotations)).collect();
    let id = known[0]["kaudit.dev/violation"].as_str().unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    let since: jiff::Timestamp = known[0]["kaudit.dev/since"].as_str().unwrap().parse().unwrap();
    assert!(since <= events[0].event_time.as_ref().unwrap().0);
    assert_eq!(known[0]["kaudit.dev/audit"], format!("{}/kaudit", scene.namespace));
    assert_eq!(known[0]["kaudit.dev/message"], "marked first");
    assert_eq!(known[0], known[1], "of the same violation");
}
