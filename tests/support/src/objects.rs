//! The objects that the benchmark fills the cluster with: varied Pods and Deployments of about 6 KB.
//!
//! The same number always gives the same object, so runs can be compared.

#![expect(clippy::cast_possible_truncation, reason = "random numbers are cut to a small range")]

use serde_json::{Value, json};

/// The number of namespaces over which the objects are spread.
pub const NAMESPACES: usize = 50;

/// Returns the name of a namespace.
pub fn namespace(number: usize) -> String {
    format!("team-{:02}", number % NAMESPACES)
}

/// The API path of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Pods.
    Pod,
    /// Deployments.
    Deployment,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Pod, Self::Deployment];

    /// Returns its API group.
    pub fn group(self) -> &'static str {
        match self {
            Self::Pod => "",
            Self::Deployment => "apps",
        }
    }

    /// Returns its plural.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Deployment => "deployments",
        }
    }

    /// Returns the path of its list, in one namespace or in all.
    pub fn path(self, namespace: Option<&str>) -> String {
        let (api, plural) = match self {
            Self::Pod => ("/api/v1", self.plural()),
            Self::Deployment => ("/apis/apps/v1", self.plural()),
        };
        namespace
            .map_or_else(|| format!("{api}/{plural}"), |namespace| format!("{api}/namespaces/{namespace}/{plural}"))
    }
}

/// Returns the lists that hold all objects: whole ones for one connection, one for each namespace for several.
pub fn lists(connections: usize) -> Vec<String> {
    if connections == 1 {
        return Kind::ALL.map(|kind| kind.path(None)).to_vec();
    }
    let namespaces = (0..NAMESPACES).map(namespace);
    namespaces.flat_map(|name| Kind::ALL.map(|kind| kind.path(Some(&name)))).collect()
}

/// Returns the object with this number; there are two Pods for each Deployment.
pub fn object(number: usize) -> (Kind, Value) {
    let mut dice = Dice(number as u64);
    let app = format!("{}-{}", dice.one_of(&DOMAINS), dice.one_of(&ROLES));
    let mut labels = json!({
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/instance": format!("{app}-{}", dice.number(100)),
        "app.kubernetes.io/version": format!("{}.{}.{}", dice.number(5), dice.number(30), dice.number(10)),
        "app.kubernetes.io/part-of": dice.one_of(&DOMAINS),
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": format!("{app}-{}.{}.0", dice.number(9), dice.number(40)),
        "owner": format!("team-{}", dice.one_of(&DOMAINS)),
    });
    if dice.chance(2)
        && let Some(labels) = labels.as_object_mut()
    {
        labels.remove("owner");
    }
    let metadata = json!({
        "name": format!("{app}-{number:05}"),
        "namespace": namespace(number),
        "labels": labels,
        "annotations": annotations(&mut dice, &app),
    });
    let spec = pod_spec(&mut dice, &app);
    if number % 3 != 2 {
        return (Kind::Pod, json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}));
    }
    let selector = json!({"app.kubernetes.io/name": app, "number": number.to_string()});
    let template = json!({
        "metadata": {"labels": selector, "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"}},
        "spec": spec,
    });
    let spec = json!({
        "replicas": 1 + dice.number(6),
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": selector},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
        "template": template,
    });
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
    (Kind::Deployment, deployment)
}

/// How many Pods the `ReplicaSets` have, repeated.
const REPLICAS: [usize; 10] = [1, 1, 2, 3, 3, 3, 5, 8, 18, 500];

/// Returns a running Pod of a `ReplicaSet`; Pods of the same `ReplicaSet` have consecutive numbers.
pub fn replica(number: usize) -> (Kind, Value) {
    let (cycle, mut rest) = (number / REPLICAS.iter().sum::<usize>(), number % REPLICAS.iter().sum::<usize>());
    let mut set = 0;
    while rest >= REPLICAS[set] {
        rest -= REPLICAS[set];
        set += 1;
    }
    // Each third object is not a Pod.
    let (kind, mut pod) = object(3 * (cycle * REPLICAS.len() + set));
    let mut dice = Dice(!(number as u64));
    let owner = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let metadata = &mut pod["metadata"];
    metadata["name"] = format!("{owner}-{:05x}", dice.roll() % (1 << 20)).into();
    metadata["generateName"] = format!("{owner}-").into();
    metadata["uid"] = format!("{:016x}", dice.roll()).into();
    metadata["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]);
    let ip = format!("10.{}.{}.{}", dice.number(256), dice.number(256), dice.number(256));
    pod["status"] = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]});
    let spec = &mut pod["spec"];
    spec["nodeName"] = format!("node-{:03}", dice.number(200)).into();
    // The API server adds this to a Pod with a token.
    spec.as_object_mut().and_then(|spec| spec.remove("automountServiceAccountToken"));
    let token = format!("kube-api-access-{:05x}", dice.roll() % (1 << 20));
    if let Some(volumes) = spec["volumes"].as_array_mut() {
        volumes.push(json!({"name": token, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}));
    }
    let containers = spec["containers"].as_array_mut().into_iter().flatten();
    for mounts in containers.filter_map(|container| container["volumeMounts"].as_array_mut()) {
        mounts.push(
            json!({"name": token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}),
        );
    }
    (kind, pod)
}

fn annotations(dice: &mut Dice, app: &str) -> Value {
    json!({
        "meta.helm.sh/release-name": app,
        "meta.helm.sh/release-namespace": dice.one_of(&DOMAINS),
        "prometheus.io/scrape": "true",
        "prometheus.io/port": (9_000 + dice.number(100)).to_string(),
        "checksum/config": format!("{:016x}{:016x}{:016x}{:016x}", dice.roll(), dice.roll(), dice.roll(), dice.roll()),
        "example.com/contact": format!("#{}-oncall", dice.one_of(&DOMAINS)),
        "example.com/runbook": format!("https://runbooks.example.com/{}/{app}/{}", dice.one_of(&DOMAINS), dice.number(90)),
        "example.com/description": description(dice),
        "example.com/commit": format!("{:016x}{:016x}", dice.roll(), dice.roll()),
    })
}

fn description(dice: &mut Dice) -> String {
    let sentences = (0..12).map(|_| {
        let (from, to) = (dice.one_of(&DOMAINS), dice.one_of(&DOMAINS));
        format!("Takes what {from} says to the {} and asks {to} by its {}. ", dice.one_of(&ROLES), dice.one_of(&ROLES))
    });
    sentences.collect()
}

/// Returns the `spec` of a Pod of this app.
pub fn pod_spec(dice: &mut Dice, app: &str) -> Value {
    let mut volumes = vec![
        json!({"name": "config", "configMap": {"name": format!("{app}-config"), "defaultMode": 420}}),
        json!({"name": "credentials", "secret": {"secretName": format!("{app}-credentials"), "optional": true}}),
        json!({"name": "cache", "emptyDir": {"sizeLimit": format!("{}Mi", 64 * (1 + dice.number(8)))}}),
        json!({"name": "tmp", "emptyDir": {}}),
    ];
    if dice.chance(1) {
        volumes.push(json!({"name": "host", "hostPath": {"path": format!("/var/lib/{app}"), "type": ""}}));
    }
    let containers = [container(dice, app, "main", 8), container(dice, app, dice.clone().one_of(&SIDECARS), 3)];
    json!({
        "serviceAccountName": app,
        "automountServiceAccountToken": false,
        "hostNetwork": dice.chance(1),
        "terminationGracePeriodSeconds": 30 + dice.number(60),
        "nodeSelector": {"kubernetes.io/os": "linux", "example.com/pool": dice.one_of(&DOMAINS)},
        "securityContext": {"runAsNonRoot": !dice.chance(3), "fsGroup": 1_000 + dice.number(9_000)},
        "tolerations": [
            {"key": "example.com/dedicated", "operator": "Equal", "value": dice.one_of(&DOMAINS), "effect": "NoSchedule"},
        ],
        "initContainers": [{
            "name": "migrate",
            "image": image(dice, "migrate"),
            "command": ["/bin/migrate", "--wait", format!("--database={app}")],
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        }],
        "containers": containers,
        "volumes": volumes,
    })
}

fn container(dice: &mut Dice, app: &str, name: &str, variables: usize) -> Value {
    let mut environment: Vec<Value> = (0..variables)
        .map(|number| {
            let key = format!("{}_{}", dice.one_of(&DOMAINS).to_uppercase(), dice.one_of(&SETTINGS));
            let name = format!("{key}_{number}");
            match dice.number(6) {
                0 => json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": format!("{app}-config"), "key": key}}}),
                1 => json!({"name": name, "valueFrom": {"secretKeyRef": {"name": format!("{app}-credentials"), "key": key}}}),
                _ => {
                    let host = format!("http://{}.{}.svc.cluster.local", dice.one_of(&ROLES), dice.one_of(&DOMAINS));
                    json!({"name": name, "value": format!("{host}:{}/", 8_000 + dice.number(2_000))})
                }
            }
        })
        .collect();
    if dice.chance(1) {
        environment.push(json!({"name": "DATABASE_PASSWORD", "value": format!("{:x}", dice.roll())}));
    }
    let port = 8_000 + dice.number(1_000);
    let probe = |path: &str, seconds: usize| json!({"httpGet": {"path": path, "port": port}, "periodSeconds": seconds});
    let mut resources = json!({"requests": {"cpu": format!("{}m", 50 * (1 + dice.number(20))), "memory": "128Mi"}});
    if !dice.chance(3) {
        resources["limits"] = json!({"memory": format!("{}Mi", 128 * (1 + dice.number(16)))});
    }
    let mut container = json!({
        "name": name,
        "image": image(dice, name),
        "args": [format!("--listen=:{port}"), format!("--log-level={}", dice.one_of(&["info", "warn", "debug"]))],
        "ports": [{"name": "http", "containerPort": port}],
        "env": environment,
        "resources": resources,
        "readinessProbe": probe("/ready", 5),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app", "readOnly": true},
            {"name": "credentials", "mountPath": "/etc/credentials", "readOnly": true},
            {"name": "cache", "mountPath": format!("/var/cache/{app}")},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    });
    if !dice.chance(3) {
        container["livenessProbe"] = probe("/live", 10);
    }
    container
}

fn image(dice: &mut Dice, name: &str) -> String {
    let registry = if dice.chance(2) { "docker.io/library" } else { "registry.example.com" };
    let repository = format!("{registry}/{}/{}-{name}", dice.one_of(&DOMAINS), dice.one_of(&ROLES));
    if dice.chance(2) {
        return format!("{repository}:latest");
    }
    format!("{repository}:{}.{}.{}", dice.number(5), dice.number(30), dice.number(10))
}

/// The first parts of names of apps.
pub const DOMAINS: [&str; 16] = [
    "checkout", "catalog", "search", "billing", "shipping", "pricing", "identity", "reviews", "basket", "returns",
    "loyalty", "media", "email", "ledger", "fraud", "stock",
];
/// The last parts of names of apps.
pub const ROLES: [&str; 10] =
    ["api", "worker", "web", "cron", "gateway", "db", "cache", "queue", "importer", "exporter"];
const SIDECARS: [&str; 5] = ["proxy", "metrics", "logs", "sync", "auth"];
const SETTINGS: [&str; 8] = ["URL", "TIMEOUT", "REGION", "TOPIC", "BUCKET", "ENDPOINT", "LIMIT", "MODE"];

/// Reproducible random numbers (`SplitMix64`).
#[derive(Clone)]
pub struct Dice(
    /// The seed, then the state.
    pub u64,
);

impl Dice {
    /// Returns the next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a limit.
    pub fn number(&mut self, below: u32) -> usize {
        (self.roll() % u64::from(below)) as usize
    }

    /// Returns true in this percentage of cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.number(100) < percent
    }

    /// Returns one of some words.
    pub fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[(self.roll() % words.len() as u64) as usize]
    }
}
