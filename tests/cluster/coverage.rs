//! Coverage: kinds that are read, kinds that are not, and how both are reported.

use std::time::{Duration, Instant};

use kaudit::cluster::client::{Access, Clients};
use kaudit_controlplane::{ControlPlane, require, shared};
use serde_json::json;

use crate::support::{
    Running, bare_plane, coverage_of, crd, denies_marked, establish, marked, policies, results_in, run, state_of,
    until_violations, wait_for,
};

async fn until_state(kaudit: &Running, (group, resource): (&str, &str), state: &str) {
    wait_for(&format!("{resource} to be {state:?}"), || async {
        (state_of(&kaudit.status(), group, resource) == state).then_some(())
    })
    .await;
}

#[tokio::test]
async fn kinds_and_their_verdicts_follow_their_crd() {
    if !require() {
        return;
    }
    let plane = bare_plane().await;
    let namespace = plane.temp_namespace("comes").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let policies = directory.path().to_str().unwrap();
    let kaudit = Running::start(&plane.kubeconfig(), &["--policies", policies, "--record=none"]).await;
    kaudit.ready().await;

    let (group, resource) = ("garden.example.com", "trees");
    establish(&plane, &crd(group, resource, "Tree", "v1"), &["trees.garden.example.com"]).await;
    let established = Instant::now();
    until_state(&kaudit, (group, resource), "synced").await;
    println!("joined {:?} after Established", established.elapsed());
    assert!(established.elapsed() < Duration::from_secs(15));
    plane.apply(&marked("garden.example.com/v1", "Tree", &namespace, "oak", &namespace)).await.unwrap();
    until_violations(&kaudit, &namespace, 1).await;
    let series = r#"kaudit_kind_state{group="garden.example.com",resource="trees",state="synced"}"#;
    let metric = || async { (kaudit.metric(series) == Some(1)).then_some(()) };
    wait_for("the kind's metric", metric).await;

    plane.kubectl(&["delete", "crd", "trees.garden.example.com"]).await.unwrap();
    let deleted = Instant::now();
    until_state(&kaudit, (group, resource), "").await;
    println!("gone {:?} after the deletion", deleted.elapsed());
    until_violations(&kaudit, &namespace, 0).await;
    let gone = || async { kaudit.metric(series).is_none().then_some(()) };
    wait_for("the end of the kind's metric", gone).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test]
async fn a_forbidden_kind_is_named_and_joins_when_permitted() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("narrow").await.unwrap();
    let user = plane.service_account(&namespace, "narrow").await.unwrap();
    let kubeconfig = user.kubeconfig_path();
    let grant = |resource: &str| {
        let name = format!("{namespace}-{resource}");
        let role = format!("clusterrole/{name}");
        let (of, account) = (format!("--resource={resource}"), format!("--serviceaccount={namespace}:narrow"));
        async move {
            plane.kubectl(&["create", "clusterrole", &name, "--verb=list,watch", &of]).await.unwrap();
            let binding = ["create", "clusterrolebinding", &name, &format!("--clusterrole={name}"), &account];
            plane.kubectl(&binding).await.unwrap();
            plane.kubectl(&["get", &role]).await.unwrap();
        }
    };
    grant("configmaps").await;
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let policies = directory.path().to_str().unwrap();
    let once = ["check", "--once", "-o", "json", "--policies", policies];
    plane.apply(&marked("v1", "Secret", &namespace, "hidden", &namespace)).await.unwrap();

    let ended = run(kubeconfig, &once).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let result = ended.json();
    assert_eq!(result["complete"], false);
    assert_eq!(state_of(&result, "", "configmaps"), "synced");
    let secrets = coverage_of(&result, "", "secrets").unwrap();
    assert_eq!(secrets["state"], "forbidden");
    assert!(secrets["message"].as_str().unwrap().contains("cannot list resource \"secrets\""), "{secrets}");

    // Text names each kind in one line.
    let logged = "Cannot be read, and is not checked until it can";
    assert!(ended.stderr.contains(logged), "{ended:?}");
    let text = run(kubeconfig, &["check", "--once", "--policies", policies]).await;
    assert!(text.stdout.contains("\nnot checked: secrets (forbidden: "), "{text:?}");
    assert!(!text.stderr.contains(logged), "{text:?}");

    let only = ["--policies", policies, "--record=none", "--exclude=*", "--include=configmaps,secrets"];
    let kaudit = Running::start(kubeconfig, &only).await;
    kaudit.ready().await;
    plane.apply(&marked("v1", "ConfigMap", &namespace, "seen", &namespace)).await.unwrap();
    until_violations(&kaudit, &namespace, 1).await;
    assert_eq!(state_of(&kaudit.status(), "", "secrets"), "forbidden");
    let ended = run(kubeconfig, &once).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.json()["complete"], false);

    grant("secrets").await;
    until_violations(&kaudit, &namespace, 2).await;
    assert_eq!(state_of(&kaudit.status(), "", "secrets"), "synced");
    assert_eq!(kaudit.status()["complete"], true, "{:#}", kaudit.status());
    assert_eq!(kaudit.stop().await, Some(0));
}

const DOWN: &str = r"
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata:
  name: v1.down.example.com
spec:
  group: down.example.com
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {namespace: default, name: nobody}
";

async fn until_announced(plane: &ControlPlane, group: &str) {
    let client = plane.admin().unwrap();
    wait_for(&format!("the group {group}"), || async {
        let served = kaudit::source::discovery::Discovery::new(client.clone()).discover().await.unwrap();
        served.stale.iter().any(|stale| stale.group == group).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_unavailable_aggregated_api_affects_only_its_own_kinds() {
    if !require() {
        return;
    }
    let plane = bare_plane().await;
    let namespace = plane.temp_namespace("down").await.unwrap();
    plane.apply(DOWN).await.unwrap();
    until_announced(&plane, "down.example.com").await;
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let policies = directory.path().to_str().unwrap();
    let once = ["check", "--once", "-o", "json", "--policies", policies];

    let ended = run(&plane.kubeconfig(), &once).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let result = ended.json();
    let group = coverage_of(&result, "down.example.com", "*").unwrap();
    assert_eq!((&group["kind"], &group["state"]), (&json!("*"), &json!("failed")), "{group}");
    let others: Vec<_> =
        result["coverage"].as_array().unwrap().iter().filter(|kind| kind["state"] == "failed").collect();
    assert_eq!(others.len(), 1, "{others:?}");
    let excluded = run(&plane.kubeconfig(), &[&once[..], &["--exclude=*.down.example.com"]].concat()).await;
    assert_eq!(excluded.code, Some(0), "what is excluded is not missing: {excluded:?}");

    let begin = Instant::now();
    let kaudit = Running::start(&plane.kubeconfig(), &["--policies", policies, "--record=none"]).await;
    kaudit.ready().await;
    assert!(begin.elapsed() < Duration::from_secs(30), "the gate waited for {:?}", begin.elapsed());
    plane.apply(&marked("v1", "ConfigMap", &namespace, "seen", &namespace)).await.unwrap();
    until_violations(&kaudit, &namespace, 1).await;
    assert_eq!(state_of(&kaudit.status(), "down.example.com", "*"), "failed");
    assert_eq!(kaudit.status()["complete"], false);
    plane.kubectl(&["delete", "apiservice", "v1.down.example.com"]).await.unwrap();
    until_state(&kaudit, ("down.example.com", "*"), "").await;
    assert_eq!(kaudit.status()["complete"], true);
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test]
async fn kinds_in_non_preferred_versions_are_read_with_both_discovery_apis() {
    if !require() {
        return;
    }
    let plane = bare_plane().await;
    let namespace = plane.temp_namespace("versions").await.unwrap();
    let crds = crd("shop.example.com", "carts", "Cart", "v1") + &crd("shop.example.com", "quotes", "Quote", "v1beta1");
    let names = ["carts.shop.example.com", "quotes.shop.example.com"];
    establish(&plane, &crds, &names).await;
    let objects = marked("shop.example.com/v1", "Cart", &namespace, "a", &namespace)
        + &marked("shop.example.com/v1beta1", "Quote", &namespace, "b", &namespace);
    plane.apply(&objects).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);

    let policies = directory.path().to_str().unwrap();
    let ended = run(&plane.kubeconfig(), &["check", "--once", "-o", "json", "--policies", policies]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let result = ended.json();
    assert_eq!(results_in(&result, &namespace).len(), 2, "{result}");
    assert_eq!(coverage_of(&result, "shop.example.com", "quotes").unwrap()["version"], "v1beta1");

    plane.apply(DOWN).await.unwrap();
    until_announced(&plane, "down.example.com").await;
    // Uses kaudit's discovery: kube's own client retries a group that is down for minutes.
    let access = Access { kubeconfig: Some(plane.kubeconfig()), ..Access::default() };
    let client = Clients::new(&access).await.unwrap().plain;
    let aggregated = kaudit::source::discovery::Discovery::new(client.clone()).discover().await.unwrap();
    let by_group = kaudit::source::discovery::discover_by_group(&client).await.unwrap();
    assert_eq!(format!("{:#?}", aggregated.kinds), format!("{:#?}", by_group.kinds));
    let groups = |served: &kaudit::source::discovery::Served| {
        served.stale.iter().map(|stale| (stale.group.clone(), stale.version.clone())).collect::<Vec<_>>()
    };
    assert_eq!(groups(&aggregated), groups(&by_group));
    plane.kubectl(&["delete", "apiservice", "v1.down.example.com"]).await.unwrap();
    plane.kubectl(&["delete", "crd", names[0], names[1]]).await.unwrap();
}

#[tokio::test]
async fn existing_violations_can_be_the_baseline() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("skip").await.unwrap();
    plane.apply(&marked("v1", "ConfigMap", &namespace, "old", &namespace)).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let policies = directory.path().to_str().unwrap();
    let arguments = ["--policies", policies, "--record=events", "--initial=skip"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    plane.apply(&marked("v1", "ConfigMap", &namespace, "new", &namespace)).await.unwrap();
    let results = until_violations(&kaudit, &namespace, 1).await;
    assert_eq!(results[0]["resource"]["name"], "new");
    plane.kubectl(&["-n", &namespace, "annotate", "configmap", "old", "touched=yes"]).await.unwrap();
    until_violations(&kaudit, &namespace, 2).await;
    let events = || async {
        let events = plane.kubectl(&["-n", &namespace, "get", "events", "-o", "name"]).await.unwrap();
        (events.lines().count() == 2).then_some(())
    };
    wait_for("two Events", events).await;
    assert_eq!(kaudit.stop().await, Some(0));
}
