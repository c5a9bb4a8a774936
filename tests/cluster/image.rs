//! The image that `.ci/release/image` has built contains kaudit alone, and runs with the chart's arguments and security context.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use flate2::read::GzDecoder;
use kaudit_controlplane::{Tool, require, require_tool, shared};
use serde_json::Value;

use crate::{
    chart,
    support::{Running, establish_audits, wait_for},
};

/// Returns the archive of the image; `None` if it has not been built. In CI that is an error, except where it cannot be
/// built (`KAUDIT_TEST_IMAGE=skip`).
fn archive() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let name = format!("release-files/kaudit-{}-image.tar", env!("CARGO_PKG_VERSION"));
    let archive = target.join(name);
    let built = archive.exists();
    let is_allowed = std::env::var_os("CI").is_none() || std::env::var_os("KAUDIT_TEST_IMAGE").is_some();
    assert!(built || is_allowed, "no image: run .ci/release/binary and .ci/release/image");
    built.then_some(archive)
}

/// The image of this machine's architecture, unpacked.
struct Image {
    directory: tempfile::TempDir,
    config: Value,
}

impl Image {
    /// Unpacks an OCI archive; follows its index to the only manifest.
    fn unpack(archive: &Path) -> Self {
        let layout = tempfile::tempdir().unwrap();
        tar::Archive::new(File::open(archive).unwrap()).unpack(layout.path()).unwrap();
        let blob = |descriptor: &Value| {
            let (algorithm, digest) = descriptor["digest"].as_str().unwrap().split_once(':').unwrap();
            layout.path().join("blobs").join(algorithm).join(digest)
        };
        let json = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
        let mut document = json(&layout.path().join("index.json"));
        let own = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
        while let Some(manifests) = document["manifests"].as_array() {
            let is_own = |one: &&Value| one["platform"]["architecture"].as_str().is_none_or(|name| name == own);
            document = json(&blob(manifests.iter().find(is_own).unwrap()));
        }
        let directory = tempfile::tempdir().unwrap();
        for layer in document["layers"].as_array().unwrap() {
            let mut packed = File::open(blob(layer)).unwrap();
            let mut layer = tar::Archive::new(GzDecoder::new(&mut packed));
            layer.set_preserve_permissions(true);
            layer.unpack(directory.path()).unwrap();
        }
        Self { config: json(&blob(&document["config"]))["config"].clone(), directory }
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a command that runs the image's entry point as the chart's security context wants it: as that user, without
    /// capabilities and new privileges. The files belong to somebody else, so they cannot be written.
    fn command(&self, context: &Value) -> Command {
        let id = |name: &str| context[name].as_u64().unwrap().to_string();
        let is_root = String::from_utf8(Command::new("id").arg("-u").output().unwrap().stdout).unwrap().trim() == "0";
        let mut command = Command::new(if is_root { "env" } else { "sudo" });
        command.args(if is_root { &["-i"][..] } else { &["--non-interactive", "env", "-i"] });
        command.args(["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "KUBECONFIG=/kubeconfig", "NO_COLOR=1"]);
        let user = format!("--userspec={}:{}", id("runAsUser"), id("runAsGroup"));
        // These three are needed to enter the image, and are lost with the change of the user.
        command.args([
            "setpriv",
            "--no-new-privs",
            "--bounding-set=-all,+sys_chroot,+setuid,+setgid",
            "--inh-caps=-all",
        ]);
        command.args(["chroot", &user, "--groups="]).arg(self.root());
        command.args(self.config["Entrypoint"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
        command
    }
}

/// Returns the paths of files below a directory, relative to it and sorted.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

#[test]
fn the_image_contains_a_static_binary_and_nothing_to_run_besides() {
    let Some(archive) = archive() else { return };
    let image = Image::unpack(&archive);
    assert_eq!(files(image.root()), ["LICENSE", "etc/ssl/certs/ca-certificates.crt", "kaudit"]);
    assert_eq!(image.config["Entrypoint"], serde_json::json!(["/kaudit"]));
    assert_eq!(image.config["Cmd"], serde_json::json!(["check"]));
    let mut binary = Vec::new();
    File::open(image.root().join("kaudit")).unwrap().read_to_end(&mut binary).unwrap();
    assert_eq!(&binary[..4], b"\x7fELF");
    let interpreters = ["/lib64/ld-linux", "/lib/ld-linux", "/lib/ld-musl"];
    let names = |text: &str| binary.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(!interpreters.into_iter().any(names), "the binary is not static");
    for (name, mode) in [("kaudit", 0o755), ("LICENSE", 0o644)] {
        let permissions = fs::metadata(image.root().join(name)).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{name}");
    }
}

#[tokio::test]
async fn the_image_runs_with_the_arguments_and_the_security_context_of_the_chart() {
    if !require() || !require_tool(Tool::Helm) {
        return;
    }
    let Some(archive) = archive() else { return };
    let plane = shared().await;
    establish_audits(plane).await;
    let release = plane.temp_namespace("image").await.unwrap();
    let shop = plane.temp_namespace("shop").await.unwrap();
    let rendered = chart::render(&release, &["record={events,status}"]).await;
    rendered.install(plane).await;
    let user = plane.service_account(&release, rendered.name("ServiceAccount")).await.unwrap();

    let image = Image::unpack(&archive);
    let pod = &rendered.of_kinds(&["Deployment"]).next().unwrap()["spec"]["template"]["spec"];
    let context = &pod["securityContext"];
    assert_eq!(image.config["User"], format!("{}:{}", context["runAsUser"], context["runAsGroup"]));
    assert_eq!(pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true);
    let root = image.root();
    // The user of the image reads it, and owns nothing.
    fs::copy(user.kubeconfig_path(), root.join("kubeconfig")).unwrap();
    for path in [root.to_owned(), root.join("kubeconfig")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let arguments = rendered.arguments("builtin");
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let kaudit = Running::launch(image.command(context), &arguments).await;
    kaudit.ready().await;
    plane.kubectl(&["-n", &shop, "run", "bare", "--image=registry.example.com/bare:1", "--privileged"]).await.unwrap();
    // Changes come first. The whole result would take this binary, which is not optimised, more than the seconds that
    // /status may take: the cluster has the objects of all tests.
    let reasons = ["-n", &shop, "get", "events", "-o", "jsonpath={.items[*].reason}"];
    let found = || async { plane.kubectl(&reasons).await.unwrap().contains("PolicyViolation").then_some(()) };
    wait_for("the Event of a violation of the builtin library", found).await;
    assert_eq!(kaudit.stop().await, Some(0));
}
