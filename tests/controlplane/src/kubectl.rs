//! kubectl commands and namespaces of tests.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use http::Request;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::{
    plane::ControlPlane,
    server::random,
    tools::{Tool, tool},
    users::User,
};

/// How often objects are applied if the server does not complete the request in time, as on a busy machine.
const APPLY_ATTEMPTS: usize = 3;
const TIMED_OUT: &str = "did not complete within requested timeout";

impl ControlPlane {
    /// Runs kubectl as admin and returns its output.
    ///
    /// # Errors
    ///
    /// If kubectl fails, with its standard error.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.run_kubectl(self.admin_user(), args, String::new()).await
    }

    /// Runs kubectl as `user` and returns its output.
    ///
    /// # Errors
    ///
    /// If kubectl fails, with its standard error.
    pub async fn kubectl_as(&self, user: &User, args: &[&str]) -> Result<String> {
        self.run_kubectl(user, args, String::new()).await
    }

    /// Applies the objects of a YAML text with server-side apply.
    ///
    /// # Errors
    ///
    /// If an object is rejected, or its kind is not served yet.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        let args = ["apply", "--server-side", "--force-conflicts", "--field-manager=kaudit-test", "-f", "-"];
        for _ in 1..APPLY_ATTEMPTS {
            match self.run_kubectl(self.admin_user(), &args, yaml.to_owned()).await {
                Err(error) if error.to_string().contains(TIMED_OUT) => {}
                other => return other.map(drop),
            }
        }
        self.run_kubectl(self.admin_user(), &args, yaml.to_owned()).await.map(drop)
    }

    /// Creates a namespace with a unique name that starts with `prefix`, and returns the name.
    ///
    /// # Errors
    ///
    /// If the namespace is rejected.
    pub async fn temp_namespace(&self, prefix: &str) -> Result<String> {
        let name = format!("{prefix}-{:010x}", random() >> 24);
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kaudit-test": "true"}},
        });
        let request = Request::post("/api/v1/namespaces")
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&namespace)?)?;
        self.admin()?.request::<Value>(request).await.context("creating a namespace")?;
        Ok(name)
    }

    async fn run_kubectl(&self, user: &User, args: &[&str], input: String) -> Result<String> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let kubeconfig = user.kubeconfig_path().to_owned();
        // The default cache is shared and keyed by port, which may be that of an earlier plane.
        let cache = self.home().join("kubectl-cache");
        spawn_blocking(move || {
            let mut child = Command::new(tool(Tool::Kubectl)?)
                .arg("--kubeconfig")
                .arg(kubeconfig)
                .args(&args)
                .env("KUBECACHEDIR", cache)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            let mut stdin = child.stdin.take().context("kubectl has no input")?;
            if !input.is_empty() {
                stdin.write_all(input.as_bytes())?;
            }
            drop(stdin);
            let output = child.wait_with_output()?;
            let error = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "kubectl {args:?}: {}", error.trim());
            Ok(String::from_utf8(output.stdout)?)
        })
        .await?
    }
}
