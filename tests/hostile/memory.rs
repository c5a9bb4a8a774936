//! Policies that would take all memory or all time: each ends as an error, and the rules beside it judge.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// What a run may take at most, in KiB. What a policy makes without calls is bounded by its time alone, so a fast machine
/// needs more; what calls make stays far below.
const MOST_MEMORY: u64 = 2 << 20;

/// Far more than the time limit of all evaluations of one object.
const LONGEST: Duration = Duration::from_mins(1);

/// Waits for a process; returns the most memory that it was seen to have, in KiB.
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

/// Returns what is wrong with a run.
fn run(policy: &Path, manifest: &Path, out: &Path) -> Option<String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kaudit"))
        .args(["check", "-o", "json", "-f"])
        .arg(manifest)
        .arg("--policies")
        .arg(policy)
        .stdout(fs::File::create(out).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let peak = peak(&mut child);
    let code = child.wait().unwrap().code();
    let text = fs::read_to_string(out).unwrap();
    let said = |what: &str| text.contains(what);
    let name = policy.file_name().unwrap().to_string_lossy();
    // On a slow machine the time for the whole object may be over; the rule left is named then.
    let others = said("still judged") || said("not evaluated: the rules before it");
    if code.is_none() || !said("\"error\"") || !others || peak > MOST_MEMORY {
        return Some(format!("{name}: exit {code:?}, {} MiB\n{text}", peak >> 10));
    }
    None
}

#[test]
fn hostile_policies_end_as_errors_and_leave_the_others_alone() {
    let root = tempfile::tempdir().unwrap();
    let manifest = root.path().join("pod.yaml");
    fs::write(&manifest, "apiVersion: v1\nkind: Pod\nmetadata: {name: web, generation: 3}\n").unwrap();
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/memory");
    let mut policies: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    policies.sort();
    assert!(policies.len() > 20, "{policies:?}");
    let wrong: Vec<String> =
        policies.iter().filter_map(|policy| run(policy, &manifest, &root.path().join("out.json"))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
