//! Shared test support: running the real binary, and waiting for conditions with a deadline.

use std::{
    future::Future,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use kaudit_controlplane::{ControlPlane, Options};
use kaudit_test_support::{
    child::ChildGuard,
    long_run::{self, admin_address, get, page_address},
};
use serde_json::{Value, json};
use tokio::sync::{MutexGuard, OnceCell};

pub(crate) use kaudit_test_support::files::folder as policies;

/// Timeout for every condition that a test waits for; generous, as machines are shared.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// Timeout of a run that ends by itself. It may compute all that time: thousands of manifests are evaluated by an
/// unoptimized binary.
const RUN: Duration = Duration::from_mins(5);

/// Polls until `probe` returns a value; after [`PATIENCE`], panics with `what`.
pub(crate) async fn wait_for<T, F: Future<Output = Option<T>>>(what: &str, mut probe: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The result of a finished process.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit code.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Ended {
    /// Returns standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Returns a command for kaudit with a kubeconfig, without environment variables of the test.
pub(crate) fn kaudit(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = long_run::kaudit(Path::new(env!("CARGO_BIN_EXE_kaudit")), kubeconfig);
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// Runs kaudit to its end, within [`RUN`].
pub(crate) async fn run(kubeconfig: &Path, arguments: &[&str]) -> Ended {
    finish(kaudit(kubeconfig, arguments)).await
}

/// Runs a command to its end, within [`RUN`].
pub(crate) async fn finish(mut command: Command) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = child.id();
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    let Ok(output) = tokio::time::timeout(RUN, waiting).await else {
        // The process was not waited for, so the id is still valid.
        drop(Command::new("kill").arg("-KILL").arg(pid.to_string()).status());
        panic!("waited {RUN:?} in vain for the end of {command:?}");
    };
    let output = output.unwrap().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A long run. It is killed at the end of the test, also on failure.
pub(crate) struct Running {
    child: ChildGuard,
    address: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Running {
    /// Starts `kaudit check` with `arguments`, and waits until it listens. Results go to standard output and are
    /// dropped.
    pub(crate) async fn start(kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::launch(kaudit(kubeconfig, &[]), arguments).await
    }

    /// The same, with a command without arguments.
    pub(crate) async fn launch(mut command: Command, arguments: &[&str]) -> Self {
        // Outside of a Pod nothing is recorded by default; an option overrides the environment.
        command.env("KAUDIT_RECORD", "events,reports,status");
        command.args(["check", "--listen=127.0.0.1:0", "--log-format=json"]);
        let mut child =
            command.args(arguments).stdout(Stdio::null()).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, copy) = (child.stderr.take().unwrap(), log.clone());
        // Also drains the pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = copy.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        // Constructed before anything can panic, so that the process is ended when it is dropped.
        let mut running = Self { child: ChildGuard(child), address: SocketAddr::from(([127, 0, 0, 1], 0)), log };
        running.address = running.serves("health, metrics and status", admin_address).await;
        running
    }

    /// Returns the address of its page.
    pub(crate) async fn page(&self) -> SocketAddr {
        self.serves("the page", page_address).await
    }

    /// Waits until `address` finds an address in the log.
    async fn serves(&self, what: &str, address: fn(&str) -> Option<SocketAddr>) -> SocketAddr {
        wait_for(&format!("kaudit to serve {what}"), || async { address(&self.log()) }).await
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Returns the address of health, metrics and status.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gets a path of its server; `None` without a response 200.
    pub(crate) fn get(&self, path: &str) -> Option<String> {
        get(self.address, path)
    }

    /// Waits until the gate is open.
    pub(crate) async fn ready(&self) {
        wait_for(&format!("readiness; log:\n{}", self.log()), || async { self.get("/readyz") }).await;
    }

    /// Returns `/status` as JSON. On a busy machine the pipeline may not respond within the seconds after which the server
    /// gives up.
    pub(crate) fn status(&self) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let body = loop {
            match self.get("/status") {
                Some(body) => break body,
                None => assert!(self.is_alive() && Instant::now() < deadline, "no /status; log:\n{}", self.log()),
            }
        };
        serde_json::from_str(&body).unwrap()
    }

    /// Returns the value of the metric line that begins with `series`, as a count.
    pub(crate) fn metric(&self, series: &str) -> Option<usize> {
        let metrics = self.get("/metrics")?;
        metrics.lines().find_map(|line| line.strip_prefix(series)?.trim().trim_end_matches(".0").parse().ok())
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Whether the process is running.
    pub(crate) fn is_alive(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && !line.contains("zombie"))
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        self.child.signal(name);
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) fn kill(mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        wait_for("kaudit to stop", || {
            let ended = self.child.0.try_wait().unwrap();
            async move { ended }
        })
        .await
        .code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of kaudit ---\n{}", self.log());
        }
    }
}

/// Returns the results in a namespace, sorted, without fields that differ between runs.
pub(crate) fn results_in(result: &Value, namespace: &str) -> Vec<Value> {
    let results = result["results"].as_array().unwrap_or_else(|| panic!("no results in {result}"));
    results.iter().filter(|entry| entry["resource"]["namespace"] == namespace).cloned().collect()
}

/// Returns the coverage of a kind.
pub(crate) fn coverage_of(result: &Value, group: &str, resource: &str) -> Option<Value> {
    let coverage = result["coverage"].as_array().unwrap_or_else(|| panic!("no coverage in {result}"));
    coverage.iter().find(|kind| kind["group"] == group && kind["resource"] == resource).cloned()
}

/// Returns the state of a kind in the coverage; empty if it is missing.
pub(crate) fn state_of(result: &Value, group: &str, resource: &str) -> String {
    coverage_of(result, group, resource).map_or(String::new(), |kind| kind["state"].as_str().unwrap().to_owned())
}

/// Returns a policy that denies every object with the label `mark`, with its value in the message. A unique mark
/// isolates the test from others in the same cluster.
pub(crate) fn denies_marked(mark: &str) -> String {
    format!(
        r#"
package marked
deny contains msg if {{
    value := input.metadata.labels["{mark}"]
    msg := sprintf("marked %v", [value])
}}
"#
    )
}

/// Returns a second control plane, without kaudit's CRD, for kinds and API groups that are added and removed; one test
/// at a time.
pub(crate) async fn bare_plane() -> MutexGuard<'static, ControlPlane> {
    static PLANE: OnceCell<tokio::sync::Mutex<ControlPlane>> = OnceCell::const_new();
    let start = || async { tokio::sync::Mutex::new(ControlPlane::start(Options::default()).await.unwrap()) };
    PLANE.get_or_init(start).await.lock().await
}

/// Returns a CRD without a schema.
pub(crate) fn crd(group: &str, plural: &str, kind: &str, version: &str) -> String {
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

/// Returns a marked object.
pub(crate) fn marked(api_version: &str, kind: &str, namespace: &str, name: &str, mark: &str) -> String {
    let labels = json!({mark: "yes"});
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    format!("---\n{}\n", json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}))
}

/// Waits until `namespace` has `number` open results, and returns them.
pub(crate) async fn until_violations(kaudit: &Running, namespace: &str, number: usize) -> Vec<Value> {
    wait_for(&format!("{number} violations"), || async {
        let results = results_in(&kaudit.status(), namespace);
        (results.len() == number).then_some(results)
    })
    .await
}

/// Creates CRDs and waits until they are served.
pub(crate) async fn establish(plane: &ControlPlane, crds: &str, names: &[&str]) {
    plane.apply(crds).await.unwrap();
    for name in names {
        let crd = format!("crd/{name}");
        plane.kubectl(&["wait", "--for=condition=Established", &crd, "--timeout=60s"]).await.unwrap();
    }
}

/// Creates the CRD of audits.
pub(crate) async fn establish_audits(plane: &ControlPlane) {
    let crd = include_str!("../../charts/kaudit/crds/audits.kaudit.dev.yaml");
    establish(plane, crd, &["audits.kaudit.dev"]).await;
}

/// Creates the CRD of `PolicyExceptions`.
pub(crate) async fn establish_exceptions(plane: &ControlPlane) {
    let crd = include_str!("../../charts/kaudit/crds/policyexceptions.kaudit.dev.yaml");
    establish(plane, crd, &["policyexceptions.kaudit.dev"]).await;
}
