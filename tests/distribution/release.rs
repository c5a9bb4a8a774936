//! The scripts in `.ci/release`, except those that compile (`binary`) or need other tools (`image`, `chart`).

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use kaudit::rego::analysis::yaml;
use serde_json::Value;
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn script(name: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(root.join(".ci/release").join(name));
    command.current_dir(root);
    command
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// The files of a release, with a script instead of a binary, which starts the one that was built for this test.
pub(crate) struct Release {
    target: TempDir,
}

impl Release {
    pub(crate) fn new(platforms: &[&str]) -> Self {
        let target = tempfile::tempdir().unwrap();
        let release = Self { target };
        let staged = release.target.path().join("staged");
        fs::create_dir_all(staged.join("man/man1")).unwrap();
        fs::create_dir_all(release.files()).unwrap();
        let binary = format!("#!/bin/sh\nexec {:?} \"$@\"\n", env!("CARGO_BIN_EXE_kaudit"));
        fs::write(staged.join("kaudit"), binary).unwrap();
        fs::set_permissions(staged.join("kaudit"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(staged.join("LICENSE"), "a licence").unwrap();
        for platform in platforms {
            let archive = release.files().join(format!("kaudit-{VERSION}-{platform}.tar.gz"));
            let packed = script("pack").arg(&staged).arg(&archive).output().unwrap();
            assert!(packed.status.success(), "{}", text(&packed));
        }
        release
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.target.path().join("release-files")
    }

    /// Writes the manifests of package managers and the checksums.
    pub(crate) fn manifests(&self, address: &str) {
        let made = script("manifests").arg(address).env("CARGO_TARGET_DIR", self.target.path()).output().unwrap();
        assert!(made.status.success(), "{}", text(&made));
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.files().join(name)).unwrap()
    }
}

#[test]
fn an_archive_depends_on_its_files_only() {
    let (one, two) = (Release::new(&["linux-amd64"]), Release::new(&["linux-amd64"]));
    let name = format!("kaudit-{VERSION}-linux-amd64.tar.gz");
    assert!(fs::read(one.files().join(&name)).unwrap() == fs::read(two.files().join(&name)).unwrap());
    let listed = Command::new("tar").arg("-tzvf").arg(one.files().join(&name)).output().unwrap();
    let lines: Vec<_> =
        text(&listed).lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    let found: Vec<_> = lines.iter().map(|words| [&*words[0], &*words[1], words.last().unwrap()]).collect();
    let owner = "root/root";
    assert_eq!(
        found,
        [
            ["-rw-r--r--", owner, "LICENSE"],
            ["-rwxr-xr-x", owner, "kaudit"],
            ["drwxr-xr-x", owner, "man/"],
            ["drwxr-xr-x", owner, "man/man1/"]
        ]
    );
}

#[test]
fn package_managers_get_the_addresses_and_checksums_of_the_archives() {
    let release = Release::new(&["darwin-arm64", "linux-amd64"]);
    let address = format!("https://example.com/kaudit/releases/download/v{VERSION}");
    release.manifests(&address);
    let mut verified = Command::new("sha256sum");
    let verified =
        verified.args(["--check", "--strict", "checksums.txt"]).current_dir(release.files()).output().unwrap();
    assert!(verified.status.success(), "{}", text(&verified));
    let sums = release.read("checksums.txt");
    let sum = |name: &str| sums.lines().find(|line| line.ends_with(name)).unwrap().split(' ').next().unwrap();

    let krew: Value = yaml::from_str(&release.read("kaudit.yaml")).unwrap();
    let platforms = krew["spec"]["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), 2, "only platforms that have been built: {krew}");
    let formula = release.read("kaudit.rb");
    for platform in platforms {
        let labels = &platform["selector"]["matchLabels"];
        let (os, arch) = (labels["os"].as_str().unwrap(), labels["arch"].as_str().unwrap());
        let name = format!("kaudit-{VERSION}-{os}-{arch}.tar.gz");
        assert_eq!(platform["uri"], format!("{address}/{name}"));
        assert_eq!(platform["sha256"], sum(&name));
        let (_, in_formula) = formula.split_once(&format!("url \"{address}/{name}\"\n")).unwrap();
        assert!(in_formula.trim_start().starts_with(&format!("sha256 \"{}\"", sum(&name))), "{formula}");
    }
    assert!(formula.contains("homepage \"https://example.com/kaudit\"\n"), "{formula}");
    let open = |word: &str| formula.lines().filter(|line| line.trim_end().ends_with(word)).count();
    let blocks = open(" do") + formula.matches("class ").count() + formula.matches("def ").count();
    assert_eq!(blocks, formula.lines().filter(|line| line.trim() == "end").count(), "{formula}");
}

#[test]
fn release_notes_exist_for_the_version_of_the_package_only() {
    let other = script("notes").arg("9.9.9").output().unwrap();
    assert_eq!(text(&other), "Cargo.toml does not have the version 9.9.9\n");
    assert_eq!(other.status.code(), Some(1));
    let own = script("notes").arg(VERSION).output().unwrap();
    let released = fs::read_to_string("CHANGELOG.md").unwrap().contains(&format!("\n## {VERSION} - "));
    assert_eq!(own.status.success(), released, "{}", text(&own));
}
