//! What is read, what is not, and whether that is said.

use std::{
    io::Read as _,
    net::TcpListener,
    time::{Duration, Instant},
};

use kaudit::client::{Access, Clients};
use kaudit_controlplane::{ControlPlane, require, shared};
use serde_json::{Value, json};

use crate::{
    proxy::{self, Proxy},
    support::{
        Running, bare_plane, coverage_of, denies_marked, establish, policies, results_in, run, state_of, wait_for,
    },
};

/// A CRD without a schema.
fn crd(group: &str, plural: &str, kind: &str, version: &str) -> String {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let names = json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": names,
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]},
    });
    format!("---\n{crd}\n")
}

/// A marked object.
fn marked(api_version: &str, kind: &str, namespace: &str, name: &str, mark: &str) -> String {
    let labels = json!({mark: "yes"});
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    format!("---\n{}\n", json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}))
}

async fn until_violations(kaudit: &Running, namespace: &str, number: usize) -> Vec<Value> {
    wait_for(&format!("{number} violations"), || async {
        let results = results_in(&kaudit.status(), namespace);
        (results.len() == number).then_some(results)
    })
    .await
}

async fn until_state(kaudit: &Running, (group, resource): (&str, &str), state: &str) {
    wait_for(&format!("{resource} to be {state:?}"), || async {
        (state_of(&kaudit.status(), group, resource) == state).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_kind_joins_when_its_crd_comes_and_takes_its_verdicts_with_it_when_that_goes() {
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
    let metric = || async { (kaudit.metric(series) == Some(1.0)).then_some(()) };
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
async fn a_forbidden_kind_is_named_and_joins_when_the_right_is_given() {
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
    assert_eq!(kaudit.status()["complete"], true);
    assert_eq!(kaudit.stop().await, Some(0));
}

const DOWN: &str = r#"
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
"#;

async fn until_announced(plane: &ControlPlane, group: &str) {
    let client = plane.admin().unwrap();
    wait_for(&format!("the group {group}"), || async {
        let served = kaudit::discovery::discover(&client).await.unwrap();
        served.stale.iter().any(|stale| stale.group == group).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_aggregated_api_that_is_down_costs_only_its_own_kinds() {
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
async fn a_kind_is_read_in_a_version_its_group_does_not_prefer_and_both_ways_of_discovery_agree() {
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
    // As kaudit asks: kube's own client tries a group that is down for minutes.
    let access = Access { kubeconfig: Some(plane.kubeconfig()), ..Access::default() };
    let client = Clients::new(&access).await.unwrap().plain;
    let aggregated = kaudit::discovery::discover(&client).await.unwrap();
    let by_group = kaudit::discovery::discover_by_group(&client).await.unwrap();
    assert_eq!(format!("{:#?}", aggregated.kinds), format!("{:#?}", by_group.kinds));
    let groups = |served: &kaudit::discovery::Served| {
        served.stale.iter().map(|stale| (stale.group.clone(), stale.version.clone())).collect::<Vec<_>>()
    };
    assert_eq!(groups(&aggregated), groups(&by_group));
    plane.kubectl(&["delete", "apiservice", "v1.down.example.com"]).await.unwrap();
    plane.kubectl(&["delete", "crd", names[0], names[1]]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_over_the_sync_timeout_is_left_out_and_joins_later() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("slow").await.unwrap();
    let objects = marked("v1", "Secret", &namespace, "late", &namespace);
    plane.apply(&objects).await.unwrap();
    let proxy = Proxy::holding(plane, "/api/v1/secrets").await;
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let policies = directory.path().to_str().unwrap();
    let scope = ["--policies", policies, "--exclude=*", "--include=cm,secrets", "--sync-timeout=2s"];

    let ended = run(proxy.kubeconfig(), &[&["check", "--once", "-o", "json"], &scope[..]].concat()).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let result = ended.json();
    assert_eq!(state_of(&result, "", "secrets"), "timedOut");
    assert!(coverage_of(&result, "", "configmaps").unwrap()["objects"].as_u64().unwrap() > 0, "{result}");

    let kaudit = Running::start(proxy.kubeconfig(), &[&["--record=none"], &scope[..]].concat()).await;
    kaudit.ready().await;
    assert_eq!(state_of(&kaudit.status(), "", "secrets"), "timedOut");
    plane.apply(&marked("v1", "ConfigMap", &namespace, "early", &namespace)).await.unwrap();
    until_violations(&kaudit, &namespace, 1).await;
    proxy.release();
    until_violations(&kaudit, &namespace, 2).await;
    assert_eq!(kaudit.status()["complete"], true);
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_cannot_be_read_is_named_and_costs_no_other() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let good = json!({"metadata": {"name": "good", "namespace": "default", "uid": "g", "labels": {"odd": "yes"}}});
    let odd = json!({"metadata": {"name": 7, "namespace": "default", "uid": "o", "labels": {"odd": "yes"}}});
    let list = |items: Value| {
        let metadata = json!({"resourceVersion": "1"});
        json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items}).to_string()
    };
    let directory = policies(&[("marked.rego", &denies_marked("odd"))]);
    let policies = directory.path().to_str().unwrap();
    let arguments =
        ["check", "--once", "-o", "json", "--policies", policies, "--exclude=*", "--include=configmaps,secrets"];
    for (items, code) in [(json!([odd]), 3), (json!([odd, good]), 1)] {
        let proxy = Proxy::answering(plane, "/api/v1/configmaps", list(items)).await;
        let ended = run(proxy.kubeconfig(), &arguments).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let result = ended.json();
        let configmaps = coverage_of(&result, "", "configmaps").unwrap();
        assert!(configmaps["message"].as_str().unwrap().contains("could not be read"), "{configmaps}");
        assert_eq!(result["complete"], false);
    }
}

#[tokio::test]
async fn what_is_there_at_the_start_can_be_the_base_line() {
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

#[tokio::test]
async fn a_wrong_name_of_a_kind_or_context_is_answered_with_the_right_ones() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let directory = policies(&[("marked.rego", &denies_marked("none"))]);
    let policies = directory.path().to_str().unwrap();
    let common = ["check", "--once", "--policies", policies];
    for (argument, hint) in [
        ("--include=deploymnets", "the nearest name is deployments"),
        ("--exclude=secret.apps", "the cluster serves no kind secret.apps"),
        ("--context=elsewhere", "cannot use the context \"elsewhere\" (contexts in the kubeconfig: test)"),
    ] {
        let ended = run(&plane.kubeconfig(), &[&common[..], &[argument]].concat()).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(hint), "{ended:?}");
    }
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_is_given_up_on_in_seconds() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    // Takes all that comes and never says anything.
    std::thread::spawn(move || {
        for mut stream in silent.incoming().map_while(Result::ok) {
            std::thread::spawn(move || stream.read_to_end(&mut Vec::new()));
        }
    });
    let closed_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let directory = policies(&[("marked.rego", &denies_marked("none"))]);
    let policies = directory.path().to_str().unwrap();
    let cases = [
        (format!("https://127.0.0.1:{closed_port}"), "Check that the cluster runs, that the address"),
        (format!("https://127.0.0.1:{silent_port}"), "Check that the cluster runs"),
        (format!("http://127.0.0.1:{silent_port}"), "did not answer within"),
    ];
    let runs = cases.iter().flat_map(|case| [(case, "--once"), (case, "--listen=127.0.0.1:0")]);
    let runs = runs.map(|((server, hint), mode)| async move {
        let files = tempfile::tempdir().unwrap();
        let kubeconfig = proxy::kubeconfig(files.path(), server);
        let begin = Instant::now();
        let ended = run(&kubeconfig, &["check", "--policies", policies, mode]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(server) && ended.stderr.contains(hint), "{ended:?}");
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    });
    futures::future::join_all(runs).await;
}
