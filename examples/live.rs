//! Demonstrates kaudit on a real cluster, in a minute: `cargo run --release --example live`
//!
//! Starts etcd and kube-apiserver (built from Go modules the first time, which takes minutes), installs the chart's
//! objects, applies `examples/manifests`, and runs kaudit with the chart's ServiceAccount. Then it creates a violation,
//! fixes it, deletes another object that has one, and shows with kubectl what a team can see. It needs only Rust and
//! Go.
//!
//! `.ci/live` compares the output with `examples/README.md`.

use std::{ffi::OsString, future::Future, io::Write, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use kaudit_controlplane::{ControlPlane, Options, Tool, tool};

/// The namespace of the release.
const NAMESPACE: &str = "kaudit";
const PATIENCE: Duration = Duration::from_mins(1);

/// A Deployment without violations. The demonstration first deploys it with a privileged container.
const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: debug, namespace: shop, labels: {app: debug}}
spec:
  selector: {matchLabels: {app: debug}}
  template:
    metadata: {labels: {app: debug}}
    spec:
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: shell
        image: registry.example.com/tools/shell:2.1@sha256:7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730
        resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 32Mi}}
        readinessProbe: &probe {exec: {command: ["true"]}}
        livenessProbe: *probe
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"#;

/// The parts of the library that the documents show results of.
const PARTS: [&str; 10] = [
    "deprecated_apis",
    "images",
    "ingress",
    "pod_security",
    "probes",
    "rbac",
    "resources",
    "secrets",
    "service_accounts",
    "services",
];

#[tokio::main]
async fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::set_current_dir(root)?;
    print_step("Start a control plane, install the chart's objects, apply examples/manifests")?;
    let plane = ControlPlane::start(Options { controller_manager: true, ..Options::default() }).await?;
    plane.kubectl(&["create", "namespace", NAMESPACE]).await?;
    plane.kubectl(&["apply", "-f", "charts/kaudit/crds"]).await?;
    plane.kubectl(&["wait", "--for=condition=Established", "crd/audits.kaudit.dev", "--timeout=60s"]).await?;
    plane.apply(&render_chart(root)?).await?;
    plane.kubectl(&["apply", "-f", "examples/manifests/namespace.yaml"]).await?;
    plane.kubectl(&["apply", "-f", "examples/manifests"]).await?;

    let account = plane.service_account(NAMESPACE, "kaudit").await?;
    let kubeconfig = account.kubeconfig_path().display().to_string();
    print_step("Run kaudit check with the chart's ServiceAccount; its lines start with a timestamp")?;
    let record = "--record=events,reports,status";
    let policies = PARTS.map(|part| OsString::from(format!("--policies=builtin:{part}")));
    let arguments = ["kaudit", "check", record, "--skip-rule=SA-03", "--log-level=error", "--kubeconfig", &kubeconfig];
    let arguments = arguments.map(OsString::from).into_iter().chain(policies);
    let kaudit::cli::Subcommand::Check(check) = kaudit::cli::config::load(arguments)? else {
        bail!("not the command check")
    };
    let telemetry = kaudit::telemetry::Telemetry::start();
    tokio::select! {
        ended = Box::pin(kaudit::commands::check::run(*check, &telemetry)) => bail!("kaudit ended: {ended:?}"),
        shown = demonstrate(&plane) => shown?,
    }
    plane.stop().await
}

/// Changes objects and shows what a running kaudit writes about them.
async fn demonstrate(plane: &ControlPlane) -> Result<()> {
    plane.kubectl(&["-n", NAMESPACE, "wait", "--for=create", "audit/kaudit", "--timeout=60s"]).await?;
    show(plane, &["-n", NAMESPACE, "wait", "--for=condition=Synced", "audit/kaudit", "--timeout=60s"]).await?;
    until_events(plane, "", "PolicyViolation", 14).await?;
    show(plane, &["-n", "shop", "get", "events", "--field-selector=reason=PolicyViolation"]).await?;
    until_failures(plane, "11").await?;
    show(plane, &["get", "audits", "-A"]).await?;

    let privileged = DEPLOYMENT.replace("allowPrivilegeEscalation: false", "privileged: true");
    print_step("Deploy a privileged container")?;
    plane.apply(&privileged).await?;
    until_events(plane, "deployment/debug", "PolicyViolation", 2).await?;
    print_step("Fix it")?;
    plane.apply(DEPLOYMENT).await?;
    until_events(plane, "deployment/debug", "PolicyResolved", 2).await?;
    print_step("Delete the Service with the external address")?;
    plane.kubectl(&["-n", "shop", "delete", "service", "api"]).await?;
    until_events(plane, "service/api", "PolicyResolved", 2).await?;
    show(
        plane,
        &[
            "-n",
            "shop",
            "get",
            "events",
            "--sort-by=.metadata.creationTimestamp",
            "--field-selector=involvedObject.name=debug",
        ],
    )
    .await?;
    show(
        plane,
        &[
            "-n",
            "shop",
            "get",
            "events",
            "--sort-by=.metadata.creationTimestamp",
            "--field-selector=involvedObject.name=api,involvedObject.kind=Service",
        ],
    )
    .await?;
    until_failures(plane, "10").await?;
    show(plane, &["get", "audits", "-A"]).await
}

/// Waits until the status has a number of failures.
async fn until_failures(plane: &ControlPlane, count: &str) -> Result<()> {
    let failures = ["-n", NAMESPACE, "get", "audit/kaudit", "-o", "jsonpath={.status.summary.fail}"];
    wait_for(|| async { Ok(plane.kubectl(&failures).await? == count) }).await
}

/// Returns the chart's objects without the Deployment, since there is no node to run it.
fn render_chart(root: &Path) -> Result<String> {
    let output = std::process::Command::new(tool(Tool::Helm)?)
        .args(["template", "kaudit"])
        .arg(root.join("charts/kaudit"))
        .args(["--namespace", NAMESPACE])
        .output()?;
    ensure!(output.status.success(), "helm: {}", String::from_utf8_lossy(&output.stderr));
    let rendered = String::from_utf8(output.stdout)?;
    let parts = rendered.split("\n---").filter(|part| !part.contains("kind: Deployment"));
    Ok(parts.collect::<Vec<_>>().join("\n---"))
}

/// Waits for a number of Events with a reason in the namespace `shop`: about one object, named as by kubectl, or about
/// all if `object` is empty.
async fn until_events(plane: &ControlPlane, object: &str, reason: &str, count: usize) -> Result<()> {
    wait_for(|| async {
        let events = plane.kubectl(&["-n", "shop", "get", "events"]).await?;
        Ok(events.lines().filter(|line| line.contains(object) && line.contains(reason)).count() == count)
    })
    .await
}

async fn show(plane: &ControlPlane, arguments: &[&str]) -> Result<()> {
    let output = plane.kubectl(arguments).await?;
    writeln!(std::io::stdout(), "\n$ kubectl {}\n{}", arguments.join(" "), output.trim_end())?;
    Ok(())
}

fn print_step(step: &str) -> Result<()> {
    writeln!(std::io::stdout(), "\n# {step}")?;
    Ok(())
}

async fn wait_for<F: Future<Output = Result<bool>>>(mut probe: impl FnMut() -> F) -> Result<()> {
    let wait = async {
        while !probe().await? {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, wait).await.context("the demonstration waited too long for the cluster")?
}
