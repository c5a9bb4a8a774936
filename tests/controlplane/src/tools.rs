//! Finds the binaries the tests run.
//!
//! Called by the control plane for its servers, and by tests for `helm`, `opa` and others. The first that exists is
//! used: `TEST_ASSET_<NAME>`, `KUBEBUILDER_ASSETS`, our own build from `tests/tools`.
//!
//! Without `CI`, tests do not build [`Tool::Conftest`], [`Tool::Gator`], Prometheus, [`Tool::Alertmanager`],
//! [`Tool::Trivy`] and [`Tool::Sigstore`], which takes longer than all other tools together.

use std::env;
use std::io::{Write as _, stderr};
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::{
    go_build::{
        ALERTMANAGER, CEL, CONFTEST, GATOR, GRAFANA_SCHEMA, KUBERNETES, KYVERNO, Module, NATS, OPA, OPA_CASES, OTLP,
        PROMETHEUS, REGISTRY, SIGSTORE, TRIVY, go,
    },
    shared::use_existing_cluster,
};

/// A program run by tests that can be built with Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The API server.
    KubeApiserver,
    /// The API server's database.
    Etcd,
    /// The garbage collector and the namespace controller, among others.
    KubeControllerManager,
    /// The command line client.
    Kubectl,
    /// Prints manifests as kubectl parses them.
    KubectlRead,
    /// The chart renderer.
    Helm,
    /// The reference implementation of Rego.
    Opa,
    /// conftest.
    Conftest,
    /// Gatekeeper without a cluster.
    Gator,
    /// Prints OPA's compliance test cases; needs Go at run time.
    OpaCases,
    /// OPA as a library, with a prepared query.
    Prepared,
    /// Prometheus.
    Prometheus,
    /// Checks and tests Prometheus rules.
    Promtool,
    /// Forwards ports of pods, as a kubelet does.
    Forwarder,
    /// Alertmanager's API and its store of alerts.
    Alertmanager,
    /// Checks a dashboard with the types that Grafana publishes.
    GrafanaSchema,
    /// The receiver of the OpenTelemetry Collector.
    OtlpReceiver,
    /// Trivy's scanner of Kubernetes objects; needs Go to provide its library.
    Trivy,
    /// Evaluates CEL expressions as the API server does.
    Cel,
    /// Kyverno's engine for policies in CEL; needs Go to provide its library.
    Kyverno,
    /// A registry of OCI artifacts.
    Registry,
    /// The NATS server.
    NatsServer,
    /// Creates keyless signatures with its own Sigstore, and verifies with sigstore-go.
    Sigstore,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Etcd => "etcd",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::KubectlRead => "kubectl-read",
            Self::Helm => "helm",
            Self::Opa => "opa",
            Self::Conftest => "conftest",
            Self::Gator => "gator",
            Self::OpaCases => "opa-cases",
            Self::Prepared => "prepared",
            Self::Prometheus => "prometheus",
            Self::Promtool => "promtool",
            Self::Forwarder => "forwarder",
            Self::Alertmanager => "alertmanager",
            Self::GrafanaSchema => "grafana-schema",
            Self::OtlpReceiver => "otlp-receiver",
            Self::Trivy => "trivy",
            Self::Cel => "cel",
            Self::Kyverno => "kyverno",
            Self::Registry => "registry",
            Self::NatsServer => "nats-server",
            Self::Sigstore => "sigstore",
        }
    }

    fn module(self) -> &'static Module {
        match self {
            Self::Opa => &OPA,
            Self::Gator => &GATOR,
            Self::OpaCases => &OPA_CASES,
            Self::Conftest | Self::Prepared => &CONFTEST,
            Self::Prometheus | Self::Promtool => &PROMETHEUS,
            Self::Alertmanager => &ALERTMANAGER,
            Self::GrafanaSchema => &GRAFANA_SCHEMA,
            Self::OtlpReceiver => &OTLP,
            Self::Trivy => &TRIVY,
            Self::Cel => &CEL,
            Self::Kyverno => &KYVERNO,
            Self::Registry => &REGISTRY,
            Self::NatsServer => &NATS,
            Self::Sigstore => &SIGSTORE,
            _ => &KUBERNETES,
        }
    }

    /// Returns the binary set in the environment, if any.
    fn asset(self) -> Result<Option<PathBuf>> {
        let variable = format!("TEST_ASSET_{}", self.name().to_uppercase().replace('-', "_"));
        if let Some(path) = env::var_os(&variable).filter(|value| !value.is_empty()) {
            let path = PathBuf::from(path);
            ensure!(path.is_file(), "{variable} is {}, which is not a file", path.display());
            return Ok(Some(path));
        }
        // Such a folder only contains some of the tools; the others are built.
        Ok(env::var_os("KUBEBUILDER_ASSETS")
            .filter(|value| !value.is_empty())
            .map(|folder| PathBuf::from(folder).join(self.name()))
            .filter(|path| path.is_file()))
    }

    /// Whether tests build it in CI only.
    fn is_for_ci(self) -> bool {
        matches!(
            self,
            Self::Conftest
                | Self::Gator
                | Self::Prometheus
                | Self::Promtool
                | Self::Alertmanager
                | Self::OtlpReceiver
                | Self::Trivy
                | Self::Kyverno
                | Self::Sigstore
        )
    }

    fn available(self) -> Result<(), String> {
        let name = self.name();
        if self.asset().map_err(|error| error.to_string())?.is_some() || self.module().is_built() {
            return Ok(());
        }
        if go().is_none() {
            return Err(format!(
                "no {name}: set KUBEBUILDER_ASSETS to a folder that holds it, or install Go to build it"
            ));
        }
        if self.is_for_ci() && !in_ci() {
            return Err(format!(
                "not tried with {name}: `.ci/run` and `CI=true cargo test` build it, which takes minutes"
            ));
        }
        Ok(())
    }
}

/// Returns the path of `tool`, and builds it if necessary, which takes minutes.
///
/// # Errors
///
/// If the environment names a missing file, or the build fails.
pub fn tool(tool: Tool) -> Result<PathBuf> {
    match tool.asset()? {
        Some(path) => Ok(path),
        None => Ok(tool.module().build()?.join(tool.name())),
    }
}

/// Whether a control plane is available: set in the environment, already built, or buildable with Go.
///
/// # Errors
///
/// If it is not available, with the reason.
pub fn available() -> Result<(), String> {
    if use_existing_cluster() {
        return Ok(());
    }
    [Tool::KubeApiserver, Tool::Etcd, Tool::Kubectl].into_iter().try_for_each(Tool::available)
}

/// Whether a test that needs a control plane can run; prints a message if not.
///
/// # Panics
///
/// If `CI` is set and there is no control plane, because a skipped test proves nothing there.
#[must_use]
pub fn require() -> bool {
    decide(available())
}

/// Whether a test that needs `tool` can run; like [`require`], but without `CI`, tools that are only used for
/// comparison are not built.
///
/// # Panics
///
/// If `CI` is set and the tool is not available.
#[must_use]
pub fn require_tool(tool: Tool) -> bool {
    decide(tool.available())
}

pub(crate) fn decide(available: Result<(), String>) -> bool {
    let Err(reason) = available else { return true };
    assert!(!in_ci(), "{reason}");
    print_uncaptured(&format!("SKIPPED {}: {reason}", std::thread::current().name().unwrap_or("a test")));
    false
}

fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Writes a line to the real standard error, which the test harness does not capture.
pub(crate) fn print_uncaptured(line: &str) {
    // If standard error is closed, there is nowhere to report the failure.
    drop(writeln!(stderr(), "{line}"));
}
