//! The status of `PolicyException`s as a team sees it, with its own rights and kubectl.

use jiff::{SignedDuration, Timestamp};
use kaudit_controlplane::{ControlPlane, Options, require};
use serde_json::Value;

use crate::support::{Running, establish_audits, establish_exceptions, policies, wait_for};

const OWNED: &str = r#"
package owned

# METADATA
# custom: {id: OWN-01, severity: low}
deny_owner contains "label owner is missing" if {
    input.kind == "ConfigMap"
    input.metadata.namespace == "NAMESPACE"
    startswith(input.metadata.name, "a")
    not input.metadata.labels.owner
}

# METADATA
# custom: {id: OWN-02, severity: high}
deny_team contains "label team is missing" if {
    input.kind == "ConfigMap"
    input.metadata.namespace == "NAMESPACE"
    startswith(input.metadata.name, "a")
    not input.metadata.labels.team
}
"#;

fn exception(namespace: &str, name: &str, policies: &str, expires: &str) -> String {
    format!(
        "---\napiVersion: kaudit.dev/v1alpha1\nkind: PolicyException\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{policies: {policies}, reason: the team is being formed, expiresAt: {expires:?}}}\n"
    )
}

/// Returns the columns of each exception except its age.
async fn columns(plane: &ControlPlane, namespace: &str) -> Vec<String> {
    let table = plane.kubectl(&["-n", namespace, "get", "kex"]).await.unwrap();
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["NAME", "ACCEPTED", "REASON", "RESULTS", "EXPIRES", "AGE"], "{table}");
    lines.map(|line| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ")).collect()
}

async fn until_columns(plane: &ControlPlane, namespace: &str, wanted: &[&str]) {
    wait_for(&format!("{wanted:?}"), || async { (columns(plane, namespace).await == wanted).then_some(()) }).await;
}

/// Returns reason, name and note of each Event about an exception, sorted, and the uids of the Events.
async fn events(plane: &ControlPlane, namespace: &str) -> (Vec<[String; 3]>, Vec<String>) {
    let selector = "--field-selector=regarding.kind=PolicyException";
    let list = plane.kubectl(&["-n", namespace, "get", "events.events.k8s.io", selector, "-o", "json"]).await.unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = list["items"].as_array().unwrap();
    let mut all: Vec<_> = items
        .iter()
        .map(|event| {
            assert_eq!(event["type"], "Warning");
            [&event["reason"], &event["regarding"]["name"], &event["note"]].map(text)
        })
        .collect();
    all.sort();
    let mut uids: Vec<_> = items.iter().map(|event| text(&event["metadata"]["uid"])).collect();
    uids.sort();
    (all, uids)
}

/// Returns the version and the status of each exception.
async fn states(plane: &ControlPlane, namespace: &str) -> Vec<(Value, Value)> {
    let list = plane.kubectl(&["-n", namespace, "get", "kex", "-o", "json"]).await.unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| (item["metadata"]["resourceVersion"].clone(), item["status"].clone())).collect()
}

#[tokio::test]
async fn exceptions_have_status_columns_and_events_and_restarts_repeat_nothing() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    establish_audits(&plane).await;
    establish_exceptions(&plane).await;
    let namespace = plane.temp_namespace("status").await.unwrap();
    let directory = policies(&[("owned.rego", &OWNED.replace("NAMESPACE", &namespace))]);
    let path = directory.path().to_str().unwrap();
    for name in ["a1", "a2", "a3"] {
        plane.kubectl(&["-n", &namespace, "create", "configmap", name]).await.unwrap();
    }
    let options = ["-p", path, "--audit-name", &namespace, "-n", &namespace, "--excusable", "severity:medium"];
    let recording = [&options[..], &["--record", "status,events"]].concat();
    let kaudit = Running::start(&plane.kubeconfig(), &recording).await;
    kaudit.ready().await;

    let soon = format!("{:.0}", Timestamp::now() + SignedDuration::from_hours(50));
    let all = [
        exception(&namespace, "good", "[{name: owned, rules: [OWN-01]}]", "2999-12-31"),
        exception(&namespace, "refused", "[{name: OWN-02}]", "2999-12-31"),
        exception(&namespace, "soon", "[{name: OWN-*, rules: []}]", &soon),
        exception(&namespace, "typo", "[{name: owned, rules: [deny_ownr]}]", "2999-12-31"),
        exception(&namespace, "old", "[{name: owned}]", "2020-01-31"),
    ];
    plane.apply(&all.concat()).await.unwrap();
    let wanted = [
        "good True Active 3",
        "old False Expired 0",
        "refused False NotExcusable 0",
        "soon True Unused 0",
        "typo False UnknownRule 0",
    ];
    until_columns(&plane, &namespace, &wanted).await;
    let evaluations = kaudit.metric("kaudit_evaluations_total");
    assert!(evaluations.is_some());
    let (_, good) = states(&plane, &namespace).await.remove(0);
    assert_eq!((&good["results"], &good["expiresAt"]), (&3.into(), &"3000-01-01T00:00:00Z".into()), "{good}");
    assert_eq!(good["conditions"][0]["observedGeneration"], 1);
    let messages = || async {
        let (all, _) = events(&plane, &namespace).await;
        (all.len() == 3).then_some(all)
    };
    let messages = wait_for("three Events", messages).await;
    let note = |index: usize| messages[index].clone().join(" | ");
    assert_eq!(
        note(0),
        "PolicyExceptionExpired | old | ended at 2020-02-01T00:00:00Z: its violations are reported again"
    );
    assert_eq!(
        note(1),
        "PolicyExceptionInvalid | refused | is not in force: rule OWN-02 cannot be excused by a namespace"
    );
    assert_eq!(
        note(2),
        "PolicyExceptionInvalid | typo | is not in force: policy owned has no rule deny_ownr; did you mean deny_owner?"
    );
    assert!(kaudit.log().contains(&format!("PolicyException {namespace}/refused is not in force: rule OWN-02 cannot")));

    // It is `Expiring` as soon as it excuses a result.
    plane.kubectl(&["-n", &namespace, "delete", "kex", "good", "old"]).await.unwrap();
    let wanted = ["refused False NotExcusable 0", "soon True Expiring 3", "typo False UnknownRule 0"];
    until_columns(&plane, &namespace, &wanted).await;
    let expiring = || async {
        let (all, _) = events(&plane, &namespace).await;
        all.iter().any(|[reason, name, _]| reason == "PolicyExceptionExpiring" && name == "soon").then_some(())
    };
    wait_for("the Event", expiring).await;
    // A change of the specification changes the status, with the time of the transition.
    plane.apply(&exception(&namespace, "typo", "[{name: owned, rules: [deny_owner]}]", "2999-12-31")).await.unwrap();
    wait_for("the corrected exception to be accepted", || async {
        let states = states(&plane, &namespace).await;
        let condition = &states.last()?.1["conditions"][0];
        (condition["status"] == "True" && condition["observedGeneration"] == 2).then_some(())
    })
    .await;

    // kaudit's own writes cause no evaluations, and a restart writes nothing.
    let (before, recorded) = (states(&plane, &namespace).await, events(&plane, &namespace).await);
    assert_eq!(kaudit.metric("kaudit_evaluations_total"), evaluations);
    assert_eq!(kaudit.stop().await, Some(0));
    let kaudit = Running::start(&plane.kubeconfig(), &recording).await;
    kaudit.ready().await;
    let probe = exception(&namespace, "zz", "[{name: owned}]", "2020-01-31");
    plane.apply(&probe).await.unwrap();
    let written = || async {
        let states = states(&plane, &namespace).await;
        (states.last()?.1["conditions"][0]["reason"] == "Expired").then_some(states)
    };
    let after = wait_for("the status of another one", written).await;
    assert_eq!(after[..before.len()], before[..], "a restart writes nothing");
    wait_for("the Event about it", || async {
        let (_, uids) = events(&plane, &namespace).await;
        (uids.len() == recorded.1.len() + 1).then_some(uids.iter().filter(|uid| recorded.1.contains(uid)).count())
    })
    .await;
    assert_eq!(kaudit.stop().await, Some(0));
}
