//! Reports contain all open violations, whatever crashes meanwhile, and unchanged reports are not written again.
//!
//! All tests use a control plane with both published report APIs, one test at a time: a kaudit for the whole cluster
//! keeps the reports of all namespaces.

mod applied;
mod characters;
mod freshness;
mod memory;
mod owners;
mod policy_reporter;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use kaudit_controlplane::{AuditPosition, AuditRecord, ControlPlane, Options, User, require};
use serde_json::{Value, json};
use tokio::sync::{MutexGuard, OnceCell};

use crate::{
    kubectl::until_condition,
    support::{
        Ended, Running, crd, establish, establish_audits, establish_exceptions, marked, policies, results_in, run,
        wait_for,
    },
};

pub(crate) const OPENREPORTS: &str = include_str!("../../charts/kaudit/files/openreports.yaml");
const WGPOLICY: &str = include_str!("reports/wgpolicy.yaml");
const GROUPS: [&str; 2] = ["openreports.io", "wgpolicyk8s.io"];
pub(crate) const NAMES: [[&str; 2]; 2] = [
    ["reports.openreports.io", "clusterreports.openreports.io"],
    ["policyreports.wgpolicyk8s.io", "clusterpolicyreports.wgpolicyk8s.io"],
];
/// Maximum size of a report, in bytes of JSON without fields added by the server.
const LARGEST: usize = 64 * 1024;

/// How often kaudit checks whether others changed its reports.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Returns a control plane with both report APIs and the kind `PolicyException`; namespaces can be deleted. Each test
/// has it exclusively; there are two to reduce waiting.
pub(crate) async fn plane() -> MutexGuard<'static, ControlPlane> {
    static PLANES: [OnceCell<tokio::sync::Mutex<ControlPlane>>; 2] = [OnceCell::const_new(), OnceCell::const_new()];
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let start = || async {
        let options = Options { controller_manager: true, ..Options::default() };
        let plane = ControlPlane::start(options).await.unwrap();
        establish(&plane, OPENREPORTS, &NAMES[0]).await;
        establish(&plane, WGPOLICY, &NAMES[1]).await;
        establish_exceptions(&plane).await;
        tokio::sync::Mutex::new(plane)
    };
    let next = CALLS.fetch_add(1, Ordering::Relaxed) % PLANES.len();
    PLANES[next].get_or_init(start).await.lock().await
}

/// Returns a policy that denies marked objects, warns if the mark is `warn`, and fails if it is `broken`.
fn policy(mark: &str) -> String {
    format!(
        r#"# METADATA
# scope: package
# custom:
#   category: Labels
package marked

# METADATA
# custom:
#   severity: high
deny contains msg if {{
    value := input.metadata.labels["{mark}"]
    not value in {{"warn", "broken"}}
    msg := sprintf("marked %v", [value])
}}

warn contains "marked to be warned of" if input.metadata.labels["{mark}"] == "warn"

deny_slowly contains msg if {{
    input.metadata.labels["{mark}"] == "broken"
    some number in numbers.range(1, 100000000)
    msg := sprintf("%v", [number])
}}
"#
    )
}

async fn list(plane: &ControlPlane, kind: &str) -> Vec<Value> {
    let list = plane.kubectl(&["get", kind, "-A", "-o", "json", "--show-managed-fields"]).await.unwrap();
    let mut list: Value = serde_json::from_str(&list).unwrap();
    list["items"].as_array_mut().unwrap().drain(..).collect()
}

/// Returns the reports of a namespace.
pub(crate) async fn reports_in(plane: &ControlPlane, kind: &str, namespace: &str) -> Vec<Value> {
    let reports = list(plane, kind).await;
    reports.into_iter().filter(|report| report["metadata"]["namespace"] == namespace).collect()
}

/// Returns the results of reports by id.
pub(crate) fn results(reports: &[Value]) -> BTreeMap<String, Value> {
    let mut results = BTreeMap::new();
    for result in reports.iter().flat_map(|report| report["results"].as_array().unwrap()) {
        let id = result["properties"]["resultID"].as_str().unwrap().to_owned();
        let doubled = results.insert(id, result.clone());
        assert!(doubled.is_none(), "twice: {result}");
    }
    results
}

fn messages(reports: &[Value]) -> BTreeSet<String> {
    let text = |result: &Value| {
        format!("{} {}", result["resources"][0]["name"].as_str().unwrap(), result["message"].as_str().unwrap())
    };
    results(reports).values().map(text).collect()
}

async fn until_messages(plane: &ControlPlane, namespace: &str, wanted: &[&str]) -> Vec<Value> {
    let wanted: BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
    wait_for(&format!("{wanted:?} in the reports"), || async {
        let reports = reports_in(plane, NAMES[0][0], namespace).await;
        (messages(&reports) == wanted).then_some(reports)
    })
    .await
}

async fn mark(plane: &ControlPlane, namespace: &str, name: &str, value: &str) {
    let object = marked("v1", "ConfigMap", namespace, name, namespace).replace("\"yes\"", &format!("{value:?}"));
    plane.apply(&object).await.unwrap();
}

/// Returns kaudit's write requests to report APIs since a position in the audit log.
pub(crate) fn writes_since(plane: &ControlPlane, position: AuditPosition) -> Vec<AuditRecord> {
    let mut records = plane.audit_log_since(position).unwrap();
    records.retain(|record| {
        GROUPS.contains(&record.api_group.as_str())
            && !matches!(record.verb.as_str(), "get" | "list" | "watch")
            && !record.user_agent.starts_with("kubectl")
            && !record.user_agent.starts_with("kube-controller-manager")
    });
    records
}

/// Removes the differences between runs, for example namespace and directory.
fn normal(report: &Value, namespace: &str, directory: &str) -> Value {
    let mut report = report.clone();
    let metadata = report["metadata"].as_object_mut().unwrap();
    for added in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"] {
        metadata.remove(added);
    }
    let results = report["results"].as_array_mut().unwrap();
    for result in results.iter_mut() {
        assert_eq!(result["properties"]["resultID"].as_str().unwrap().len(), 32);
        result["properties"]["resultID"] = "ID".into();
        assert!(result["timestamp"]["seconds"].as_i64().unwrap() > 1_700_000_000);
        result["timestamp"] = json!({"seconds": "SECONDS", "nanos": "NANOS"});
    }
    results.sort_by_key(|result| result["resources"][0]["name"].as_str().unwrap_or_default().to_owned());
    let mut text =
        serde_json::to_string(&report).unwrap().replace(namespace, "NAMESPACE").replace(directory, "DIRECTORY");
    let uids = text.split('"').filter(|part| part.len() == 36 && part.matches('-').count() == 4);
    let uids: BTreeSet<String> = uids.map(str::to_owned).collect();
    for uid in uids {
        text = text.replace(&uid, "UID");
    }
    serde_json::from_str(&text).unwrap()
}

/// Returns kubectl's table of reports without the age; the namespace and uids keep their length.
async fn shown_by_kubectl(plane: &ControlPlane, kind: &str, namespace: &str) -> String {
    let command = ["get", kind, "-A", "-o", "wide"];
    let table = plane.kubectl(&command).await.unwrap();
    let age = table.find("AGE").unwrap();
    let mut lines: Vec<String> = table
        .lines()
        .map(|line| {
            let uids = line.split([' ', '.']).filter(|part| part.len() == 36);
            let line = uids.fold(line[..age].to_owned(), |line, uid| line.replace(uid, &format!("{:36}", "UID")));
            let placeholder = format!("{:1$}", "NAMESPACE", namespace.len());
            line.replace(namespace, &placeholder).trim_end().to_owned()
        })
        .collect();
    lines[1..].sort_unstable();
    format!("$ kubectl {}\n{}\n", command.join(" "), lines.join("\n"))
}

async fn once(plane: &ControlPlane, directory: &tempfile::TempDir, more: &[&str]) -> Ended {
    let path = directory.path().to_str().unwrap();
    let base = ["check", "--once", "-o", "json", "--record=reports", "--policies", path];
    run(&plane.kubeconfig(), &[&base, more].concat()).await
}

#[tokio::test]
async fn switching_report_api_or_layout_keeps_timestamps_and_leaves_nothing_behind() {
    if !require() {
        return;
    }
    let plane = plane().await;
    // Kaudits in other namespaces, of earlier tests, own reports that nothing here removes.
    let kinds = NAMES.concat().join(",");
    plane.kubectl(&["delete", &kinds, "--all-namespaces", "--all"]).await.unwrap();
    let namespace = plane.temp_namespace("forms").await.unwrap();
    let directory = policies(&[("marked.rego", &policy(&namespace))]);
    for (name, value) in [("one", "yes"), ("two", "warn"), ("three", "broken")] {
        mark(&plane, &namespace, name, value).await;
    }
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": namespace, "labels": {&namespace: "yes"}}, "rules": []});
    plane.apply(&role.to_string()).await.unwrap();

    let path = directory.path().to_str().unwrap();
    let mut times = BTreeSet::new();
    let mut shown = Vec::new();
    for (index, api) in ["openreports", "wgpolicy"].into_iter().enumerate() {
        for layout in ["namespace", "resource"] {
            let position = plane.audit_position().unwrap();
            let form = [format!("--report-api={api}"), format!("--report-layout={layout}")];
            let ended = once(&plane, &directory, &[&form[0], &form[1]]).await;
            assert_eq!(ended.code, Some(1), "{}", ended.stderr);
            let all: Vec<Value> = [list(&plane, NAMES[index][0]).await, list(&plane, NAMES[index][1]).await].concat();
            let found = results(&all);
            assert_eq!(found.len(), 4, "{all:#?}");
            times.insert(found.iter().map(|(id, result)| format!("{id} {}", result["timestamp"])).collect::<Vec<_>>());
            for kind in NAMES[1 - index] {
                assert_eq!(list(&plane, kind).await, Vec::<Value>::new(), "those of the other API are gone");
            }
            assert_eq!(all.len(), if layout == "namespace" { 2 } else { 4 });
            let mut normal: Vec<Value> = all.iter().map(|report| normal(report, &namespace, path)).collect();
            normal.sort_by_key(ToString::to_string);
            insta::assert_snapshot!(format!("reports_{api}_{layout}"), serde_json::to_string_pretty(&normal).unwrap());
            for kind in NAMES[index] {
                shown.push(shown_by_kubectl(&plane, kind, &namespace).await);
            }
            let writes = writes_since(&plane, position);
            assert!(writes.iter().all(|write| write.code < 300), "{writes:#?}");
            let applied: Vec<_> = writes.iter().filter(|write| write.verb == "patch").collect();
            assert_eq!(applied.len(), all.len());
            assert!(applied.iter().all(|write| write.request_uri.contains("fieldValidation=Strict")), "{applied:#?}");
        }
    }
    assert_eq!(times.len(), 1, "the time of first sight stays: {times:#?}");
    insta::assert_snapshot!("reports_kubectl", shown.join("\n"));
    plane.kubectl(&["delete", "clusterrole", &namespace]).await.unwrap();
    once(&plane, &directory, &[]).await;
    assert_eq!(list(&plane, NAMES[0][1]).await.len(), 0);
}

#[tokio::test]
async fn unchanged_results_are_not_rewritten_and_keep_their_timestamp() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let namespace = plane.temp_namespace("quiet").await.unwrap();
    let directory = policies(&[("marked.rego", &policy(&namespace))]);
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=reports"];
    mark(&plane, &namespace, "one", "yes").await;
    mark(&plane, &namespace, "two", "warn").await;
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    let expected = ["one marked yes", "two marked to be warned of"];
    let before = results(&until_messages(&plane, &namespace, &expected).await);
    assert_eq!(kaudit.stop().await, Some(0));

    // A restart, an irrelevant update, a relist, and policies with the same results.
    let position = plane.audit_position().unwrap();
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let all_open = || async { (results_in(&kaudit.status(), &namespace).len() == 2).then_some(()) };
    wait_for("both violations", all_open).await;
    let judged = kaudit.metric("kaudit_evaluations_total").unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", "other=label"]).await.unwrap();
    plane.compact_etcd().await.unwrap();
    plane.kill_apiserver().unwrap();
    plane.start_apiserver().await.unwrap();
    std::fs::write(directory.path().join("marked.rego"), policy(&namespace) + "# the same\n").unwrap();
    wait_for("the reload", || async { kaudit.metric("kaudit_policy_reloads_total{result=\"success\"}") }).await;
    let again = || async { (kaudit.metric("kaudit_evaluations_total")? > judged + 10).then_some(()) };
    wait_for("everything to be judged again", again).await;
    wait_for("an empty queue", || async { kaudit.metric("kaudit_queue_length").filter(|length| *length == 0) }).await;
    assert_eq!(kaudit.stop().await, Some(0), "and what is pending is written at the end");
    let writes = writes_since(&plane, position);
    assert!(writes.is_empty(), "{writes:#?}");

    // The time is also kept when the report changes.
    mark(&plane, &namespace, "three", "yes").await;
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    let after =
        results(&until_messages(&plane, &namespace, &["one marked yes", "three marked yes", expected[1]]).await);
    assert!(before.iter().all(|(id, result)| after.get(id) == Some(result)), "{before:#?} {after:#?}");
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test]
async fn results_of_deleted_objects_are_pruned_and_unreadable_ones_stay() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let namespace = plane.temp_namespace("prune").await.unwrap();
    let other = plane.temp_namespace("prune").await.unwrap();
    establish(&plane, &crd("prune.example.com", "things", "Thing", "v1"), &["things.prune.example.com"]).await;
    let second = policy(&namespace).replace("package marked", "package second");
    let directory = policies(&[("marked.rego", &policy(&namespace)), ("second.rego", &second)]);
    let thing = marked("prune.example.com/v1", "Thing", &namespace, "thing", &namespace);
    let secret = marked("v1", "Secret", &namespace, "secret", &namespace);
    let elsewhere = marked("v1", "ConfigMap", &other, "elsewhere", &namespace);
    plane.apply(&[thing, secret, elsewhere].concat()).await.unwrap();
    for name in ["kept", "deleted", "deleted-while-down"] {
        mark(&plane, &namespace, name, "yes").await;
    }
    once(&plane, &directory, &[]).await;
    let reports = reports_in(&plane, NAMES[0][0], &namespace).await;
    assert_eq!(results(&reports).len(), 10, "five objects by two policies");
    assert_eq!(results(&reports_in(&plane, NAMES[0][0], &other).await).len(), 2);

    // These changes happen while kaudit is down; and Secrets can no longer be read.
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "deleted-while-down"]).await.unwrap();
    plane.kubectl(&["delete", "crd", "things.prune.example.com"]).await.unwrap();
    std::fs::remove_file(directory.path().join("second.rego")).unwrap();
    let user = reporter(&plane, &namespace, "configmaps").await;
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=reports"];
    let files = tempfile::tempdir().unwrap();
    let kaudit = Running::start(&in_default(&user, files.path()), &arguments).await;
    let secrets = ["secret marked yes", "secret marked yes"];
    until_results(&plane, &namespace, &[&["deleted marked yes", "kept marked yes"], &secrets[..]].concat()).await;
    // These happen while it runs.
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "deleted"]).await.unwrap();
    plane.kubectl(&["delete", "namespace", &other]).await.unwrap();
    until_results(&plane, &namespace, &[&["kept marked yes"], &secrets[..]].concat()).await;
    wait_for("the reports of the other namespace to go", || async {
        reports_in(&plane, NAMES[0][0], &other).await.is_empty().then_some(())
    })
    .await;
    let refused = "kaudit_recorder_drops_total{recorder=\"reports\",reason=\"forbidden\"}";
    assert_eq!(kaudit.metric(refused), None, "{}", kaudit.log());
    assert_eq!(kaudit.stop().await, Some(0));
    // Readable kinds are up to date again: Secrets are still marked, and violate one policy.
    once(&plane, &directory, &[]).await;
    let reports = reports_in(&plane, NAMES[0][0], &namespace).await;
    assert_eq!(messages(&reports), ["kept marked yes", "secret marked yes"].map(str::to_owned).into());
    assert_eq!(results(&reports).len(), 2);
}

/// Waits until the reports of a namespace contain exactly these messages, including duplicates.
async fn until_results(plane: &ControlPlane, namespace: &str, wanted: &[&str]) {
    wait_for(&format!("{wanted:?} in the reports"), || async {
        let reports = reports_in(plane, NAMES[0][0], namespace).await;
        let mut found: Vec<String> = results(&reports)
            .values()
            .map(|result| {
                let name = result["resources"][0]["name"].as_str().unwrap();
                format!("{name} {}", result["message"].as_str().unwrap())
            })
            .collect();
        found.sort();
        (found == wanted).then_some(())
    })
    .await;
}

/// The rights to write reports, without those to read audited kinds.
const RIGHTS: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME}
rules:
  - apiGroups: [openreports.io]
    resources: [reports, clusterreports]
    verbs: [list, create, patch, delete]
  - apiGroups: [wgpolicyk8s.io]
    resources: [policyreports, clusterpolicyreports]
    verbs: [list, create, patch, delete]
";

/// Creates a user who may write reports and read one kind.
async fn reporter(plane: &ControlPlane, name: &str, readable: &str) -> User {
    let account = format!("--serviceaccount={name}:reporter");
    let reader = format!("{name}-reader");
    let resource = format!("--resource={readable}");
    plane.kubectl(&["create", "clusterrole", &reader, "--verb=list,watch", &resource]).await.unwrap();
    plane.apply(&RIGHTS.replace("NAME", name)).await.unwrap();
    for role in [&reader, &name.to_owned()] {
        let of = format!("--clusterrole={role}");
        plane.kubectl(&["create", "clusterrolebinding", role, &of, &account]).await.unwrap();
    }
    plane.service_account(name, "reporter").await.unwrap()
}

/// Writes a kubeconfig of a user whose namespace is `default`, like the admin's, whose reports it takes over.
fn in_default(user: &User, directory: &Path) -> PathBuf {
    let path = directory.join("kubeconfig");
    let mut kubeconfig = kube::config::Kubeconfig::read_from(user.kubeconfig_path()).unwrap();
    kubeconfig.contexts[0].context.as_mut().unwrap().namespace = Some("default".to_owned());
    std::fs::write(&path, serde_json::to_string(&kubeconfig).unwrap()).unwrap();
    path
}

/// Returns a policy that denies objects of a namespace as often as their annotation specifies.
fn many(namespace: &str, limit: usize) -> String {
    format!(
        r#"
package many
deny contains msg if {{
    input.metadata.namespace == "{namespace}"
    number := to_number(input.metadata.annotations.many)
    some each in numbers.range(1, number)
    each <= {limit}
    msg := sprintf("number %v of what is wrong with this object, which is to be mended by whoever it belongs to", [each])
}}
"#
    )
}

fn with_many(namespace: &str, name: &str, number: usize) -> String {
    let metadata = json!({"namespace": namespace, "name": name, "annotations": {"many": number.to_string()}});
    format!("---\n{}\n", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
}

/// Returns the ids of all results, even if in two reports.
fn ids(reports: &[Value]) -> BTreeSet<String> {
    let results = reports.iter().flat_map(|report| report["results"].as_array().unwrap());
    results.map(|result| result["properties"]["resultID"].as_str().unwrap().to_owned()).collect()
}

/// Asserts that the reports of a namespace contain this number of results, each once, and that no report is too large.
fn assert_whole(reports: &[Value], wanted: usize) {
    assert_eq!(results(reports).len(), wanted);
    for report in reports {
        let mut written = report.clone();
        written["metadata"].as_object_mut().unwrap().remove("managedFields");
        let bytes = written.to_string().len();
        assert!(bytes <= LARGEST, "{} has {bytes} bytes", report["metadata"]["name"]);
        let listed = report["results"].as_array().unwrap().len();
        assert_eq!(report["summary"]["fail"], listed, "{}", report["summary"]);
        assert!(listed > 0);
    }
}

#[tokio::test]
async fn thousands_of_results_are_split_and_joined_without_loss_on_kills() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let namespace = plane.temp_namespace("many").await.unwrap();
    // 50 is the limit of results per rule and object.
    let few = (0..200).map(|number| with_many(&namespace, &format!("few-{number}"), 10));
    let most = (0..20).map(|number| with_many(&namespace, &format!("most-{number}"), 50));
    plane.apply(&few.chain(most).collect::<String>()).await.unwrap();
    let directory = policies(&[("many.rego", &many(&namespace, 50))]);
    let file = directory.path().join("many.rego");
    let reports = async || reports_in(&plane, NAMES[0][0], &namespace).await;
    once(&plane, &directory, &[]).await;
    let split = reports().await;
    assert_whole(&split, 3_000);
    assert!(split.len() > 20, "{}", split.len());
    // One result changes one report.
    let position = plane.audit_position().unwrap();
    plane.apply(&with_many(&namespace, "few-7", 9)).await.unwrap();
    let began = Instant::now();
    once(&plane, &directory, &[]).await;
    // A finished writer ends without waiting for the next check of its reports.
    assert!(began.elapsed() < LOOK_EVERY, "{:?}", began.elapsed());
    assert_eq!(writes_since(&plane, position).len(), 1);
    assert_whole(&reports().await, 2_999);
    // One result is left: it is one report again.
    std::fs::write(&file, many(&namespace, 0) + "deny contains \"few\" if input.metadata.name == \"few-7\"\n").unwrap();
    let ended = once(&plane, &directory, &[]).await;
    assert_eq!(results_in(&ended.json(), &namespace).len(), 1, "{}", ended.stderr);
    assert_whole(&reports().await, 1);

    // Many and few results alternately, killed while writing.
    for round in 0..6u32 {
        let (limit, all) = if round % 2 == 0 { (50, 2_999) } else { (3, 660) };
        std::fs::write(&file, many(&namespace, limit)).unwrap();
        let position = plane.audit_position().unwrap();
        let path = directory.path().to_str().unwrap();
        let kaudit = Running::start(&plane.kubeconfig(), &["--record=reports", "--policies", path]).await;
        kaudit.ready().await;
        let enough = fastrand::usize(1..15);
        // Fewer writes may suffice if a killed round had not progressed far.
        let some = || async {
            let whole = ids(&reports().await).len() == all;
            (whole || writes_since(&plane, position).len() >= enough).then_some(())
        };
        wait_for("some of the writes", some).await;
        drop(kaudit);
        let found = reports().await;
        println!("round {round}: {} reports, {} results", found.len(), ids(&found).len());
    }
    std::fs::write(&file, many(&namespace, 50)).unwrap();
    let ended = once(&plane, &directory, &[]).await;
    assert_whole(&reports().await, 2_999);
    assert_eq!(results_in(&ended.json(), &namespace).len(), 2_999);
}

#[tokio::test]
async fn a_missing_report_api_is_reported_and_later_written_and_foreign_changes_are_reverted() {
    if !require() {
        return;
    }
    let plane = plane().await;
    establish_audits(&plane).await;
    let namespace = plane.temp_namespace("absent").await.unwrap();
    let directory = policies(&[("marked.rego", &policy(&namespace))]);
    mark(&plane, &namespace, "one", "yes").await;
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=reports,status"];
    let arguments = [&arguments[..], &["--report-api=openreports"]].concat();
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    until_messages(&plane, &namespace, &["one marked yes"]).await;
    until_condition(&plane, "default", "Recording", "True").await;

    plane.kubectl(&["delete", "crd", NAMES[0][0], NAMES[0][1]]).await.unwrap();
    mark(&plane, &namespace, "two", "yes").await;
    let condition = until_condition(&plane, "default", "Recording", "False").await;
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("the cluster does not serve openreports.io/v1alpha1"), "{message}");
    assert!(kaudit.metric("kaudit_recorder_drops_total{recorder=\"reports\",reason=\"no_api\"}").is_some());
    establish(&plane, OPENREPORTS, &NAMES[0]).await;
    until_messages(&plane, &namespace, &["one marked yes", "two marked yes"]).await;
    until_condition(&plane, "default", "Recording", "True").await;

    // Others delete and change reports.
    plane.kubectl(&["-n", &namespace, "delete", NAMES[0][0], "--all"]).await.unwrap();
    until_messages(&plane, &namespace, &["one marked yes", "two marked yes"]).await;
    let emptied =
        ["patch", NAMES[0][0], "kaudit.default", "--type=merge", "-p", r#"{"results": [], "summary": {"fail": 0}}"#];
    plane.kubectl(&[&["-n", &namespace], &emptied[..]].concat()).await.unwrap();
    let fixed = until_messages(&plane, &namespace, &["one marked yes", "two marked yes"]).await;
    assert_eq!(fixed[0]["summary"]["fail"], 2);
    assert_eq!(kaudit.stop().await, Some(0));
    plane.kubectl(&["-n", "default", "delete", "audit", "kaudit"]).await.unwrap();
}

#[tokio::test]
async fn missing_rights_are_reported_and_pending_reports_written_later() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let namespace = plane.temp_namespace("rights").await.unwrap();
    let directory = policies(&[("marked.rego", &policy(&namespace))]);
    mark(&plane, &namespace, "one", "yes").await;
    let user = reporter(&plane, &namespace, "configmaps").await;
    plane.kubectl(&["delete", "clusterrolebinding", &namespace]).await.unwrap();
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=reports"];
    let kaudit = Running::start(user.kubeconfig_path(), &arguments).await;
    kaudit.ready().await;
    let refused = "kaudit_recorder_drops_total{recorder=\"reports\",reason=\"forbidden\"}";
    wait_for("a refusal", || async { kaudit.metric(refused) }).await;
    wait_for("a word about it", || async { kaudit.log().contains("cannot be written: ").then_some(()) }).await;
    assert_eq!(results_in(&kaudit.status(), &namespace).len(), 1, "judging goes on");
    let (of, account) = (format!("--clusterrole={namespace}"), format!("--serviceaccount={namespace}:reporter"));
    plane.kubectl(&["create", "clusterrolebinding", &namespace, &of, &account]).await.unwrap();
    until_messages(&plane, &namespace, &["one marked yes"]).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

/// Prints the cost of 5 % of 20,000 objects in violation. Takes minutes: `cargo test --test cluster -- --ignored
/// --nocapture five_percent`.
#[tokio::test]
#[ignore = "a measurement that takes minutes"]
async fn five_percent_of_twenty_thousand_objects_in_violation() {
    let plane = plane().await;
    let mark = plane.temp_namespace("large").await.unwrap();
    let client = plane.admin().unwrap();
    let mut made = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (client, mark) = (client.clone(), mark.clone());
        made.spawn(async move {
            let namespace = format!("{mark}-{number}");
            let spaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(client.clone());
            let create = |value: Value| serde_json::from_value(value).unwrap();
            spaces
                .create(&kube::api::PostParams::default(), &create(json!({"metadata": {"name": namespace}})))
                .await
                .unwrap();
            let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::namespaced(client, &namespace);
            for index in 0..100 {
                let labels = if index % 20 == 0 { json!({&mark: "yes"}) } else { json!({}) };
                let map = json!({"metadata": {"name": format!("an-object-{index}"), "labels": labels}});
                let map = serde_json::from_value(map).unwrap();
                maps.create(&kube::api::PostParams::default(), &map).await.unwrap();
            }
        });
    }
    while let Some(done) = made.join_next().await {
        done.unwrap();
    }
    let directory = policies(&[("marked.rego", &policy(&mark))]);
    let position = plane.audit_position().unwrap();
    once(&plane, &directory, &[]).await;
    let writes = writes_since(&plane, position).len();
    let reports = list(&plane, NAMES[0][0]).await;
    let results = results(&reports).len();
    let bytes: usize = reports.iter().map(|report| report.to_string().len()).sum();
    println!(
        "{results} results in {} reports by {writes} writes; {bytes} bytes with what the server adds, {} a result",
        reports.len(),
        bytes / results
    );
    let position = plane.audit_position().unwrap();
    once(&plane, &directory, &[]).await;
    assert_eq!(writes_since(&plane, position).len(), 0);
}
