//! Policies and objects that would use all memory or time, under the memory limit of the chart: each ends as a result,
//! and the other rules are evaluated.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use kaudit_test_support::container::{CHART_LIMIT, Container};

/// Maximum memory of a run without a container, in KiB: only time limits what regorus allocates there.
const MOST_MEMORY: u64 = 2 << 20;

/// Far above the time limit of all evaluations of one object.
const LONGEST: Duration = Duration::from_mins(1);

/// Returns a container with the memory limit of the chart; `None` if this process may not create one.
fn chart_container() -> Option<Container> {
    let container = Container::new(CHART_LIMIT);
    if let Err(error) = &container {
        let _closed =
            writeln!(io::stderr(), "run without a memory limit, since no control group can be created: {error}");
    }
    container.ok()
}

fn kaudit(container: Option<&Container>) -> Command {
    let program = env!("CARGO_BIN_EXE_kaudit");
    container.map_or_else(|| Command::new(program), |container| container.command(program))
}

/// Waits for a process; returns its peak memory, in KiB.
fn peak(child: &mut Child) -> u64 {
    let (began, mut peak) = (Instant::now(), 0);
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(peak);
        if began.elapsed() > LONGEST || peak > 2 * MOST_MEMORY {
            child.kill().unwrap();
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    peak
}

/// A finished run.
struct LimitedRun {
    /// `None` if a signal ended it, for example at the memory limit.
    code: Option<i32>,
    peak_kib: u64,
    output: String,
}

/// Checks a manifest in a format.
fn check(policy: &Path, manifest: &Path, format: &str) -> LimitedRun {
    let out = tempfile::NamedTempFile::new().unwrap();
    let container = chart_container();
    let mut child = kaudit(container.as_ref())
        .args(["check", "-o", format, "-f"])
        .arg(manifest)
        .arg("--policies")
        .arg(policy)
        .stdout(out.reopen().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let peak_kib = peak(&mut child);
    let code = child.wait().unwrap().code();
    LimitedRun { code, peak_kib, output: fs::read_to_string(out.path()).unwrap() }
}

/// Returns an error if the run of a policy is not as expected.
fn fault(policy: &Path, manifest: &Path) -> Option<String> {
    let LimitedRun { code, peak_kib, output } = check(policy, manifest, "json");
    let has = |text: &str| output.contains(text);
    // On a slow machine the time limit of the whole object may be exceeded; then the remaining rule is named.
    let others = has("still judged") || has("not evaluated: the rules before it");
    let name = policy.file_name().unwrap().to_string_lossy();
    let is_right = code.is_some() && has("\"error\"") && others && peak_kib < MOST_MEMORY;
    (!is_right).then(|| format!("{name}: exit {code:?}, {} MiB\n{output}", peak_kib >> 10))
}

#[test]
fn hostile_policies_end_as_errors_and_do_not_affect_others() {
    let root = tempfile::tempdir().unwrap();
    let manifest = root.path().join("pod.yaml");
    fs::write(&manifest, "apiVersion: v1\nkind: Pod\nmetadata: {name: web, generation: 3}\n").unwrap();
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/memory");
    let mut policies: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    policies.sort();
    assert!(policies.len() > 20, "{policies:?}");
    let faults: Vec<String> = policies.iter().filter_map(|policy| fault(policy, &manifest)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns three Deployments with this many containers.
fn large_deployments(containers: usize) -> String {
    let containers: Vec<String> =
        (0..containers).map(|number| format!(r#"{{"name":"c{number}","image":"x"}}"#)).collect();
    let containers = containers.join(",");
    let mut text = String::new();
    for number in 0..3 {
        writeln!(
            text,
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"big{number}","namespace":"tenant"}},"spec":{{"replicas":0,
            "selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{containers}]}}}}}}}}"#
        )
        .unwrap();
    }
    text
}

#[test]
fn very_many_violations_of_an_object_are_listed_in_part() {
    let root = tempfile::tempdir().unwrap();
    let manifest = root.path().join("big.json");
    // An optimized build handles 10,000 containers in the same time.
    let text = large_deployments(2_000);
    fs::write(&manifest, text).unwrap();
    for format in ["json", "openreport", "text", "html"] {
        let LimitedRun { code, peak_kib, output } = check(Path::new("builtin"), &manifest, format);
        assert_eq!(code, Some(1), "{format}: {} MiB", peak_kib >> 10);
        assert!(output.contains("more results"), "{format} counts what is not listed");
        assert!(output.len() < 4 << 20, "{format}: {} bytes", output.len());
    }
}
