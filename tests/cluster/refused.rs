//! Refused policy files: the others stay in force, and the refusal is visible everywhere.

use kaudit_controlplane::{require, shared};
use serde_json::Value;

use crate::{
    kubectl::{operator, until_condition},
    support::{Running, denies_marked, establish_audits, policies, results_in, wait_for},
};

/// Imports another file, and is itself refused when that one is.
const BROKEN: &str = "package second\n\ndeny contains \"second\" if data.lib.marks.is_marked(input)\n";
const LIBRARY: &str = "package lib.marks\n\nis_marked(object) if object.metadata.labels[\"MARK\"]\n";

/// Returns the messages of open violations in a namespace, sorted.
fn messages(kaudit: &Running, namespace: &str) -> Vec<String> {
    let results = results_in(&kaudit.status(), namespace);
    results.iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
}

/// Returns the response of `/policies`.
fn listed(kaudit: &Running) -> Option<Value> {
    serde_json::from_str(&kaudit.get("/policies")?).unwrap()
}

#[tokio::test]
async fn a_refused_file_leaves_the_others_in_force_and_is_reported() {
    if !require() {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let namespace = plane.temp_namespace("refused").await.unwrap();
    let user = operator(plane, &namespace).await;
    let library = LIBRARY.replace("MARK", &namespace);
    let directory = policies(&[("first.rego", &denies_marked(&namespace)), ("second.rego", BROKEN)]);
    let path = directory.path().join("lib.rego");
    std::fs::write(&path, library.replace("if", "if if")).unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "one"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", &format!("{namespace}=yes")]).await.unwrap();

    // At the start: the valid file is in force, the broken one and its importer are named.
    let kaudit = Running::start(user.kubeconfig_path(), &["--policies", directory.path().to_str().unwrap()]).await;
    kaudit.ready().await;
    wait_for("the verdict of the good one", || async {
        (messages(&kaudit, &namespace) == ["marked yes"]).then_some(())
    })
    .await;
    let status = kaudit.status();
    assert_eq!(status["complete"], false);
    let refused: Vec<&str> =
        status["refused"].as_array().unwrap().iter().map(|problem| problem["severity"].as_str().unwrap()).collect();
    assert_eq!(refused, ["refused", "left-out"]);
    assert_eq!(kaudit.metric("kaudit_policies_refused"), Some(2));
    let condition = until_condition(plane, &namespace, "PoliciesLoaded", "False").await;
    assert_eq!(condition["reason"], "PoliciesRefused");
    assert!(condition["message"].as_str().unwrap().contains("lib.rego:3:22: "), "{condition}");
    until_condition(plane, &namespace, "Synced", "True").await;
    let condition = until_condition(plane, &namespace, "Complete", "False").await;
    assert_eq!(condition["reason"], "PoliciesRefused");
    let list = listed(&kaudit).unwrap();
    assert_eq!(
        (&list["upToDate"], &list["summary"]["refused"], &list["summary"]["policies"]),
        (&true.into(), &2.into(), &1.into())
    );
    let query = [
        "-n",
        &namespace,
        "get",
        "events.events.k8s.io",
        "-o",
        "jsonpath={range .items[?(@.reason==\"PolicyRefused\")]}{.regarding.kind}/{.regarding.name} {.note}{\"\\n\"}{end}",
    ];
    let recorded = async |number: usize| {
        let events = || async {
            let events = plane.kubectl(&query).await.unwrap();
            (events.lines().count() == number).then_some(events)
        };
        wait_for(&format!("{number} Events PolicyRefused"), events).await
    };
    let events = recorded(1).await;
    assert!(events.starts_with("Audit/kaudit ") && events.contains("lib.rego:3:22: "), "{events}");
    assert!(kaudit.log().contains("lib.rego:3:22: "), "{}", kaudit.log());

    // Fixed: all of them are in force.
    std::fs::write(&path, &library).unwrap();
    wait_for("both verdicts", || async { (messages(&kaudit, &namespace) == ["marked yes", "second"]).then_some(()) })
        .await;
    until_condition(plane, &namespace, "PoliciesLoaded", "True").await;
    until_condition(plane, &namespace, "Complete", "True").await;
    assert_eq!(kaudit.metric("kaudit_policies_refused"), Some(0));
    assert!(kaudit.status().get("refused").is_none());

    // Broken again: rules that worked stay in force.
    std::fs::write(&path, library.replace("if", "if if")).unwrap();
    let condition = until_condition(plane, &namespace, "PoliciesLoaded", "False").await;
    assert_eq!(condition["reason"], "LoadFailed");
    recorded(2).await;
    plane
        .kubectl(&["-n", &namespace, "label", "configmap", "one", "--overwrite", &format!("{namespace}=still")])
        .await
        .unwrap();
    wait_for("both verdicts, still", || async {
        (messages(&kaudit, &namespace) == ["marked still", "second"]).then_some(())
    })
    .await;
    let list =
        wait_for("the list to be out of date", || async { listed(&kaudit).filter(|list| list["upToDate"] == false) })
            .await;
    assert_eq!((&list["summary"]["refused"], &list["summary"]["policies"]), (&1.into(), &2.into()));
    assert_eq!(kaudit.status()["complete"], true);

    // Restored: the condition is True again.
    std::fs::write(&path, &library).unwrap();
    until_condition(plane, &namespace, "PoliciesLoaded", "True").await;
    assert_eq!(kaudit.metric("kaudit_policies_refused"), Some(0));
    assert_eq!(kaudit.stop().await, Some(0));
}
