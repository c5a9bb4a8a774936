//! The contents of objects as a real API server serves them, with defaults, status and `managedFields`.
//!
//! Each shape is a JSON object with gaps (see [`template`](super::template)). The containers and volumes, and therefore
//! the violations and their frequency, are those of the objects that the benchmark creates on a real server.

use kaudit_test_support::objects::{DOMAINS, Dice, ROLES, pod_spec};
use serde_json::{Map, Value, json};

use super::world::Kind;

/// Returns a shape of a kind. The same number always gives the same shape; the shapes of a Deployment, a `ReplicaSet`
/// and a Pod with the same number belong together.
pub(crate) fn shape(kind: Kind, number: u64) -> Value {
    let mut dice = Dice(number);
    let mut object = match kind {
        Kind::Namespace => json!({
            "metadata": {"name": "‹name›", "labels": {
                "kubernetes.io/metadata.name": "‹name›",
                "team": dice.one_of(&DOMAINS),
                "example.com/tier": "‹tier›",
            }},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }),
        Kind::Node => node(&mut dice),
        Kind::ServiceAccount => json!({"metadata": metadata(&mut dice, "‹name›")}),
        Kind::Service => service(&mut dice),
        Kind::ConfigMap => config_map(&mut dice),
        Kind::Secret => json!({
            "metadata": metadata(&mut dice, "‹name›"),
            "type": "Opaque",
            "data": (0..4 + dice.number(4))
                .map(|key| (format!("{}.key", DOMAINS[key]), format!("‹shared {} 160›", 20 + key).into()))
                .collect::<Map<_, _>>(),
        }),
        Kind::Deployment | Kind::ReplicaSet | Kind::Pod => workload(kind, dice),
    };
    complete(&mut object, kind);
    object
}

/// Adds the fields that the server adds to every object.
fn complete(object: &mut Value, kind: Kind) {
    let managers = match kind {
        Kind::Pod => [("kube-controller-manager", "spec"), ("kubelet", "status")],
        Kind::Node => [("kubelet", "spec"), ("kubelet", "status")],
        _ => [("helm", "spec"), ("kube-controller-manager", "status")],
    };
    let version = if matches!(kind, Kind::Deployment | Kind::ReplicaSet) { "apps/v1" } else { "v1" };
    let entries: Vec<Value> = managers
        .into_iter()
        .filter_map(|(manager, part)| {
            let is_status = part == "status";
            let of: Map<String, Value> =
                object.as_object()?.iter().filter(|(key, _)| (*key == "status") == is_status).map(owned).collect();
            let mut entry = json!({
                "manager": manager, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
                "time": if is_status { "‹status-time›" } else { "‹spec-time›" }, "fieldsV1": of,
            });
            if is_status {
                entry["subresource"] = "status".into();
            }
            (!of.is_empty()).then_some(entry)
        })
        .collect();
    let metadata = &mut object["metadata"];
    metadata["uid"] = "‹uid›".into();
    metadata["resourceVersion"] = "‹version›".into();
    metadata["creationTimestamp"] = "‹created›".into();
    if matches!(kind, Kind::Deployment | Kind::ReplicaSet | Kind::Pod) {
        metadata["generation"] = "‹#generation›".into();
    }
    if !matches!(kind, Kind::Namespace | Kind::Node) {
        metadata["namespace"] = "‹namespace›".into();
    }
    metadata["managedFields"] = entries.into();
}

/// Returns the `fieldsV1` of a field.
fn owned((key, value): (&String, &Value)) -> (String, Value) {
    let below = match value {
        Value::Object(fields) => fields.iter().map(owned).collect(),
        Value::Array(items) => items.iter().filter_map(item).collect(),
        _ => Map::new(),
    };
    (format!("f:{key}"), below.into())
}

/// Returns the `fieldsV1` of an item of a list by name or type; other lists are owned as a whole.
fn item(item: &Value) -> Option<(String, Value)> {
    let key = ["name", "type", "containerPort"].into_iter().find(|key| !item[*key].is_null())?;
    let mut fields: Map<String, Value> = item.as_object()?.iter().map(owned).collect();
    fields.insert(".".to_owned(), json!({}));
    Some((format!("k:{}", json!({key: item[key]})), fields.into()))
}

fn metadata(dice: &mut Dice, name: &str) -> Value {
    let mut labels = json!({
        "app.kubernetes.io/name": "‹app›",
        "app.kubernetes.io/instance": "‹app›-‹shared 9 2›",
        "app.kubernetes.io/part-of": dice.one_of(&DOMAINS),
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": format!("‹app›-{}.{}.0", dice.number(9), dice.number(40)),
        "owner": format!("team-{}", dice.one_of(&DOMAINS)),
    });
    if dice.chance(2)
        && let Some(labels) = labels.as_object_mut()
    {
        labels.remove("owner");
    }
    json!({
        "name": name,
        "labels": labels,
        "annotations": {
            "meta.helm.sh/release-name": "‹app›",
            "meta.helm.sh/release-namespace": "‹namespace›",
            "example.com/contact": format!("#{}-oncall", dice.one_of(&DOMAINS)),
            "example.com/commit": "‹shared 10 40›",
        },
    })
}

/// Returns a Pod, or a workload with a template for such Pods.
fn workload(kind: Kind, mut dice: Dice) -> Value {
    let mut metadata = metadata(&mut dice, "‹name›");
    let spec = defaulted(&mut dice);
    let labels = metadata["labels"].clone();
    let annotations = json!({
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "‹port 3›",
        "checksum/config": "‹shared 4 64›",
        "checksum/credentials": "‹shared 5 64›",
        "kubectl.kubernetes.io/restartedAt": "‹created›",
    });
    let with_hash = |labels: &Value| {
        let mut labels = labels.clone();
        labels["pod-template-hash"] = "‹template-hash›".into();
        labels
    };
    let owner = |kind: &str| {
        json!([{
            "apiVersion": "apps/v1", "kind": kind, "name": "‹owner-name›", "uid": "‹owner-uid›", "controller": true,
            "blockOwnerDeletion": true,
        }])
    };
    let mut template = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec});
    let mut selector = json!({"app.kubernetes.io/name": "‹app›"});
    match kind {
        Kind::Pod => {
            metadata["generateName"] = "‹owner-name›-".into();
            metadata["labels"] = with_hash(&labels);
            metadata["annotations"] = annotations;
            metadata["ownerReferences"] = owner("ReplicaSet");
            return scheduled(&metadata, spec);
        }
        Kind::ReplicaSet => {
            metadata["labels"] = with_hash(&labels);
            metadata["ownerReferences"] = owner("Deployment");
            metadata["annotations"]["deployment.kubernetes.io/desired-replicas"] = "‹replicas›".into();
            selector = with_hash(&selector);
            template["metadata"]["labels"] = with_hash(&labels);
        }
        _ => {}
    }
    metadata["annotations"]["deployment.kubernetes.io/revision"] = (1 + dice.number(9)).to_string().into();
    let mut spec = json!({"replicas": "‹#replicas›", "selector": {"matchLabels": selector}, "template": template});
    let mut status = json!({
        "observedGeneration": "‹#generation›", "replicas": "‹#replicas›", "readyReplicas": "‹#replicas›",
        "availableReplicas": "‹#replicas›",
    });
    if kind == Kind::Deployment {
        spec["revisionHistoryLimit"] = 3.into();
        spec["progressDeadlineSeconds"] = 600.into();
        spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}});
        status["updatedReplicas"] = "‹#replicas›".into();
        status["conditions"] = json!([
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
             "message": "Deployment has minimum availability.",
             "lastUpdateTime": "‹status-time›", "lastTransitionTime": "‹created›"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
             "message": "ReplicaSet of ‹name› has successfully progressed.",
             "lastUpdateTime": "‹status-time›", "lastTransitionTime": "‹created›"},
        ]);
    }
    json!({"metadata": metadata, "spec": spec, "status": status})
}

/// Returns the specification of a Pod as the server stores it.
fn defaulted(dice: &mut Dice) -> Value {
    let mut spec = pod_spec(dice, "‹app›");
    for (field, value) in [
        ("restartPolicy", "Always".into()),
        ("dnsPolicy", "ClusterFirst".into()),
        ("schedulerName", "default-scheduler".into()),
        ("serviceAccount", "‹app›".into()),
        ("enableServiceLinks", false.into()),
    ] {
        spec[field] = value;
    }
    let mut ports = 20;
    // A Pod has only some of the optional fields.
    for (field, kept, percent) in [("initContainers", 0, 70), ("containers", 1, 40)] {
        if let Some(containers) = spec[field].as_array_mut() {
            if dice.chance(percent) {
                containers.truncate(kept);
            }
            for container in containers {
                complete_container(container, &mut ports);
            }
        }
    }
    let image = spec["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
    if let Some((repository, tag)) = image.rsplit_once(':')
        && tag != "latest"
    {
        spec["containers"][0]["image"] = format!("{repository}:‹tag›").into();
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| value.as_array().is_none_or(|items| !items.is_empty()));
    }
    spec
}

/// Adds the defaults of a container. Its environment and ports differ from those of other containers, as in a real
/// cluster; `ports` counts them.
fn complete_container(container: &mut Value, ports: &mut usize) {
    container["terminationMessagePath"] = "/dev/termination-log".into();
    container["terminationMessagePolicy"] = "File".into();
    container["imagePullPolicy"] = "IfNotPresent".into();
    for field in ["readinessProbe", "livenessProbe"] {
        if let Some(probe) = container.get_mut(field).and_then(Value::as_object_mut) {
            for (field, value) in [("timeoutSeconds", 1), ("successThreshold", 1), ("failureThreshold", 3)] {
                probe.insert(field.to_owned(), value.into());
            }
            probe["httpGet"]["scheme"] = "HTTP".into();
        }
    }
    let Some(variables) = container.get_mut("env").and_then(Value::as_array_mut) else { return };
    let (most, mut number) = (variables.len() / 2, 0);
    variables.retain_mut(|variable| {
        number += 1;
        if let Some((url, _)) = variable["value"].as_str().and_then(|value| value.rsplit_once(':')) {
            variable["value"] = format!("{url}:‹port {ports}›/").into();
            *ports += 1;
        }
        number <= most || variable["name"].as_str().is_some_and(|name| name.ends_with("_PASSWORD"))
    });
}

/// Returns a Pod that is running.
fn scheduled(metadata: &Value, mut spec: Value) -> Value {
    spec["nodeName"] = "‹node›".into();
    spec["priority"] = 0.into();
    spec["preemptionPolicy"] = "PreemptLowerPriority".into();
    if let Some(tolerations) = spec["tolerations"].as_array_mut() {
        tolerations.extend(["not-ready", "unreachable"].map(|state| {
            let key = format!("node.kubernetes.io/{state}");
            json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
        }));
    }
    if let Some(volumes) = spec["volumes"].as_array_mut() {
        volumes.push(json!({"name": "kube-api-access-‹suffix›", "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3_607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ]}}));
    }
    let mut salt = 0;
    let mut statuses = |field: &str, state: &Value| -> Vec<Value> {
        let containers = spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
        let status = containers.map(|container| {
            if let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) {
                let path = "/var/run/secrets/kubernetes.io/serviceaccount";
                mounts.push(json!({"name": "kube-api-access-‹suffix›", "readOnly": true, "mountPath": path}));
            }
            let image = container["image"].as_str().unwrap_or_default();
            let repository = image.rsplit_once(':').map_or(image, |(repository, _)| repository);
            salt += 1;
            json!({
                "name": container["name"], "image": image, "imageID": format!("{repository}@sha256:‹shared {} 64›", 40 + salt),
                "containerID": format!("containerd://‹own {} 64›", 40 + salt), "ready": true,
                "restartCount": 0, "started": true, "lastState": {}, "state": state,
            })
        });
        status.collect()
    };
    let ended = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": "‹created›", "finishedAt": "‹created›",
        "containerID": "containerd://‹own 41 64›",
    }});
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let conditions = conditions.map(|name| {
        let since = if name.ends_with("Ready") { "‹status-time›" } else { "‹created›" };
        json!({"type": name, "status": "True", "lastProbeTime": null, "lastTransitionTime": since})
    });
    let mut status = json!({
        "phase": "Running", "qosClass": "Burstable", "startTime": "‹created›",
        "hostIP": "‹host-ip›", "hostIPs": [{"ip": "‹host-ip›"}], "podIP": "‹pod-ip›", "podIPs": [{"ip": "‹pod-ip›"}],
        "conditions": conditions,
        "containerStatuses": statuses("containers", &json!({"running": {"startedAt": "‹status-time›"}})),
    });
    let of_init = statuses("initContainers", &ended);
    if !of_init.is_empty() {
        status["initContainerStatuses"] = of_init.into();
    }
    json!({"metadata": metadata, "spec": spec, "status": status})
}

fn service(dice: &mut Dice) -> Value {
    let port = json!({"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"});
    json!({
        "metadata": metadata(dice, "‹name›"),
        "spec": {
            "type": if dice.chance(95) { "ClusterIP" } else { "LoadBalancer" },
            "clusterIP": "‹pod-ip›", "clusterIPs": ["‹pod-ip›"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "selector": {"app.kubernetes.io/name": "‹app›"}, "ports": [port],
        },
        "status": {"loadBalancer": {}},
    })
}

fn config_map(dice: &mut Dice) -> Value {
    let lines: Vec<_> = (60..70 + dice.number(8))
        .map(|line| {
            let (domain, role) = (dice.one_of(&DOMAINS), dice.one_of(&ROLES));
            format!("{domain}-{line}:\n  url: http://{role}.{domain}.svc.cluster.local:‹port {line}›/\n")
        })
        .collect();
    let data = json!({"application.yaml": lines.concat(), "version": "‹tag›", "token-audience": "‹shared 11 32›"});
    json!({"metadata": metadata(dice, "‹name›"), "data": data})
}

fn node(dice: &mut Dice) -> Value {
    let images: Vec<Value> = (0..25)
        .map(|image| {
            let repository = format!("registry.example.com/{}/{}", dice.one_of(&DOMAINS), dice.one_of(&ROLES));
            let names =
                [format!("{repository}@sha256:‹own {image} 64›"), format!("{repository}:{}.0", dice.number(90))];
            json!({"names": names, "sizeBytes": 10_000_000 + dice.number(90_000_000)})
        })
        .collect();
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(|name| {
        json!({
            "type": name, "status": if name == "Ready" { "True" } else { "False" }, "reason": format!("Kubelet{name}"),
            "message": format!("kubelet says {name}"), "lastHeartbeatTime": "‹status-time›", "lastTransitionTime": "‹created›",
        })
    });
    let capacity = json!({"cpu": "16", "memory": "65536000Ki", "pods": "110", "ephemeral-storage": "203056560Ki"});
    json!({
        "metadata": {
            "name": "‹name›",
            "labels": {
                "kubernetes.io/hostname": "‹name›", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "example.com/pool": dice.one_of(&DOMAINS), "topology.kubernetes.io/zone": format!("zone-{}", dice.number(3)),
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"podCIDR": "‹pod-ip›/24", "podCIDRs": ["‹pod-ip›/24"], "providerID": "example:///‹own 90 17›"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "‹pod-ip›"}, {"type": "Hostname", "address": "‹name›"}],
            "allocatable": capacity, "capacity": capacity, "conditions": conditions, "images": images,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10_250}},
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.34.2", "osImage": "Linux",
                "machineID": "‹own 91 32›", "systemUUID": "‹uid›", "bootID": "‹own 92 32›",
            },
        },
    })
}
