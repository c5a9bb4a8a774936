//! Exceptions: the same in CI, the long run, its Events, reports, metrics and status.

use jiff::{SignedDuration, Timestamp};
use kaudit_controlplane::{ControlPlane, Options, require};
use serde_json::Value;

use crate::{
    reports::{NAMES, OPENREPORTS, reports_in},
    support::{Running, establish, establish_audits, policies, results_in, run, wait_for},
};

const OWNED: &str = r#"# METADATA
# scope: package
# custom:
#   excusable: true
package owned

deny contains "label owner is missing" if {
    input.kind == "ConfigMap"
    not input.metadata.labels.owner
    input.metadata.labels["MARK"]
}
"#;

/// Returns the outcomes in a namespace according to reports, `/status` and a fresh audit if all three agree.
async fn outcomes(plane: &ControlPlane, kaudit: &Running, namespace: &str, policies: &str) -> Option<Vec<String>> {
    let outcome = |name: &Value, result: &Value| format!("{} {}", name.as_str().unwrap(), result.as_str().unwrap());
    let reported = |results: &[Value]| {
        let mut all: Vec<_> =
            results.iter().map(|entry| outcome(&entry["resource"]["name"], &entry["result"])).collect();
        all.sort();
        all
    };
    let live = reported(&results_in(&kaudit.status(), namespace));
    let check = ["check", "--once", "-o", "json", "-p", policies, "-n", namespace];
    let fresh = reported(&results_in(&run(&plane.kubeconfig(), &check).await.json(), namespace));
    let reports = reports_in(plane, NAMES[0][0], namespace).await;
    let reported = reports.iter().flat_map(|report| report["results"].as_array().unwrap());
    let mut reported: Vec<_> =
        reported.map(|result| outcome(&result["resources"][0]["name"], &result["result"])).collect();
    reported.sort();
    (live == fresh && live == reported).then_some(live)
}

async fn until_outcomes(plane: &ControlPlane, kaudit: &Running, namespace: &str, policies: &str, wanted: &[&str]) {
    wait_for(&format!("{wanted:?}"), || async {
        outcomes(plane, kaudit, namespace, policies).await.filter(|found| found == wanted)
    })
    .await;
}

/// Returns the reasons of the Events about an object, in their order, and the note of the last.
async fn events(plane: &ControlPlane, namespace: &str, name: &str) -> (Vec<String>, String) {
    let list = plane.kubectl(&["-n", namespace, "get", "events.events.k8s.io", "-o", "json"]).await.unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let about = list["items"].as_array().unwrap().iter().filter(|event| event["regarding"]["name"] == name);
    let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
    let mut events: Vec<_> =
        about.map(|event| [text(event, "eventTime"), text(event, "reason"), text(event, "note")]).collect();
    events.sort();
    let note = events.last().map(|[.., note]| note.clone()).unwrap_or_default();
    (events.into_iter().map(|[_, reason, _]| reason).collect(), note)
}

/// Waits for a status of the condition `ExceptionsValid` of this Audit.
async fn until_valid(plane: &ControlPlane, audit: &str, status: &str) {
    wait_for(&format!("ExceptionsValid to be {status}"), || async {
        let list: Value =
            serde_json::from_str(&plane.kubectl(&["get", "audits", "-A", "-o", "json"]).await.unwrap()).unwrap();
        let audit = list["items"].as_array()?.iter().find(|one| one["metadata"]["name"] == audit)?.clone();
        let mut conditions = audit["status"]["conditions"].as_array()?.iter();
        conditions.any(|one| one["type"] == "ExceptionsValid" && one["status"] == status).then_some(())
    })
    .await;
}

fn exception(namespace: &str, name: &str, expires: &str) -> String {
    format!(
        "apiVersion: kaudit.dev/v1alpha1\nkind: PolicyException\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  policies: [{{name: owned}}]\n  match: {{names: [new]}}\n  reason: the team is being formed\n  \
         expiresAt: {expires:?}\n"
    )
}

#[tokio::test]
async fn baseline_and_exception_apply_until_the_exception_ends() {
    if !require() {
        return;
    }
    // A separate control plane: the exception kind would need additional rights in all tests.
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    establish(&plane, OPENREPORTS, &NAMES[0]).await;
    establish_audits(&plane).await;
    let crd = include_str!("../../charts/kaudit/crds/policyexceptions.kaudit.dev.yaml");
    establish(&plane, crd, &["policyexceptions.kaudit.dev"]).await;
    let namespace = plane.temp_namespace("excused").await.unwrap();
    let directory = policies(&[("owned.rego", &OWNED.replace("MARK", &namespace))]);
    let path = directory.path().to_str().unwrap();
    let create = async |name: &str| {
        plane.kubectl(&["-n", &namespace, "create", "configmap", name]).await.unwrap();
        plane.kubectl(&["-n", &namespace, "label", "configmap", name, &format!("{namespace}=yes")]).await.unwrap();
    };
    create("old").await;
    let recording = ["-p", path, "--audit-name", &namespace];
    let kaudit = Running::start(&plane.kubeconfig(), &recording).await;
    kaudit.ready().await;
    let until = async |wanted: &[&str]| until_outcomes(&plane, &kaudit, &namespace, path, wanted).await;
    until(&["old fail"]).await;

    // In CI: existing violations are the baseline, new ones count.
    let files = tempfile::tempdir().unwrap();
    let baseline = files.path().join("baseline.json");
    let baseline = baseline.to_str().unwrap();
    let once = async |more: &[&str]| {
        let check = ["check", "--once", "-o", "json", "-p", path, "-n", &namespace];
        run(&plane.kubeconfig(), &[&check[..], more].concat()).await
    };
    assert_eq!(once(&["--write-baseline", baseline]).await.code, Some(0));
    create("new").await;
    let found = once(&["--baseline", baseline]).await;
    assert_eq!((found.code, &found.json()["summary"]["fail"]), (Some(1), &1.into()), "{found:?}");
    until(&["new fail", "old fail"]).await;
    let reported = || async { (events(&plane, &namespace, "new").await.0 == ["PolicyViolation"]).then_some(()) };
    wait_for("the Event", reported).await;

    // A team excuses it until a time during the test.
    let end = Timestamp::now() + SignedDuration::from_secs(45);
    plane.apply(&exception(&namespace, "team", &format!("{end:.0}"))).await.unwrap();
    until(&["new skip", "old fail"]).await;
    assert_eq!(once(&["--baseline", baseline]).await.code, Some(0));
    let reported = || async {
        let (reasons, note) = events(&plane, &namespace, "new").await;
        (reasons == ["PolicyViolation", "PolicyResolved"]).then_some(note)
    };
    let note = wait_for("the Event", reported).await;
    assert!(
        note.starts_with(&format!("excused by {namespace}/team until ")) && note.contains("being formed"),
        "{note}"
    );
    let reports = reports_in(&plane, NAMES[0][0], &namespace).await;
    let excused = reports.iter().flat_map(|report| report["results"].as_array().unwrap());
    let excused: Vec<_> = excused.filter(|result| result["result"] == "skip").collect();
    assert_eq!(excused[0]["properties"]["excusedBy"], format!("{namespace}/team"));
    assert_eq!(excused[0]["properties"]["reason"], "the team is being formed");
    assert_eq!(kaudit.metric(r#"kaudit_exceptions{state="expiring"}"#), Some(1));
    let warning = format!("PolicyException {namespace}/team expires in less than a day");
    let reported = || async { kaudit.log().contains(&warning).then_some(()) };
    wait_for("a word of warning", reported).await;
    until_valid(&plane, &namespace, "True").await;

    // The exception ends, and the violation counts again.
    until(&["new fail", "old fail"]).await;
    assert!(Timestamp::now() >= end - SignedDuration::from_secs(1), "too early");
    let reported = || async {
        let reasons = events(&plane, &namespace, "new").await.0;
        (reasons == ["PolicyViolation", "PolicyResolved", "PolicyViolation"]).then_some(())
    };
    wait_for("the Event", reported).await;
    assert_eq!(once(&["--baseline", baseline]).await.code, Some(1));
    until_valid(&plane, &namespace, "False").await;

    // An exception for a rule that cannot be excused is named and has no effect.
    plane.kubectl(&["-n", &namespace, "delete", "kex", "team"]).await.unwrap();
    plane.apply(&exception(&namespace, "other", "2999-01-01").replace("owned", "owner")).await.unwrap();
    let named = || async {
        let known = kaudit.status()["exceptions"][0].clone();
        (known["state"] == "invalid").then_some(known)
    };
    let named = wait_for("the exception to be named", named).await;
    assert_eq!(named["message"], "there is no policy or rule owner; did you mean owned?");
    until(&["new fail", "old fail"]).await;
    plane.kubectl(&["-n", &namespace, "delete", "kex", "other"]).await.unwrap();
    assert_eq!(kaudit.stop().await, Some(0));
}
