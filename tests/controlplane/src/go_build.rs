//! Builds the tools from the Go modules in `tests/tools`, once per target folder.
//!
//! The invariant: a folder with a stamp that matches holds every binary of its module. The stamp is
//! removed before a build and written after it, both under a lock.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::tools::print_uncaptured;

/// Modules are downloaded: a server that fails once does not end the tests.
const ATTEMPTS: u32 = 3;
/// The pause between attempts.
const PAUSE: Duration = Duration::from_secs(10);

/// A Go module of `tests/tools`.
pub(crate) struct Module {
    folder: &'static str,
    /// The module path whose version names the build.
    main: &'static str,
    packages: &'static [Package],
    /// Returns the linker flags that set the version of the binaries.
    version_flags: fn(&str) -> String,
    /// Build tags.
    tags: &'static str,
    /// The value of `GOEXPERIMENT`.
    experiment: &'static str,
}

/// The defaults of modules.
const PLAIN: Module =
    Module { folder: "", main: "", packages: &[], version_flags: |_| String::new(), tags: "", experiment: "" };

/// A main package and the name its binary gets.
struct Package {
    path: &'static str,
    binary: &'static str,
}

/// The API server, etcd, the controller manager, kubectl, a program that reads manifests as kubectl does, and one that
/// forwards ports as a kubelet does; also Helm, which shares most packages with them, so that building it with the same
/// versions takes a fraction of the time.
pub(crate) const KUBERNETES: Module = Module {
    folder: "kubernetes",
    main: "k8s.io/kubernetes",
    packages: &[
        Package { path: "k8s.io/kubernetes/cmd/kube-apiserver", binary: "kube-apiserver" },
        Package { path: "go.etcd.io/etcd/server/v3", binary: "etcd" },
        Package { path: "k8s.io/kubernetes/cmd/kube-controller-manager", binary: "kube-controller-manager" },
        Package { path: "k8s.io/kubernetes/cmd/kubectl", binary: "kubectl" },
        Package { path: "helm.sh/helm/v4/cmd/helm", binary: "helm" },
        Package { path: "kaudit/tests/tools/kubernetes/kubectl-read", binary: "kubectl-read" },
        Package { path: "kaudit/tests/tools/kubernetes/forwarder", binary: "forwarder" },
    ],
    version_flags: kubernetes_version,
    ..PLAIN
};

/// The reference implementation of Rego.
pub(crate) const OPA: Module = Module {
    folder: "opa",
    main: "github.com/open-policy-agent/opa",
    packages: &[Package { path: "github.com/open-policy-agent/opa", binary: "opa" }],
    ..PLAIN
};

/// Gatekeeper's command line, which evaluates its policies without a cluster.
pub(crate) const GATOR: Module = Module {
    folder: "gator",
    main: "github.com/open-policy-agent/gatekeeper/v3",
    packages: &[Package { path: "github.com/open-policy-agent/gatekeeper/v3/cmd/gator", binary: "gator" }],
    ..PLAIN
};

/// Alertmanager's API and its store of alerts.
pub(crate) const ALERTMANAGER: Module = Module {
    folder: "alertmanager",
    main: "github.com/prometheus/alertmanager",
    packages: &[Package { path: "kaudit/tests/tools/alertmanager", binary: "alertmanager" }],
    ..PLAIN
};

/// The types of dashboards that Grafana publishes, and a program that checks a dashboard with them.
pub(crate) const GRAFANA_SCHEMA: Module = Module {
    folder: "grafana-schema",
    main: "github.com/grafana/grafana-foundation-sdk/go",
    packages: &[Package { path: "kaudit/tests/tools/grafana-schema", binary: "grafana-schema" }],
    ..PLAIN
};

/// The receiver of the OpenTelemetry Collector, which prints what it receives.
pub(crate) const OTLP: Module = Module {
    folder: "otlp",
    main: "go.opentelemetry.io/collector/receiver/otlpreceiver",
    packages: &[Package { path: "kaudit/tests/tools/otlp", binary: "otlp-receiver" }],
    ..PLAIN
};

/// A program that prints OPA's compliance test cases.
pub(crate) const OPA_CASES: Module = Module {
    folder: "opa-cases",
    main: "github.com/open-policy-agent/opa",
    packages: &[Package { path: "kaudit/tests/tools/opa-cases", binary: "opa-cases" }],
    ..PLAIN
};

/// A registry of OCI artifacts, without cloud storage backends.
pub(crate) const REGISTRY: Module = Module {
    folder: "registry",
    main: "github.com/distribution/distribution/v3",
    packages: &[Package { path: "kaudit/tests/tools/registry", binary: "registry" }],
    ..PLAIN
};

/// conftest, and OPA as a library with prepared queries, which the benchmark measures.
pub(crate) const CONFTEST: Module = Module {
    folder: "conftest",
    main: "github.com/open-policy-agent/conftest",
    packages: &[
        Package { path: "github.com/open-policy-agent/conftest", binary: "conftest" },
        Package { path: "kaudit/tests/tools/conftest/prepared", binary: "prepared" },
    ],
    ..PLAIN
};

/// Trivy's scanner of Kubernetes objects, without the rest of Trivy.
pub(crate) const TRIVY: Module = Module {
    folder: "trivy",
    main: "github.com/aquasecurity/trivy",
    packages: &[Package { path: "kaudit/tests/tools/trivy", binary: "trivy" }],
    experiment: "jsonv2",
    ..PLAIN
};

/// A Sigstore without servers, and sigstore-go, which verifies what it signs.
pub(crate) const SIGSTORE: Module = Module {
    folder: "sigstore",
    main: "github.com/sigstore/sigstore-go",
    packages: &[Package { path: "kaudit/tests/tools/sigstore", binary: "sigstore" }],
    ..PLAIN
};

/// Kyverno's engine for policies in CEL.
pub(crate) const KYVERNO: Module = Module {
    folder: "kyverno",
    main: "github.com/kyverno/kyverno",
    packages: &[Package { path: "kaudit/tests/tools/kyverno", binary: "kyverno" }],
    ..PLAIN
};

/// The NATS server.
pub(crate) const NATS: Module = Module {
    folder: "nats",
    main: "github.com/nats-io/nats-server/v2",
    packages: &[Package { path: "github.com/nats-io/nats-server/v2", binary: "nats-server" }],
    ..PLAIN
};

/// The API server's environment for CEL expressions of admission policies.
pub(crate) const CEL: Module = Module {
    folder: "cel",
    main: "k8s.io/apiserver",
    packages: &[Package { path: "kaudit/tests/tools/cel", binary: "cel" }],
    ..PLAIN
};

/// Prometheus and promtool, without the service discovery in clouds, which is most of their size.
pub(crate) const PROMETHEUS: Module = Module {
    folder: "prometheus",
    main: "github.com/prometheus/prometheus",
    packages: &[
        Package { path: "github.com/prometheus/prometheus/cmd/prometheus", binary: "prometheus" },
        Package { path: "github.com/prometheus/prometheus/cmd/promtool", binary: "promtool" },
    ],
    tags: "remove_all_sd",
    ..PLAIN
};

/// Without these flags the server reports v0.0.0, and clients that check its version misbehave.
fn kubernetes_version(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let package = "k8s.io/component-base/version";
    format!("-X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}")
}

impl Module {
    /// Whether this version of the module is built.
    pub(crate) fn is_built(&self) -> bool {
        self.recipe().is_ok_and(|recipe| recipe.is_done())
    }

    /// Returns the folder with the module's binaries, and builds them if necessary.
    pub(crate) fn build(&self) -> Result<PathBuf> {
        let recipe = self.recipe()?;
        if recipe.is_done() {
            return Ok(recipe.output);
        }
        fs::create_dir_all(&recipe.output)?;
        // Only one build of any module at a time: each uses all processors, and too much memory for two.
        let lock = File::create(recipe.output.with_file_name("lock"))?;
        lock.lock().context("waiting for another build of tools")?;
        // Another process may have built them while we waited for the lock.
        if !recipe.is_done() {
            self.go_build(&recipe).with_context(|| format!("building tests/tools/{}", self.folder))?;
        }
        Ok(recipe.output)
    }

    fn go_build(&self, recipe: &Recipe) -> Result<()> {
        let go = go().context("the command go is not on the PATH")?;
        let begin = Instant::now();
        print_uncaptured(&format!(
            "Building {} {} with Go into {}, which takes minutes",
            self.folder,
            recipe.version,
            recipe.output.display()
        ));
        let stamp = recipe.output.join("stamp");
        if stamp.exists() {
            fs::remove_file(&stamp)?;
        }
        for attempt in 1..=ATTEMPTS {
            let output = self.go_build_once(&go, recipe)?;
            if output.status.success() {
                break;
            }
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(attempt < ATTEMPTS, "{why}");
            print_uncaptured(&format!("Building {} failed, trying again: {why}", self.folder));
            thread::sleep(PAUSE);
        }
        for package in self.packages {
            let built = recipe.output.join(go_binary_name(package.path));
            fs::rename(built, recipe.output.join(package.binary))?;
        }
        fs::write(&stamp, &recipe.stamp)?;
        print_uncaptured(&format!("Built {} in {:.0?}", self.folder, begin.elapsed()));
        Ok(())
    }

    fn go_build_once(&self, go: &Path, recipe: &Recipe) -> Result<Output> {
        let output = Command::new(go)
            .current_dir(&recipe.source)
            .envs([("CGO_ENABLED", "0"), ("GOFLAGS", "-trimpath -mod=readonly"), ("GOWORK", "off")])
            .env("GOEXPERIMENT", self.experiment)
            // Garbage collection takes a seventh of the compiler's time, although the heap fits into memory.
            .envs([("GOGC", "off"), ("GOMEMLIMIT", "1GiB")])
            .args(["build", "-tags", self.tags, "-ldflags", &recipe.linker_flags, "-o"])
            .arg(recipe.output.join(""))
            .args(self.packages.iter().map(|package| package.path))
            .output()?;
        Ok(output)
    }

    fn recipe(&self) -> Result<Recipe> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools").join(self.folder).canonicalize()?;
        let go_mod = fs::read_to_string(source.join("go.mod"))?;
        let go_sum = fs::read_to_string(source.join("go.sum"))?;
        // Most modules only reference the packages of others.
        let version = required_version(&go_mod, self.main)
            .with_context(|| format!("{}/go.mod does not require {}", source.display(), self.main))?;
        let linker_flags = format!("-s -w {}", (self.version_flags)(&version));
        let packages = self.packages.iter().map(|package| package.path).collect::<Vec<_>>().join(" ");
        Ok(Recipe {
            output: target_folder()?.join("tools").join(format!("{}-{version}", self.folder)),
            stamp: format!(
                "{linker_flags} {}{}\n{packages}\n{go_mod}\n{go_sum}{}",
                self.tags,
                self.experiment,
                own_sources(&source)?
            ),
            source,
            version,
            linker_flags,
        })
    }
}

/// The inputs of a build, and its output folder.
struct Recipe {
    source: PathBuf,
    output: PathBuf,
    version: String,
    linker_flags: String,
    stamp: String,
}

impl Recipe {
    fn is_done(&self) -> bool {
        fs::read_to_string(self.output.join("stamp")).is_ok_and(|stamp| stamp == self.stamp)
    }
}

/// Returns the Go files of a module's own packages, in folders next to its go.mod.
fn own_sources(module: &Path) -> Result<String> {
    let mut sources = Vec::new();
    let mut folders = vec![module.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "go") {
                sources.push(path);
            }
        }
    }
    sources.sort();
    Ok(sources.iter().map(fs::read_to_string).collect::<Result<Vec<_>, _>>()?.concat())
}

/// Returns the version of module `path` that a go.mod requires.
fn required_version(go_mod: &str, path: &str) -> Option<String> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next()? == path).then(|| words.next().map(str::to_owned))?
    })
}

/// Returns Go's name for the binary of a package: its last path element that is not a version.
fn go_binary_name(path: &str) -> &str {
    path.rsplit('/').find(|part| part.strip_prefix('v').is_none_or(|rest| rest.parse::<u32>().is_err())).unwrap_or(path)
}

/// Returns the `go` command, if it is on the path.
pub(crate) fn go() -> Option<PathBuf> {
    find_on_path(&env::var_os("PATH")?, "go")
}

pub(crate) fn find_on_path(path: &OsString, name: &str) -> Option<PathBuf> {
    env::split_paths(path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Returns Cargo's target folder: from the environment, else the one that contains this binary.
pub(crate) fn target_folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from)
        && folder.is_absolute()
    {
        return Ok(folder);
    }
    // Cargo marks its target folder so that backups skip it.
    let binary = env::current_exe()?;
    if let Some(folder) = binary.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()) {
        return Ok(folder.to_owned());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.is_dir() {
        bail!("no target folder: set CARGO_TARGET_DIR");
    }
    Ok(root.join("target"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_are_named_after_the_last_element_that_is_not_a_version() {
        assert_eq!(go_binary_name("go.etcd.io/etcd/server/v3"), "server");
        assert_eq!(go_binary_name("k8s.io/kubernetes/cmd/kubectl"), "kubectl");
        assert_eq!(go_binary_name("example.com/vault"), "vault");
    }

    #[test]
    fn versions_come_from_the_modules() {
        let compared = [&CONFTEST, &NATS, &PROMETHEUS, &ALERTMANAGER, &GRAFANA_SCHEMA, &OTLP, &TRIVY, &SIGSTORE];
        for module in [&KUBERNETES, &OPA, &OPA_CASES, &GATOR].into_iter().chain(compared) {
            let recipe = module.recipe().expect("a module that requires its tools");
            assert!(recipe.version.starts_with('v'), "{}", recipe.version);
        }
    }

    #[test]
    fn linker_flags_contain_the_minor_version() {
        assert!(kubernetes_version("v1.36.3").contains("gitMinor=36"));
    }
}
