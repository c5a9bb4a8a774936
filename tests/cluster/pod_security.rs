//! The shipped Pod Security policies agree with the API server's admission, on pods that differ in one field.
//!
//! The pods come from `pod_security.yaml`, which explains how they are generated. The server is queried by dry run, so
//! no pod is created.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use futures::{StreamExt, stream};
use http::Request;
use kaudit::rego::analysis::yaml;
use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::support::{run, wait_for};

const BASELINE: &str = "pod_security.baseline";
const RESTRICTED: &str = "pod_security.restricted";
const NAMES: [&str; 5] = ["by-pod", "by-container", "bare", "user-namespace", "windows"];
const LISTS: [&str; 3] = ["initContainers", "containers", EPHEMERAL];
/// Can't be created with its pod, only added later.
const EPHEMERAL: &str = "ephemeralContainers";
/// Number of concurrent requests.
const AT_ONCE: usize = 24;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbePlan {
    bases: BTreeMap<String, Value>,
    variations: Vec<Variation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variation {
    at: At,
    path: String,
    values: Vec<Value>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum At {
    Pod,
    Container,
}

/// One pod to be checked.
struct Probe {
    /// Name of the base pod.
    base: String,
    /// Readable description of the change.
    change: String,
    /// The pod; its name is that of the probe.
    pod: Value,
}

impl Probe {
    fn new(base: &str, change: String, mut pod: Value, number: usize) -> Self {
        pod["metadata"]["name"] = format!("probe-{number:04}").into();
        Self { base: base.to_owned(), change, pod }
    }

    fn name(&self) -> &str {
        self.pod["metadata"]["name"].as_str().unwrap()
    }

    fn has_ephemeral(&self) -> bool {
        self.pod["spec"].get(EPHEMERAL).is_some()
    }
}

/// Generates all pods of the plan, in a fixed order. They only have ephemeral containers if those differ, because these
/// need another request.
fn probes() -> Vec<Probe> {
    let plan: ProbePlan = yaml::from_str(include_str!("pod_security.yaml")).unwrap();
    assert_eq!(plan.bases.keys().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(NAMES));
    let mut probes: Vec<Probe> = Vec::new();
    for (name, base) in &plan.bases {
        let mut usual = base.clone();
        usual["spec"].as_object_mut().unwrap().remove(EPHEMERAL).unwrap();
        let mut add = |pod: &Value, change: String| {
            let number = probes.len();
            probes.push(Probe::new(name, change, pod.clone(), number));
        };
        add(&usual, "unchanged".to_owned());
        add(base, "unchanged, with an ephemeral container".to_owned());
        for Variation { at, path, values } in &plan.variations {
            let values = values.iter().map(|value| (value.to_string(), Some(value.clone())));
            let values = values.chain([("removed".to_owned(), None), ("null".to_owned(), Some(Value::Null))]);
            for (shown, value) in values {
                if *at == At::Pod {
                    let mut pod = usual.clone();
                    set(&mut pod, path, value.clone());
                    add(&pod, format!("{path} {shown}"));
                    continue;
                }
                for list in LISTS {
                    let mut pod = if list == EPHEMERAL { base.clone() } else { usual.clone() };
                    for container in pod["spec"][list].as_array_mut().unwrap() {
                        set(container, path, value.clone());
                    }
                    add(&pod, format!("{list}{path} {shown}"));
                }
            }
        }
    }
    probes
}

/// Sets or removes the value at a JSON pointer; creates missing parents.
fn set(root: &mut Value, pointer: &str, value: Option<Value>) {
    let (way, last) = pointer.rsplit_once('/').unwrap();
    let mut place = root;
    for step in way.split('/').skip(1) {
        place = object(place).entry(unescaped(step)).or_insert(Value::Null);
    }
    match value {
        Some(value) => object(place).insert(unescaped(last), value),
        None => object(place).remove(&unescaped(last)),
    };
}

fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().unwrap()
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// The server's response for a pod.
#[derive(Debug, Clone, PartialEq)]
enum AdmissionAnswer {
    Allowed,
    /// Denied by Pod Security, with its reasons.
    Denied(String),
    /// The pod is invalid, for example because of a setting that Windows does not have or probes of an ephemeral
    /// container; its security is not evaluated.
    Invalid,
}

impl AdmissionAnswer {
    /// Returns the violated controls, in the server's words.
    fn controls(&self) -> BTreeSet<String> {
        let Self::Denied(message) = self else { return BTreeSet::new() };
        // `…violates PodSecurity "restricted:latest": control (what, what), control (what (where))`
        let reasons =
            message.split_once("violates PodSecurity").and_then(|(_, rest)| rest.split_once("\": ")).unwrap().1;
        let mut depth = 0_usize;
        let outside: String = reasons
            .chars()
            .filter(|character| {
                let inside = depth > 0;
                match character {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ => return !inside,
                }
                false
            })
            .collect();
        // The server distinguishes singular and plural.
        outside.split(',').map(|control| control.trim().replace("profiles", "profile")).collect()
    }
}

/// Each rule and the server's name of its control, at the baseline and at the restricted level, which replaces some of
/// baseline's controls by stricter ones.
const CONTROLS: [(&str, &str, &str, &str); 19] = [
    (BASELINE, "deny_apparmor", "forbidden AppArmor profile", "forbidden AppArmor profile"),
    (BASELINE, "deny_capabilities", "non-default capabilities", "unrestricted capabilities"),
    (BASELINE, "deny_host_namespaces", "host namespaces", "host namespaces"),
    (BASELINE, "deny_host_path", "hostPath volumes", "restricted volume types"),
    (BASELINE, "deny_host_ports", "hostPort", "hostPort"),
    (BASELINE, "deny_host_process", "hostProcess", "hostProcess"),
    (BASELINE, "deny_privileged", "privileged", "privileged"),
    (BASELINE, "deny_probe_hosts", "probe or lifecycle host", "probe or lifecycle host"),
    (BASELINE, "deny_proc_mount", "procMount", "procMount"),
    (BASELINE, "deny_seccomp", "seccompProfile", "seccompProfile"),
    (BASELINE, "deny_selinux", "seLinuxOptions", "seLinuxOptions"),
    (BASELINE, "deny_sysctls", "forbidden sysctls", "forbidden sysctls"),
    (RESTRICTED, "deny_capabilities", "", "unrestricted capabilities"),
    (RESTRICTED, "deny_missing_seccomp", "", "seccompProfile"),
    (RESTRICTED, "deny_privilege_escalation", "", "allowPrivilegeEscalation != false"),
    (RESTRICTED, "deny_proc_mount", "", "procMount"),
    (RESTRICTED, "deny_root_user", "", "runAsUser=0"),
    (RESTRICTED, "deny_run_as_root", "", "runAsNonRoot != true"),
    (RESTRICTED, "deny_volume_types", "", "restricted volume types"),
];

/// Returns the server's name of a finding.
fn control(policy: &str, finding: &Finding, level: &str) -> String {
    let found = CONTROLS.iter().find(|(of, rule, ..)| *of == policy && *rule == finding.rule);
    let (_, _, baseline, restricted) = found.unwrap_or_else(|| panic!("{policy} {finding:?}"));
    (*if level == "baseline" { baseline } else { restricted }).to_owned()
}

/// Sends a pod to the server as a dry run; panics on unexpected responses.
async fn ask(client: &Client, method: &str, path: &str, pod: &Value) -> AdmissionAnswer {
    let request = Request::builder().method(method).uri(format!("{path}?dryRun=All"));
    let request = request.header("content-type", "application/json").body(serde_json::to_vec(pod).unwrap()).unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => AdmissionAnswer::Allowed,
        Err(kube::Error::Api(status)) => match status.code {
            403 if status.message.contains("violates PodSecurity") => AdmissionAnswer::Denied(status.message.clone()),
            400 | 422 => AdmissionAnswer::Invalid,
            _ => panic!("{method} {path}: {status:?}\n{pod}"),
        },
        Err(error) => panic!("{method} {path}: {error}\n{pod}"),
    }
}

/// Sets the level that a namespace enforces, and waits until it is effective.
async fn enforce(plane: &kaudit_controlplane::ControlPlane, client: &Client, namespace: &str, level: &str) {
    let label = format!("pod-security.kubernetes.io/enforce={level}");
    let version = "pod-security.kubernetes.io/enforce-version=latest";
    plane.kubectl(&["label", "namespace", namespace, &label, version]).await.unwrap();
    let insecure = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "insecure"},
        "spec": {"hostPID": true, "containers": [{"name": "web", "image": "registry.example.com/web:1"}]},
    });
    let level = format!("\"{level}:latest\"");
    wait_for(&format!("{namespace} to enforce {level}"), || async {
        match ask(client, "POST", &format!("/api/v1/namespaces/{namespace}/pods"), &insecure).await {
            AdmissionAnswer::Denied(message) => message.contains(&level).then_some(()),
            _ => None,
        }
    })
    .await;
}

/// Queries the server for every pod at one level; the answers are in the order of the probes.
async fn ask_all(plane: &kaudit_controlplane::ControlPlane, level: &str, probes: &[Probe]) -> Vec<AdmissionAnswer> {
    let client = plane.admin().unwrap();
    let namespace = plane.temp_namespace(&format!("pod-security-{level}")).await.unwrap();
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    // Pods that get ephemeral containers must exist, and could not be created later.
    for probe in probes.iter().filter(|probe| probe.change.starts_with("unchanged, with")) {
        let mut pod = running(probe);
        pod["spec"].as_object_mut().unwrap().remove(EPHEMERAL).unwrap();
        let request = Request::post(&pods).header("content-type", "application/json");
        client.request::<Value>(request.body(serde_json::to_vec(&pod).unwrap()).unwrap()).await.unwrap();
    }
    enforce(plane, &client, &namespace, level).await;
    let (client, pods) = (&client, &pods);
    stream::iter(probes)
        .map(|probe| async move {
            if probe.has_ephemeral() {
                // Not a patch, which would take null for a removal.
                let path = format!("{pods}/{}/ephemeralcontainers", probe.base);
                ask(client, "PUT", &path, &running(probe)).await
            } else {
                ask(client, "POST", pods, &probe.pod).await
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await
}

/// Returns the pod of a probe with the name of its base, on a node: ephemeral containers need a node.
fn running(probe: &Probe) -> Value {
    let mut pod = probe.pod.clone();
    pod["metadata"]["name"] = probe.base.clone().into();
    pod["spec"]["nodeName"] = "node".into();
    pod
}

/// One result of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    rule: String,
    severity: String,
    message: String,
}

/// The findings by policy and object; sorted.
type Findings = BTreeMap<(String, String), Vec<Finding>>;

/// Runs kaudit with the shipped policies on manifests; returns the findings by policy and object.
async fn judge(manifests: &[Value]) -> Findings {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("generated.json");
    let text: Vec<String> = manifests.iter().map(Value::to_string).collect();
    std::fs::write(&file, text.join("\n")).unwrap();
    let arguments =
        ["check", "--once", "-f", file.to_str().unwrap(), "-p", "policies/pod_security", "-p", "policies/lib"];
    let ended = run(Path::new("none"), &[&arguments[..], &["-o", "json"]].concat()).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    let result = ended.json();
    assert_eq!(result["complete"], true);
    assert_eq!(result["summary"]["objects"], manifests.len());
    let mut findings = Findings::new();
    for entry in result["results"].as_array().unwrap() {
        assert_eq!(entry["result"], "fail", "{entry}");
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        let finding = Finding { rule: text("/rule"), severity: text("/severity"), message: text("/message") };
        findings.entry((text("/policy"), text("/resource/name"))).or_default().push(finding);
    }
    for found in findings.values_mut() {
        found.sort();
    }
    findings
}

/// The number of each answer.
#[derive(Debug, Default)]
struct AnswerCounts {
    allowed: usize,
    denied: usize,
    invalid: usize,
}

impl AnswerCounts {
    fn compared(&self) -> usize {
        self.allowed + self.denied
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policies_agree_with_the_api_server() {
    if !kaudit_controlplane::require() {
        return;
    }
    let probes = probes();
    let manifests: Vec<Value> = probes.iter().map(|probe| probe.pod.clone()).collect();
    let findings = judge(&manifests).await;
    let plane = kaudit_controlplane::shared().await;
    for (level, policies) in [("baseline", &[BASELINE][..]), ("restricted", &[BASELINE, RESTRICTED])] {
        let answers = ask_all(plane, level, &probes).await;
        let (mut created, mut added) = (AnswerCounts::default(), AnswerCounts::default());
        let (mut seen, mut differences) = (BTreeSet::new(), Vec::new());
        for (probe, answer) in probes.iter().zip(answers) {
            let count = if probe.has_ephemeral() { &mut added } else { &mut created };
            match answer {
                AdmissionAnswer::Allowed => count.allowed += 1,
                AdmissionAnswer::Denied(_) => count.denied += 1,
                AdmissionAnswer::Invalid => {
                    count.invalid += 1;
                    continue;
                }
            }
            let of = |policy: &str| findings.get(&(policy.to_owned(), probe.name().to_owned())).into_iter().flatten();
            let found: Vec<_> = policies.iter().flat_map(|policy| of(policy).map(move |one| (*policy, one))).collect();
            let controls: BTreeSet<_> = found.iter().map(|(policy, one)| control(policy, one, level)).collect();
            seen.extend(answer.controls());
            // Without a violated control the pod must be allowed.
            if controls != answer.controls() {
                let Probe { base, change, pod } = probe;
                differences
                    .push(format!("{level}, {base}: {change}\n  server {answer:?}\n  kaudit {found:?}\n  {pod}"));
            }
        }
        eprintln!("{level}: created {created:?}, ephemeral containers added {added:?}");
        assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
        let known =
            CONTROLS.map(|(_, _, baseline, restricted)| if level == "baseline" { baseline } else { restricted });
        let known = known.into_iter().map(str::to_owned);
        let unseen: BTreeSet<_> = known.filter(|control| !control.is_empty() && !seen.contains(control)).collect();
        // Only invalid pods cover these: the first needs the host's network, the second a user namespace, with which
        // baseline allows it.
        let invalid = ["hostProcess", "procMount"].into_iter().take(if level == "baseline" { 2 } else { 1 });
        assert_eq!(unseen, invalid.map(str::to_owned).collect(), "{level}");
        // Pods that the server did not evaluate prove nothing, nor does a constant answer.
        for (count, compared, each) in [(created, CREATED, 300), (added, ADDED, 50)] {
            assert!(count.compared() >= compared, "{level}: {count:?}");
            assert!(count.allowed >= each && count.denied >= each, "{level}: {count:?}");
        }
    }
}

/// Minimum numbers of pods that the server must have evaluated on creation, and on adding ephemeral containers.
const CREATED: usize = 2_300;
const ADDED: usize = 450;

/// Every built-in kind with a pod template, and the path of the template.
const WORKLOADS: [(&str, &str, &str); 8] = [
    ("apps/v1", "DaemonSet", "/spec/template"),
    ("apps/v1", "Deployment", "/spec/template"),
    ("apps/v1", "ReplicaSet", "/spec/template"),
    ("apps/v1", "StatefulSet", "/spec/template"),
    ("batch/v1", "CronJob", "/spec/jobTemplate/spec/template"),
    ("batch/v1", "Job", "/spec/template"),
    ("v1", "PodTemplate", "/template"),
    ("v1", "ReplicationController", "/spec/template"),
];

/// Only every n-th pod is tested in each kind; not a divisor of the number of container lists.
const SAMPLE: usize = 13;

#[tokio::test]
async fn workloads_have_the_results_of_their_pods() {
    let pods: Vec<Value> = probes().into_iter().step_by(SAMPLE).map(|probe| probe.pod).collect();
    let mut manifests = pods.clone();
    for (api_version, kind, path) in WORKLOADS {
        manifests.extend(pods.iter().map(|pod| {
            let name = format!("{kind}-{}", pod["metadata"]["name"].as_str().unwrap());
            let mut workload = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
            let mut template = json!({"metadata": pod["metadata"], "spec": pod["spec"]});
            template["metadata"].as_object_mut().unwrap().remove("name");
            set(&mut workload, path, Some(template));
            workload
        }));
    }
    let findings = judge(&manifests).await;
    let (mut clean, mut flawed) = (0, 0);
    for pod in &pods {
        let name = pod["metadata"]["name"].as_str().unwrap();
        for policy in [BASELINE, RESTRICTED] {
            let found = findings.get(&(policy.to_owned(), name.to_owned()));
            *(if found.is_none() { &mut clean } else { &mut flawed }) += 1;
            for (_, kind, _) in WORKLOADS {
                assert_eq!(findings.get(&(policy.to_owned(), format!("{kind}-{name}"))), found, "{kind} of {pod}");
            }
        }
    }
    assert!(clean >= 100 && flawed >= 100, "{clean} clean, {flawed} flawed");
}
