//! The effect of a hostile editor of one namespace on kaudit, under the memory limit of the chart.

use std::{fs, process::Command};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kaudit_controlplane::{ControlPlane, Options, require};
use kaudit_test_support::container::{CHART_LIMIT, Container};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::support::{Running, kaudit, wait_for};

/// Number of `ConfigMaps` created before kaudit starts, and again while it runs: each time more than the limit per
/// namespace.
const CONFIG_MAPS: usize = 110;
/// Almost the maximum size of data and annotations that an API server accepts.
const DATA_BYTES: usize = 1_040_000;
const ANNOTATION_BYTES: usize = 260_000;
/// Number of workloads whose results would exceed the limit.
const WORKLOADS: usize = 400;
const CONTAINERS: usize = 60;

/// Returns incompressible texts of this size.
fn noise(bytes: usize, texts: usize) -> impl Fn(usize) -> String {
    let all: String = std::iter::repeat_with(fastrand::alphanumeric).take(bytes + texts).collect();
    move |number| all[number..number + bytes].to_owned()
}

async fn create(client: &Client, resource: (&str, &str, &str), objects: impl Iterator<Item = Value>) {
    let (group, version, kind) = resource;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "flood", &resource);
    let create = |object: Value| {
        let api = api.clone();
        async move { api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await }
    };
    stream::iter(objects.map(create)).buffer_unordered(8).try_for_each(|_| async { Ok(()) }).await.unwrap();
}

async fn fill(client: &Client, round: &str) {
    let (annotation, data) = (noise(ANNOTATION_BYTES, CONFIG_MAPS), noise(DATA_BYTES, CONFIG_MAPS));
    let config_maps = (0..CONFIG_MAPS).map(|number| {
        let metadata = json!({"name": format!("{round}-{number}"), "annotations": {"text": annotation(number)}});
        json!({"metadata": metadata, "data": {"text": data(number)}})
    });
    create(client, ("", "v1", "ConfigMap"), config_maps).await;
    let workloads = (0..WORKLOADS).map(|number| {
        let labels = json!({"app": format!("{round}-{number}")});
        let containers: Vec<Value> =
            (0..CONTAINERS).map(|number| json!({"name": format!("c{number}"), "image": "example.com/app"})).collect();
        json!({
            "metadata": {"name": format!("{round}-{number}")},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
        })
    });
    create(client, ("apps", "v1", "Deployment"), workloads).await;
}

/// Returns a command that runs another one, without arguments yet, in a container.
fn contained(container: &Container, plain: &Command) -> Command {
    let mut command = container.command(&plain.get_program().to_string_lossy());
    for (key, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command.current_dir(plain.get_current_dir().unwrap());
    command
}

/// Returns the current and peak memory of a process.
fn memory(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().filter(|line| line.starts_with("VmHWM:") || line.starts_with("VmRSS:")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_namespace_does_not_affect_others() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.admin().unwrap();
    plane.kubectl(&["create", "namespace", "flood"]).await.unwrap();
    plane.kubectl(&["create", "namespace", "calm"]).await.unwrap();
    let pod = |name: &str| {
        let spec = json!({"hostNetwork": true, "containers": [{"name": "a", "image": "example.com/app:1"}]});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "calm"}, "spec": spec})
    };
    plane.apply(&pod("first").to_string()).await.unwrap();
    fill(&client, "before").await;
    let container = Container::new(CHART_LIMIT).ok();
    let plain = kaudit(&plane.kubeconfig(), &[]);
    let command =
        container.as_ref().map_or_else(|| kaudit(&plane.kubeconfig(), &[]), |container| contained(container, &plain));
    let kaudit = Running::launch(command, &["--policies=builtin"]).await;
    kaudit.ready().await;
    let until_found = async |name: &str| {
        let what = format!("an Event about {name}; log:\n{}", kaudit.log());
        wait_for(&what, || async {
            let field = format!("--field-selector=regarding.name={name}");
            let events = plane.kubectl(&["get", "events.events.k8s.io", "-n", "calm", &field, "-o", "name"]).await;
            Some(()).filter(|()| !events.unwrap().is_empty())
        })
        .await;
        println!("{name}: {}", memory(kaudit.pid()));
    };
    until_found("first").await;
    fill(&client, "after").await;
    plane.apply(&pod("second").to_string()).await.unwrap();
    until_found("second").await;
    let unread = kaudit.metric("kaudit_unreadable_objects_total{group=\"\",resource=\"configmaps\"}");
    assert!(unread.is_some_and(|number| number > CONFIG_MAPS), "{unread:?}");
}
