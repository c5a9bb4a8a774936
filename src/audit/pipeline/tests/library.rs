//! The shipped policies: what a workload shares with the objects that are generated from it is one violation.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{judge::sources::FileSource, rego::analysis::yaml};

/// A pod that violates each rule about pods. The API server injects more into a real one.
const POD: &str = r#"
metadata:
  labels: {app: web}
  annotations: {container.apparmor.security.beta.kubernetes.io/web: unconfined}
spec:
  hostNetwork: true
  hostPID: true
  hostIPC: true
  securityContext:
    runAsUser: 0
    sysctls: [{name: kernel.msgmax, value: "1"}]
    windowsOptions: {hostProcess: true}
    appArmorProfile: {type: Unconfined}
  volumes:
    - {name: node, hostPath: {path: /}}
    - {name: disk, nfs: {server: disk.example.com, path: /}}
  initContainers: [{name: init, image: "registry.example.com/init"}]
  containers:
    - name: web
      image: web:latest
      args: [--password=swordfish]
      env: [{name: DB_PASSWORD, value: swordfish}]
      volumeMounts: [{name: node, mountPath: /node}]
      ports: [{containerPort: 80, hostPort: 80}, {containerPort: 81, hostPort: 81}]
      livenessProbe: {httpGet: {host: example.com, port: 80}}
      securityContext:
        privileged: true
        runAsNonRoot: false
        procMount: Unmasked
        seccompProfile: {type: Unconfined}
        seLinuxOptions: {type: spc_t, user: root}
        capabilities: {add: [SYS_ADMIN, CHOWN]}
    - {name: log, image: "log:1"}
"#;

/// The same in a user namespace, where other rules hold.
const USER_NAMESPACE: &str = r#"
metadata: {labels: {app: web}}
spec: {hostUsers: false, containers: [{name: web, image: "web:1", securityContext: {procMount: Unmasked}}]}
"#;

/// Packages of rules about pods.
const PACKAGES: [&str; 8] = [
    "hardening",
    "images",
    "pod_security.baseline",
    "pod_security.restricted",
    "probes",
    "resources",
    "secrets",
    "service_accounts",
];

/// Rules of these packages that are not about pods, not about those of workloads, or only about those behind a Service.
const OTHERS: [&str; 4] = [
    "probes/warn_missing_readiness",
    "secrets/deny_config_map",
    "service_accounts/deny_powerful_pod",
    "service_accounts/warn_unused_token",
];

fn generated(group: &str, kind: &str, name: &str, owner: Option<&Object>, spec: &Value, metadata: &Value) -> Object {
    let kind = Kind::sample(group, &format!("{}s", kind.to_lowercase()), kind);
    let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "spec": spec});
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = "shop".into();
    object["metadata"]["uid"] = format!("{}/{name}", kind.kind).into();
    object["metadata"]["resourceVersion"] = "1".into();
    if let Some(owner) = owner {
        let ObjectKey { kind, name, .. } = &owner.key;
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": kind.api_version(), "kind": kind.kind,
            "name": name, "uid": owner.uid, "controller": true}]);
    }
    Received::read(&object.to_string()).into_object(&kind, Secrets::Redact, 0).unwrap()
}

/// Returns the Pod that admission makes of a template: with volumes and containers injected before and behind.
fn admitted(template: &Value) -> Value {
    let mut pod = template.clone();
    let mut insert = |list: &str, place: usize, item: Value| {
        let mut items = pod["spec"][list].as_array().cloned().unwrap_or_default();
        items.insert(place.min(items.len()), item);
        pod["spec"][list] = items.into();
    };
    let clean = json!({"name": "proxy", "image": "proxy@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "readinessProbe": {}, "livenessProbe": {}, "resources": {"limits": {"memory": "1Mi", "cpu": "1"}},
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"}}});
    insert("initContainers", 0, clean.clone());
    insert("containers", 0, clean);
    insert("volumes", 0, json!({"name": "injected", "emptyDir": {}}));
    insert("volumes", 9, json!({"name": "kube-api-access-x7k2p", "projected": {"sources": []}}));
    pod
}

/// Returns a workload of each kind, with what its controllers generate.
fn trees(pod: &Value) -> Vec<Vec<Object>> {
    let spec = |extra: Value| {
        let mut spec = extra;
        spec["template"] = pod.clone();
        spec
    };
    let metadata = || json!({"labels": {"app": "web"}});
    let pods = |owner: &Object, pod: &Value| -> Vec<Object> {
        let admitted = admitted(pod);
        let name = |end| format!("{}-{end}", owner.key.name);
        let made = |end| generated("", "Pod", &name(end), Some(owner), &admitted["spec"], &admitted["metadata"]);
        ["x7k2p", "b4c9d", "q1w2e"].into_iter().map(made).collect()
    };
    let mut trees = Vec::new();
    for kind in ["StatefulSet", "DaemonSet"] {
        let top = generated("apps", kind, "web", None, &spec(json!({"replicas": 3})), &metadata());
        trees.push([vec![top.clone()], pods(&top, pod)].concat());
    }
    let top = generated("apps", "Deployment", "web", None, &spec(json!({"replicas": 3})), &metadata());
    let replica_set =
        generated("apps", "ReplicaSet", "web-5d8f9c", Some(&top), &spec(json!({"replicas": 3})), &metadata());
    trees.push([vec![top, replica_set.clone()], pods(&replica_set, pod)].concat());
    let mut once = pod.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let job_spec = json!({"template": once});
    let top = generated("batch", "CronJob", "web", None, &json!({"jobTemplate": {"spec": job_spec}}), &metadata());
    let job = generated("batch", "Job", "web-29384756", Some(&top), &job_spec, &metadata());
    trees.push([vec![top, job.clone()], pods(&job, &once)].concat());
    trees
}

#[tokio::test]
async fn violations_of_a_workload_and_its_pods_are_one_for_every_shipped_rule() {
    let policies = Arc::new(PolicySet::load(&[FileSource::builtin()]).unwrap());
    let mut rules: BTreeSet<String> = BTreeSet::new();
    for policy in policies.policies.iter().filter(|policy| PACKAGES.contains(&&*policy.name)) {
        rules.extend(policy.rules.iter().map(|rule| format!("{}/{}", policy.name, rule.name)));
    }
    rules.retain(|rule| !OTHERS.contains(&rule.as_str()));
    for text in [POD, USER_NAMESPACE] {
        let pod: Value = yaml::from_str(text).unwrap();
        for tree in trees(&pod) {
            let live = Live::start(Arc::clone(&policies), SETTINGS);
            let scopes: BTreeMap<_, _> =
                tree.iter().map(|object| (object.key.kind.plural.clone(), &object.key.kind)).collect();
            let scope = |kind: &&Arc<Kind>| WatchScope { kind: Arc::clone(kind), namespace: None };
            let scopes: Vec<WatchScope> = scopes.values().map(scope).collect();
            for scope in &scopes {
                live.send(Change::Appeared(scope.clone())).await;
            }
            for object in tree.iter().rev() {
                live.seen(object.clone()).await;
            }
            for scope in scopes {
                live.send(Change::Synced(scope)).await;
            }
            live.send(Change::Discovered(Discovered::default())).await;
            let result = live.end().await;
            let top = &tree[0].key;
            for entry in &result.results {
                let is_listed = entry.covered_by.is_none();
                assert_eq!(is_listed, *entry.resource.name == *top.name, "{top}: {entry:#?}");
                rules.remove(&format!("{}/{}", entry.policy, entry.rule));
            }
            let listed = result.rolled_up().results.len();
            assert_eq!(result.summary.covered, listed * (tree.len() - 1), "{top}: each object has all of them");
        }
    }
    assert!(rules.is_empty(), "these rules were not violated: {rules:?}");
}
