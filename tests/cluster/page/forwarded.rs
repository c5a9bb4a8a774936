//! The page of a release via `kubectl port-forward`, through the API server and a node.

use std::{path::Path, process::Command};

use kaudit_controlplane::{Tool, require_tool, shared, tool};
use kaudit_test_support::long_run::get;
use serde_json::json;

use crate::{
    chart::render,
    program::Program,
    support::{Running, denies_marked, marked, policies, wait_for},
};

fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(tool(Tool::Kubectl).unwrap());
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn port_forward_reaches_the_page_of_a_release() {
    if !require_tool(Tool::Helm) || !require_tool(Tool::Forwarder) {
        return;
    }
    let plane = shared().await;
    let release = plane.temp_namespace("kaudit").await.unwrap();
    let rendered = render(&release, &["ui.enabled=true", "record={events}"]).await;
    rendered.install(plane).await;
    plane.apply(&marked("v1", "ConfigMap", &release, "first", &release)).await.unwrap();
    let user = plane.service_account(&release, rendered.name("ServiceAccount")).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&release))]);
    let arguments = rendered.arguments(directory.path().to_str().unwrap());
    let kaudit =
        Running::start(user.kubeconfig_path(), &arguments.iter().map(String::as_str).collect::<Vec<_>>()).await;
    kaudit.ready().await;
    let mut forwarder = Command::new(tool(Tool::Forwarder).unwrap());
    let (_forwarder, port) =
        Program::start(forwarder.arg(kaudit.page().await.to_string()), |line| line.parse::<u16>().ok());

    // A fake node that only forwards ports, and the release's pod on it.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": release}});
    let deployment = rendered.of_kinds(&["Deployment"]).next().unwrap();
    let template = &deployment["spec"]["template"];
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
    pod["metadata"]["name"] = json!("kaudit");
    pod["metadata"]["namespace"] = json!(release);
    pod["spec"]["nodeName"] = json!(release);
    plane.apply(&format!("{node}\n---\n{deployment}\n---\n{pod}")).await.unwrap();
    let of_node = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    let of_pod = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    for (object, status) in [(format!("node/{release}"), of_node), ("pod/kaudit".to_owned(), of_pod)] {
        let status = status.to_string();
        plane.kubectl(&["-n", &release, "patch", &object, "--subresource=status", "-p", &status]).await.unwrap();
    }

    let name = format!("deployment/{}", rendered.name("Deployment"));
    let mut port_forward = kubectl(&plane.kubeconfig(), &["-n", &release, "port-forward", &name, ":8082"]);
    let (connection, address) = Program::start(&mut port_forward, |line| {
        line.strip_prefix("Forwarding from ")?.split(' ').next()?.parse().ok()
    });
    let object = format!("ConfigMap {release}/first");
    let shown = [&object, "marked/deny", "is checked by 1 rule."];
    let has_all = |page: &String| shown.iter().all(|text| page.contains(text));
    wait_for("the page", || async { get(address, "/").filter(has_all) }).await;
    assert!(get(address, "/style.css").is_some());

    drop(connection);
    assert_eq!(kaudit.stop().await, Some(0));
    plane.kubectl(&["delete", "node", &release]).await.unwrap();
    plane.kubectl(&["-n", &release, "delete", "pod/kaudit", "--grace-period=0", "--force"]).await.unwrap();
}
