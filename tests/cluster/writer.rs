//! A writer that changes objects of many kinds at random while kaudit runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

const WRITES_AT_A_TIME: usize = 8;
/// Timeout of one write during a fault.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Denies objects with the label `bad`, and warns of objects with `meh`; the labels' values are in the messages.
pub(crate) const POLICY: &str = r#"
package labels
deny contains {"msg": sprintf("bad is %v", [input.metadata.labels.bad]), "details": {"kind": input.kind}}
warn_meh contains sprintf("meh is %v", [input.metadata.labels.meh])
"#;

/// Returns API version, kind, and the minimal object that the server accepts. All are namespaced and built in.
pub(crate) fn kinds() -> Vec<(&'static str, &'static str, Value)> {
    let labels = json!({"app": "a"});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "registry.example.com/c:1"}]}});
    let mut once = pod.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let workload = json!({"spec": {"selector": {"matchLabels": labels}, "template": pod}});
    vec![
        ("v1", "ConfigMap", json!({"data": {"k": "v"}})),
        ("v1", "Secret", json!({"stringData": {"k": "v"}})),
        ("v1", "Service", json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}]}})),
        ("v1", "ServiceAccount", json!({})),
        ("apps/v1", "Deployment", workload.clone()),
        ("apps/v1", "StatefulSet", workload.clone()),
        ("apps/v1", "DaemonSet", workload),
        ("batch/v1", "Job", json!({"spec": {"template": once}})),
        ("rbac.authorization.k8s.io/v1", "Role", json!({"rules": []})),
        ("networking.k8s.io/v1", "NetworkPolicy", json!({"spec": {"podSelector": {}}})),
        (
            "networking.k8s.io/v1",
            "Ingress",
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
        ),
        ("policy/v1", "PodDisruptionBudget", json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}})),
    ]
}

/// Writes objects of all its kinds, spread over its namespaces.
#[derive(Clone)]
pub(crate) struct RandomWriter {
    pub(crate) client: Client,
    pub(crate) kinds: Vec<(&'static str, &'static str, Value)>,
    pub(crate) namespaces: Vec<String>,
    /// Maximum number of objects.
    pub(crate) objects: usize,
}

impl RandomWriter {
    /// Creates a writer for `objects` objects of built-in kinds in `namespaces`.
    pub(crate) fn new(client: Client, namespaces: &[String], objects: usize) -> Self {
        Self { client, kinds: kinds(), namespaces: namespaces.to_vec(), objects }
    }

    fn api(&self, number: usize) -> Api<DynamicObject> {
        let (api_version, kind, _) = &self.kinds[number % self.kinds.len()];
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if *kind == "Gadget" {
            return Api::all_with(self.client.clone(), &resource);
        }
        // Not the same remainder as for the kind, or each kind would be in a few namespaces only.
        let namespace = &self.namespaces[number / self.kinds.len() % self.namespaces.len()];
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    /// Creates object `number`.
    pub(crate) async fn create(&self, number: usize, labels: &Value) -> kube::Result<()> {
        let (api_version, kind, rest) = &self.kinds[number % self.kinds.len()];
        let mut object = rest.clone();
        object["apiVersion"] = (*api_version).into();
        object["kind"] = (*kind).into();
        object["metadata"] = json!({"name": name(number), "labels": labels});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        match self.api(number).create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            created => created.map(drop),
        }
    }

    /// Creates all objects, every third in violation.
    pub(crate) async fn create_all(&self) {
        let labels = |number: usize| if number.is_multiple_of(3) { json!({"bad": "0"}) } else { json!({}) };
        let create = |number| async move { self.create(number, &labels(number)).await.unwrap() };
        stream::iter(0..self.objects).map(create).buffer_unordered(WRITES_AT_A_TIME).collect::<()>().await;
    }

    async fn label(&self, number: usize, labels: &Value) -> kube::Result<()> {
        let patch = json!({"metadata": {"labels": labels}});
        absent_is_fine(self.api(number).patch(&name(number), &PatchParams::default(), &Patch::Merge(&patch)).await)
    }

    async fn delete(&self, number: usize) -> kube::Result<()> {
        absent_is_fine(self.api(number).delete(&name(number), &DeleteParams::background()).await)
    }

    /// Performs a random operation on a random object.
    pub(crate) async fn step(&self, mut random: fastrand::Rng) -> kube::Result<()> {
        let number = random.usize(..self.objects);
        let value = random.u8(..3).to_string();
        match random.u8(..10) {
            0 | 1 => self.create(number, &json!({"bad": value})).await,
            2..=4 => self.label(number, &json!({"bad": value})).await,
            5 => self.label(number, &json!({"meh": value})).await,
            6 | 7 => self.label(number, &json!({"bad": null, "meh": null})).await,
            8 => self.delete(number).await,
            _ => {
                self.delete(number).await?;
                self.create(number, &json!({"bad": value, "meh": value})).await
            }
        }
    }

    /// Writes until stopped, with this rate per second. Failed writes are expected during faults.
    pub(crate) fn go_on(self, per_second: u64, mut random: fastrand::Rng) -> Writing {
        let (stop, stopped) = watch::channel(false);
        let written = Arc::new(AtomicUsize::new(0));
        let counter = written.clone();
        let mut beat = tokio::time::interval(Duration::from_millis(1_000 / per_second));
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let task = tokio::spawn(async move {
            let steps = stream::poll_fn(|context| {
                std::task::ready!(beat.poll_tick(context));
                std::task::Poll::Ready((!*stopped.borrow()).then(|| random.fork()))
            });
            let write = |random| async {
                if matches!(timeout(WRITE_TIMEOUT, self.step(random)).await, Ok(Ok(()))) {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            };
            steps.map(write).buffer_unordered(WRITES_AT_A_TIME).collect::<()>().await;
        });
        Writing { stop, written, task }
    }
}

fn absent_is_fine<T>(done: kube::Result<T>) -> kube::Result<()> {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done.map(drop),
    }
}

fn name(number: usize) -> String {
    format!("o{number}")
}

/// A running writer.
pub(crate) struct Writing {
    stop: watch::Sender<bool>,
    written: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Writing {
    /// Returns the number of successful writes so far.
    pub(crate) fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// Stops it and waits for the writes in progress; returns the number of successful writes.
    pub(crate) async fn stop(self) -> usize {
        self.stop.send_replace(true);
        self.task.await.unwrap();
        self.written.load(Ordering::Relaxed)
    }
}
