//! What is made for a release besides the binary, and integrations: archives, manifests of package managers, the GitHub
//! action, and the examples for CI.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

mod action;
mod release;

use std::{fs, path::Path};

use clap::ValueEnum;
use kaudit::{
    cli::config,
    output::{FailOn, Format},
    rego::analysis::yaml,
};
use serde_json::Value;

const KREW: &str = include_str!("../../examples/krew.yaml");
const GITHUB: &str = include_str!("../../examples/ci/github.yml");
const GITLAB: &str = include_str!("../../examples/ci/gitlab.yml");
/// The formats for tools that review pull requests.
const FORMATS: [&str; 5] = ["github", "gitlab", "junit", "markdown", "sarif"];
/// The release archive for Linux, which all of them reference.
const ARCHIVE: &str =
    concat!("/v", env!("CARGO_PKG_VERSION"), "/kaudit-", env!("CARGO_PKG_VERSION"), "-linux-amd64.tar.gz");

fn yaml(text: &str) -> Value {
    yaml::from_str(text).unwrap()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// The requirements of krew's validation of a manifest.
#[test]
fn krew_accepts_the_manifest() {
    let manifest = yaml(KREW);
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!((&manifest["kind"], &manifest["metadata"]["name"]), (&"Plugin".into(), &"kaudit".into()));
    let spec = &manifest["spec"];
    assert_eq!(spec["version"], concat!("v", env!("CARGO_PKG_VERSION")));
    let short = spec["shortDescription"].as_str().unwrap();
    assert!(short.len() <= 50 && !short.ends_with('.') && !short.contains('\n'), "{short}");
    for key in ["homepage", "description", "caveats"] {
        assert!(spec[key].is_string(), "{key}");
    }
    for platform in spec["platforms"].as_array().unwrap() {
        let labels = &platform["selector"]["matchLabels"];
        let (os, arch) = (labels["os"].as_str().unwrap(), labels["arch"].as_str().unwrap());
        let uri = platform["uri"].as_str().unwrap();
        assert!(uri.starts_with("https://") && uri.ends_with(&format!("-{os}-{arch}.tar.gz")), "{uri}");
        assert!(uri.contains(env!("CARGO_PKG_VERSION")), "{uri}");
        let checksum = platform["sha256"].as_str().unwrap();
        assert!(checksum.len() == 64 && checksum.bytes().all(|digit| digit.is_ascii_hexdigit()), "{checksum}");
        let files = platform["files"].as_array().unwrap();
        let from: Vec<_> = files.iter().map(|file| file["from"].as_str().unwrap()).collect();
        assert!(from.contains(&platform["bin"].as_str().unwrap()) && from.contains(&"LICENSE"), "{from:?}");
    }
}

/// Returns the kaudit commands of a script.
fn commands<'s>(script: &[&'s str]) -> Vec<Vec<&'s str>> {
    let lines = script.iter().flat_map(|part| part.lines()).map(str::trim);
    lines.filter(|line| line.starts_with("kaudit ")).map(|line| line.split_whitespace().collect()).collect()
}

/// Asserts that kaudit accepts the options.
fn assert_understood(command: &[&str]) {
    let mut arguments = Vec::new();
    let mut words = command.iter();
    while let Some(word) = words.next() {
        let target = words.as_slice().first().filter(|_| *word == "-o");
        match target.and_then(|target| target.split('=').next()) {
            Some(format) if Format::from_str(format, false).is_err() => {
                assert!(FORMATS.contains(&format), "{format}");
                words.next();
            }
            _ => arguments.push(word),
        }
    }
    config::load(arguments.into_iter().map(Into::into)).unwrap_or_else(|why| panic!("{command:?}: {why}"));
}

#[test]
fn the_github_example_is_a_valid_workflow() {
    let workflow = yaml(GITHUB);
    // YAML 1.1 parses a bare `on` as true, but GitHub does not.
    assert!(workflow["on"].is_object() && workflow["permissions"]["contents"] == "read", "{workflow}");
    let jobs = workflow["jobs"].as_object().unwrap();
    let mut understood = 0;
    for job in jobs.values() {
        assert!(job["runs-on"].is_string());
        assert!(job["env"]["KAUDIT_RELEASE"].as_str().unwrap().ends_with(ARCHIVE));
        for step in job["steps"].as_array().unwrap() {
            for command in step["run"].as_str().map(|script| commands(&[script])).unwrap_or_default() {
                assert_understood(&command);
                understood += 1;
            }
        }
    }
    assert_eq!(understood, 2);
    let upload = "sarif_file: kaudit.sarif\n";
    assert!(GITHUB.contains(upload) && GITHUB.contains("-o sarif=kaudit.sarif "));
}

/// Returns the job of the GitLab component with the default inputs.
fn gitlab_job() -> Value {
    let (header, job) = GITLAB.split_once("\n---\n").unwrap();
    let mut job = job.to_owned();
    for (name, input) in yaml(header)["spec"]["inputs"].as_object().unwrap() {
        let used = format!("$[[ inputs.{name} ]]");
        assert!(job.contains(&used), "{name} is not used");
        job = job.replace(&used, input["default"].as_str().unwrap());
    }
    assert!(!job.contains("$[["), "an input is not declared: {job}");
    yaml(&job)["kaudit"].clone()
}

#[test]
fn the_gitlab_component_is_a_valid_job() {
    let job = gitlab_job();
    assert!(job["variables"]["KAUDIT_RELEASE"].as_str().unwrap().ends_with(ARCHIVE));
    assert!(job["image"].is_string() && texts(&job["before_script"]).len() > 2);
    let commands = commands(&texts(&job["script"]));
    assert_eq!(commands.len(), 1);
    assert_understood(&commands[0]);
    for report in job["artifacts"]["reports"].as_object().unwrap().values() {
        let file = report.as_str().unwrap();
        assert!(commands[0].iter().any(|word| word.ends_with(&format!("={file}"))), "{file}");
    }
}

/// GitLab refuses any other value of an input with options.
#[test]
fn the_gitlab_component_can_fail_on_all_that_kaudit_can() {
    let (header, _) = GITLAB.split_once("\n---\n").unwrap();
    let values = FailOn::value_variants().iter().map(|value| value.to_possible_value().unwrap().get_name().to_owned());
    let options = &yaml(header)["spec"]["inputs"]["fail-on"]["options"];
    assert_eq!(texts(options), values.collect::<Vec<_>>());
}

/// A tag can be moved to other code, a commit cannot.
#[test]
fn actions_are_named_by_commit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workflows = fs::read_dir(root.join(".github/workflows")).unwrap().map(|entry| entry.unwrap().path());
    let files = workflows.chain(["action.yml", "examples/ci/github.yml"].map(|name| root.join(name)));
    let mut found = 0;
    for file in files {
        for line in fs::read_to_string(&file).unwrap().lines() {
            let Some((_, action)) = line.split_once("uses: ").filter(|(_, action)| !action.starts_with("./")) else {
                continue;
            };
            let commit = action.split_once('@').map(|(_, rest)| rest.split(' ').next().unwrap()).unwrap_or_default();
            let is_commit = commit.len() == 40 && commit.bytes().all(|digit| digit.is_ascii_hexdigit());
            assert!(is_commit && action.contains(" # v"), "{}: {action}", file.display());
            found += 1;
        }
    }
    assert!(found > 10, "only {found} actions were found");
}

#[test]
fn every_format_for_ci_has_an_example() {
    let shown = [GITHUB, GITLAB].concat();
    for format in FORMATS {
        assert!(shown.contains(&format!("-o {format}")), "{format}");
    }
}
