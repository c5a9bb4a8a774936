//! `kaudit rbac`: the printed rights are sufficient and necessary, and each missing right is reported.

use std::collections::BTreeSet;

use kaudit::rego::analysis::yaml;
use kaudit_controlplane::{AuditRecord, ControlPlane, User, require, shared};
use serde_json::{Value, json};

use crate::{
    reports,
    support::{Running, establish_audits, policies, run, state_of, until_violations, wait_for},
};

/// Returns a policy that denies every ConfigMap with the label `mark`.
fn denies_configmaps(mark: &str) -> String {
    format!(
        "package configmaps\n\ndeny contains \"marked\" if {{\n\tinput.kind == \
         \"ConfigMap\"\n\tinput.metadata.labels[\"{mark}\"]\n}}\n"
    )
}

/// Returns the output of `kaudit rbac` for the account `name` in `namespace`; roles have the name of the account.
async fn printed(plane: &ControlPlane, namespace: &str, name: &str, scope: &[&str]) -> Vec<Value> {
    let account = format!("--service-account={namespace}:{name}");
    let (role, audit) = (format!("--role-name={namespace}-{name}"), format!("--audit-name={name}"));
    let arguments = [&["rbac", &account, &role, &audit], scope].concat();
    let ended = run(&plane.kubeconfig(), &arguments).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    yaml::from_multiple(&ended.stdout).unwrap()
}

async fn granted(plane: &ControlPlane, namespace: &str, name: &str, objects: &[Value]) -> User {
    let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
    plane.apply(&objects.join("\n---\n")).await.unwrap();
    plane.service_account(namespace, name).await.unwrap()
}

/// Returns the status and log of a kaudit.
fn status_and_log(kaudit: &Running) -> String {
    format!("{}\n{}", kaudit.get("/status").unwrap_or_default(), kaudit.log())
}

fn own_requests(plane: &ControlPlane, position: kaudit_controlplane::AuditPosition, user: &User) -> Vec<AuditRecord> {
    let requests = plane.audit_log_since(position).unwrap();
    requests.into_iter().filter(|record| record.user == user.name()).collect()
}

#[tokio::test]
async fn only_kinds_of_the_current_policies_are_read() {
    if !require() {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let namespace = plane.temp_namespace("rights").await.unwrap();
    let directory = policies(&[("configmaps.rego", &denies_configmaps(&namespace))]);
    let scope = ["--kinds=judged", "--policies", directory.path().to_str().unwrap()];
    let objects = printed(plane, &namespace, "kaudit", &scope).await;
    let reading = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]});
    assert_eq!((&objects[0]["kind"], &objects[0]["rules"][0]), (&json!("ClusterRole"), &reading));
    let user = granted(plane, &namespace, "kaudit", &objects).await;
    let position = plane.audit_position().unwrap();
    let kaudit = Running::start(user.kubeconfig_path(), &scope).await;
    kaudit.ready().await;
    let mark = format!("{namespace}=yes");
    for (kind, name) in [("configmap", "one"), ("serviceaccount", "two")] {
        plane.kubectl(&["-n", &namespace, "create", kind, name]).await.unwrap();
        plane.kubectl(&["-n", &namespace, "label", kind, name, &mark]).await.unwrap();
    }
    until_violations(&kaudit, &namespace, 1).await;
    assert_eq!(kaudit.status()["complete"], true);
    assert_eq!(state_of(&kaudit.status(), "", "serviceaccounts"), "excluded");
    let requests = own_requests(plane, position, &user);
    let refused: Vec<_> = requests.iter().filter(|record| matches!(record.code, 401 | 403)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    // Events are only listed to read earlier records, not evaluated.
    let listed: BTreeSet<_> =
        requests.iter().filter(|record| record.verb == "list").map(|record| &record.resource).collect();
    assert_eq!(listed, ["configmaps", "events"].map(String::from).iter().collect());

    // A policy for another kind: the kind is read, and named while the right is missing.
    let more =
        denies_configmaps(&namespace).replace("ConfigMap", "ServiceAccount").replace("package c", "package other.c");
    std::fs::write(directory.path().join("more.rego"), more).unwrap();
    wait_for("the missing right to be named", || async {
        status_and_log(&kaudit).contains("cannot list resource \\\"serviceaccounts\\\"").then_some(())
    })
    .await;
    assert_eq!(kaudit.status()["complete"], false);
    assert_eq!(state_of(&kaudit.status(), "", "serviceaccounts"), "forbidden");
    granted(plane, &namespace, "kaudit", &printed(plane, &namespace, "kaudit", &scope).await).await;
    until_violations(&kaudit, &namespace, 2).await;
    assert_eq!(kaudit.status()["complete"], true);

    // When that policy is removed, so are its kind and its results.
    std::fs::remove_file(directory.path().join("more.rego")).unwrap();
    until_violations(&kaudit, &namespace, 1).await;
    wait_for("the kind to be left out again", || async {
        (state_of(&kaudit.status(), "", "serviceaccounts") == "excluded").then_some(())
    })
    .await;
    assert_eq!(kaudit.stop().await, Some(0));
}

/// One right removed from the roles.
struct Missing {
    verb: String,
    resource: String,
    roles: Vec<Value>,
}

/// Returns every way to remove one right from the roles: one verb for one resource in one role.
fn each_missing(objects: &[Value]) -> Vec<Missing> {
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut all = Vec::new();
    for (object, role) in objects.iter().enumerate() {
        for (number, rule) in role["rules"].as_array().into_iter().flatten().enumerate() {
            for resource in strings(&rule["resources"]) {
                for verb in strings(&rule["verbs"]) {
                    let mut roles = objects.to_vec();
                    let granted = roles[object]["rules"].as_array_mut().unwrap();
                    let mut rest = granted.remove(number);
                    // The rest of the rule: its other resources, and its other verbs for this one.
                    for (resources, verbs) in [
                        (
                            strings(&rest["resources"]).into_iter().filter(|other| *other != resource).collect(),
                            strings(&rest["verbs"]),
                        ),
                        (
                            vec![resource.clone()],
                            strings(&rest["verbs"]).into_iter().filter(|other| *other != verb).collect(),
                        ),
                    ] {
                        let resources: Vec<String> = resources;
                        if !resources.is_empty() && !verbs.is_empty() {
                            (rest["resources"], rest["verbs"]) = (json!(resources), json!(verbs));
                            granted.push(rest.clone());
                        }
                    }
                    all.push(Missing { verb, resource: resource.clone(), roles });
                }
            }
        }
    }
    all
}

/// Returns a policy that denies marked objects of some kinds.
fn denies_kinds(mark: &str, kinds: &[&str]) -> String {
    let rule = |kind: &&str| denies_configmaps(mark).replace("ConfigMap", kind).replace("package configmaps", "");
    "package marked\n".to_owned() + &kinds.iter().map(rule).collect::<String>()
}

/// Runs kaudit once without each right; kaudit must name the missing right.
async fn assert_each_is_needed(plane: &ControlPlane, own: &str, audited: &str, namespaced: bool) -> usize {
    let kinds = if namespaced { &["ConfigMap"][..] } else { &["ConfigMap", "Namespace"] };
    let directory = policies(&[("marked.rego", &denies_kinds(audited, kinds))]);
    let scope = ["--kinds=judged", "--report-api=openreports", "--policies", directory.path().to_str().unwrap()];
    let more: &[&str] = if namespaced { &["--namespace", audited] } else { &["--leader-elect"] };
    let scope = [&scope[..], more].concat();
    plane.kubectl(&["-n", audited, "create", "configmap", "one"]).await.unwrap();
    let mark = async |marked: bool| {
        let label = format!("{audited}{}", if marked { "=yes" } else { "-" });
        for object in ["configmap/one", &format!("namespace/{audited}")] {
            plane.kubectl(&["-n", audited, "label", object, &label]).await.unwrap();
        }
    };
    let number = each_missing(&printed(plane, own, "none", &scope).await).len();
    for index in 0..number {
        mark(true).await;
        // A new exception without a status.
        drop(plane.kubectl(&["-n", audited, "delete", "policyexception", "a"]).await);
        let spec = "{policies: [{name: none}], reason: r, expiresAt: \"2999-12-31\"}";
        let metadata = format!("{{name: a, namespace: {audited}}}");
        let kind = "apiVersion: kaudit.dev/v1alpha1\nkind: PolicyException";
        plane.apply(&format!("{kind}\nmetadata: {metadata}\nspec: {spec}\n")).await.unwrap();
        // A refused file causes an Event about kaudit itself.
        let broken = directory.path().join("broken.rego");
        drop(std::fs::remove_file(&broken));
        let name = format!("kaudit-{index}");
        let missing = each_missing(&printed(plane, own, &name, &scope).await).swap_remove(index);
        std::fs::write(&broken, "package broken\n\ndeny contains nope(1)\n").unwrap();
        let user = granted(plane, own, &name, &missing.roles).await;
        let audit = format!("--audit-name={name}");
        let kaudit = Running::start(user.kubeconfig_path(), &[&scope[..], &[&audit]].concat()).await;
        if missing.verb == "delete" {
            // A report is deleted when there is nothing left to report.
            let report = ["-n", audited, "get", &missing.resource, &format!("{name}.{own}")];
            wait_for("a report", || async { plane.kubectl(&report).await.ok() }).await;
            mark(false).await;
        }
        let what = format!("cannot {} resource \"{}\"", missing.verb, missing.resource);
        let quoted = what.replace('"', "\\\"");
        let named = || async { status_and_log(&kaudit).contains(&quoted).then_some(()) };
        wait_for(&format!("{what} to be named; status and log:\n{}", status_and_log(&kaudit)), named).await;
        let reads_objects = ["configmaps", "namespaces"].contains(&missing.resource.as_str());
        assert!(!reads_objects || kaudit.status()["complete"] == false, "{}", kaudit.status());
        assert!(reads_objects || kaudit.log().contains("WARN"), "{}", kaudit.log());
        // It would retry forbidden writes for some seconds.
        drop(kaudit);
        if reads_objects && missing.verb == "list" {
            let once = ["check", "--once", "--allow-refused", "--fail-on=none"];
            let once = [&once, &scope[..]].concat();
            let once: Vec<&str> = once.into_iter().filter(|argument| *argument != "--leader-elect").collect();
            let ended = run(user.kubeconfig_path(), &once).await;
            assert_eq!(ended.code, Some(3), "{ended:?}");
            assert!(ended.stdout.contains(&what) || ended.stderr.contains(&what), "{ended:?}");
        }
        mark(false).await;
    }
    number
}

#[tokio::test]
async fn each_missing_right_for_the_cluster_is_named() {
    if !require() {
        return;
    }
    let plane = reports::plane().await;
    establish_audits(&plane).await;
    let (own, shop) = (plane.temp_namespace("rights").await.unwrap(), plane.temp_namespace("shop").await.unwrap());
    // Two to read each of two kinds, and exceptions; two for Events; four for each of two kinds of reports; create and
    // patch of the Audit and its status; one for the status of exceptions; four for the Lease.
    assert_eq!(assert_each_is_needed(&plane, &own, &shop, false).await, 24);
}

#[tokio::test]
async fn each_missing_right_for_a_namespace_is_named() {
    if !require() {
        return;
    }
    let plane = reports::plane().await;
    establish_audits(&plane).await;
    let (own, shop) = (plane.temp_namespace("rights").await.unwrap(), plane.temp_namespace("shop").await.unwrap());
    // No Lease, and one kind of objects and of reports less; but also Events about kaudit itself.
    assert_eq!(assert_each_is_needed(&plane, &own, &shop, true).await, 15);
    let team = plane.temp_namespace("team").await.unwrap();
    assert_eq!(assert_each_is_needed(&plane, &team, &team, true).await, 14);
}

#[tokio::test]
async fn rbac_needs_a_cluster_only_for_named_kinds() {
    let nowhere = std::path::Path::new("none");
    let ended = run(nowhere, &["rbac"]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let ended = run(nowhere, &["rbac", "--exclude=secrets"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("kubeconfig"), "{}", ended.stderr);
}
