//! `check --once` with several contexts.

use std::{fs, path::PathBuf};

use kaudit_controlplane::{require, shared};
use kube::config::Kubeconfig;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    basics::BAD_LABEL,
    support::{policies, run},
};

/// Writes a kubeconfig with two contexts of the shared cluster and one of a server that does not respond.
fn contexts(folder: &TempDir, kubeconfig: PathBuf) -> PathBuf {
    let mut config = Kubeconfig::read_from(kubeconfig).unwrap();
    let (context, mut cluster) = (config.contexts[0].clone(), config.clusters[0].clone());
    "gone".clone_into(&mut cluster.name);
    cluster.cluster.as_mut().unwrap().server = Some("https://127.0.0.1:1".to_owned());
    config.clusters.push(cluster);
    config.contexts.clear();
    for name in ["blue", "green", "gone"] {
        let mut context = context.clone();
        name.clone_into(&mut context.name);
        if name == "gone" {
            "gone".clone_into(&mut context.context.as_mut().unwrap().cluster);
        }
        config.contexts.push(context);
    }
    let path = folder.path().join("kubeconfig");
    fs::write(&path, serde_json::to_string(&config).unwrap()).unwrap();
    path
}

#[tokio::test]
async fn several_clusters_have_one_result_with_their_names() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("contexts").await.unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "one"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", "bad=yes"]).await.unwrap();
    let folder = policies(&[("demo.rego", BAD_LABEL)]);
    let kubeconfig = contexts(&folder, plane.kubeconfig());
    let path = folder.path().to_str().unwrap();
    let common = ["check", "--once", "-p", path, "-n", &namespace, "--kinds=judged", "--include=configmaps"];
    let with = |options: &[&'static str]| [&common[..], options].concat();

    let both = run(&kubeconfig, &with(&["--context=blue,green", "-o", "json"])).await;
    assert_eq!(both.code, Some(1), "{both:?}");
    let result = both.json();
    let clusters: Vec<&Value> =
        result["results"].as_array().unwrap().iter().map(|entry| &entry["resource"]["cluster"]).collect();
    assert_eq!(clusters, ["blue", "green"], "{result}");
    assert_eq!(result["scope"]["clusters"], serde_json::json!(["blue", "green"]));
    assert_eq!((&result["complete"], &result["summary"]["fail"]), (&true.into(), &2.into()), "{result}");
    assert_eq!(result["policies"][0]["objects"]["deny"]["failing"], 2, "{result}");
    let text = run(&kubeconfig, &with(&["--context=blue", "--context=green"])).await;
    assert!(text.stdout.contains(&format!("green: {namespace}")), "{text:?}");
    assert!(text.stdout.contains(&format!("green: ConfigMap {namespace}/one")), "{text:?}");

    // A baseline of both contains the violations of each.
    let baseline = folder.path().join("baseline.json");
    let baseline = baseline.to_str().unwrap();
    let written =
        run(&kubeconfig, &[&with(&["--context=blue,green"])[..], &["--write-baseline", baseline]].concat()).await;
    assert_eq!(written.code, Some(0), "{written:?}");
    let compared = run(&kubeconfig, &[&with(&["--context=blue,green"])[..], &["--baseline", baseline]].concat()).await;
    assert_eq!(compared.code, Some(0), "{compared:?}");

    let all = run(&kubeconfig, &with(&["--all-contexts", "-o", "json"])).await;
    assert_eq!(all.code, Some(1), "{all:?}");
    let result = all.json();
    assert_eq!((&result["complete"], &result["summary"]["fail"]), (&false.into(), &2.into()), "{result}");
    let lenient = run(&kubeconfig, &with(&["--all-contexts", "--fail-on=none"])).await;
    assert_eq!(lenient.code, Some(3), "{lenient:?}");
    assert!(lenient.stdout.contains("gone: the API server at https://127.0.0.1:1/"), "{lenient:?}");
    let none = run(&kubeconfig, &with(&["--context=gone,nowhere"])).await;
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.stderr.contains("no cluster could be checked"), "{none:?}");
    assert!(none.stderr.contains("nowhere: cannot use the context \"nowhere\""), "{none:?}");
}

#[tokio::test]
async fn several_clusters_are_rejected_where_one_is_required() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let folder = policies(&[("demo.rego", BAD_LABEL)]);
    let kubeconfig = contexts(&folder, plane.kubeconfig());
    let path = folder.path().to_str().unwrap();
    for (options, why) in [
        (&["check", "--context=blue,green"][..], "only with --once"),
        (&["check", "--all-contexts"], "only with --once"),
        (&["check", "--once", "--all-contexts", "--record=events"], "--record works for one cluster only"),
        (&["check", "--once", "--context=blue,green", "-o", "openreport"], "-o openreport works for one cluster only"),
        (&["explain", "Deployment", "default/web", "demo/deny", "--context=blue,green"], "--context names 2 contexts"),
    ] {
        let ended = run(&kubeconfig, &[options, &["-p", path]].concat()).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
    }
}
