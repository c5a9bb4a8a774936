//! kaudit with the simulated server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

use std::{future::Future, sync::Arc, time::Duration};

use kaudit::{
    cli::{Subcommand, config},
    commands::check,
    rego::analysis::yaml,
    telemetry::Telemetry,
};
use kaudit_simulation::server::{ADMIN, ApiServer, NoFaults, Settings};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const POLICY: &str = r#"
# METADATA
# title: Images
package images
# METADATA
# title: No latest
deny contains msg if {
    input.kind == "Pod"
    some container in input.spec.containers
    endswith(container.image, ":latest")
    msg := sprintf("%s uses %s", [container.name, container.image])
}
"#;

fn pod(name: &str, image: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": image}]}})
}

fn cluster() -> ApiServer {
    let server = ApiServer::new(Settings::default());
    for crd in ["audits", "policyexceptions"] {
        let path = format!("{}/../../charts/kaudit/crds/{crd}.kaudit.dev.yaml", env!("CARGO_MANIFEST_DIR"));
        let crd: Value = yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        server.create(&crd).unwrap();
    }
    server.create(&report_crd("reports", "Report", "Namespaced")).unwrap();
    server.create(&report_crd("clusterreports", "ClusterReport", "Cluster")).unwrap();
    server.tick();
    server
}

fn report_crd(plural: &str, kind: &str, scope: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.openreports.io")},
        "spec": {"group": "openreports.io", "scope": scope, "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}]}})
}

/// Runs `kaudit check` with these arguments as a user.
async fn check(server: &ApiServer, arguments: &[&str], stop: CancellationToken) -> (u8, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("policies")).unwrap();
    std::fs::write(folder.path().join("policies/images.rego"), POLICY).unwrap();
    let policies = folder.path().join("policies").display().to_string();
    let format = if arguments.contains(&"--once") { "json" } else { "ndjson" };
    let output = format!("{format}={}", folder.path().join("out.json").display());
    let given =
        ["kaudit", "check", "--policies", &policies, "-o", &output].into_iter().chain(arguments.iter().copied());
    let Subcommand::Check(mut check) = config::load(given.map(Into::into)).unwrap() else { panic!("no check") };
    check.cluster.transport = Some(server.transport("default", ADMIN, Arc::new(NoFaults)));
    let telemetry = Telemetry::start();
    let code = Box::pin(check::run_until(*check, &telemetry, stop)).await.unwrap();
    (code, folder)
}

fn result(folder: &tempfile::TempDir) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.path().join("out.json")).unwrap()).unwrap()
}

async fn until<T>(condition: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(found) = probe() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("timed out waiting for {condition}");
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(Box::pin(future))
}

#[test]
fn a_whole_cluster_is_checked_once() {
    run(async {
        let server = cluster();
        server.create(&pod("good", "a:1")).unwrap();
        server.create(&pod("bad", "a:latest")).unwrap();
        let (code, folder) = check(&server, &["--once"], CancellationToken::new()).await;
        let result = result(&folder);
        assert_eq!(code, 1, "{result:#}");
        assert_eq!(result["complete"], true, "{result:#}");
        let names: Vec<_> =
            result["results"].as_array().unwrap().iter().map(|r| r["resource"]["name"].clone()).collect();
        assert_eq!(names, ["bad"]);
        let refused: Vec<_> = server.requests().into_iter().filter(|entry| entry.code >= 400).collect();
        assert!(refused.is_empty(), "{refused:#?}");
    });
}

#[test]
fn a_long_run_records_events_reports_and_its_status() {
    run(async {
        let server = cluster();
        server.create(&pod("bad", "a:latest")).unwrap();
        let stop = CancellationToken::new();
        let world = async {
            let status = until("the status", || {
                let audit = server.list("kaudit.dev/v1alpha1", "Audit", "").unwrap().pop()?;
                (audit["status"]["summary"]["fail"] == 1).then_some(audit)
            });
            let status = status.await;
            let synced =
                status["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Synced").cloned();
            assert_eq!(synced.unwrap()["status"], "True", "{status:#}");
            server
                .merge(
                    ("v1", "Pod", "default", "bad"),
                    &json!({"spec": {"containers": [{"name": "a", "image": "a:1"}]}}),
                )
                .unwrap();
            until("two Events", || {
                let events = server.list("events.k8s.io/v1", "Event", "default").unwrap();
                (events.len() == 2).then_some(())
            })
            .await;
            until("no report", || {
                server.list("openreports.io/v1alpha1", "Report", "").unwrap().is_empty().then_some(())
            })
            .await;
            stop.cancel();
        };
        let arguments = ["--record", "events,reports,status"];
        let ((code, _folder), ()) = tokio::join!(Box::pin(check(&server, &arguments, stop.clone())), world);
        assert_eq!(code, 0);
        let lost: Vec<_> =
            server.requests().into_iter().filter(|entry| entry.code >= 400 && entry.code != 404).collect();
        assert!(lost.is_empty(), "{lost:#?}");
    });
}
