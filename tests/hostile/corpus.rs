//! Runs the real binary with each hostile policy, with all of them, and with files that are not policies.

use std::{
    fs,
    io::Read,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use clap::ValueEnum as _;
use kaudit::output::Format;
use serde_json::Value;

use crate::{
    policies::{Fate, Policy, all},
    text::{assert_harmless, assert_harmless_as, parsed},
};

/// Far above every limit; a longer run hangs.
const PATIENCE: Duration = Duration::from_mins(4);

/// Denies the object that is checked with each hostile one.
pub(crate) const GOOD: &str = "package good\n\ndeny contains \"good\" if input.metadata.labels.good == \"yes\"\n";
pub(crate) const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod\n  namespace: shop\n  labels: {good: \"yes\"}\n  \
                              annotations: {pattern: \"((((a{100}){100}){100}){100})\"}\nspec:\n  containers: [{name: a, image: b}]\n";

/// The result of a finished process.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Reads a pipe to its end.
fn read(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    })
}

/// Runs kaudit in a folder; asserts that it does not hang or print terminal control characters.
pub(crate) fn kaudit(folder: &Path, what: &str, arguments: &[&str]) -> Ended {
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kaudit"))
        .env_clear()
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (stdout, stderr) = (read(child.stdout.take().unwrap()), read(child.stderr.take().unwrap()));
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    assert!(status.code().is_some(), "{what}: {status}: {stderr}");
    assert_harmless(&format!("{what}: standard output"), &stdout);
    assert_harmless(&format!("{what}: standard error"), &stderr);
    assert!(!stderr.contains("panicked"), "{what}: {stderr}");
    Ended { code: status.code(), stdout, stderr }
}

/// Checks everything in `objects` with everything in `policies`, in every format. Returns the results.
pub(crate) fn check(folder: &Path, what: &str) -> (Value, Ended) {
    let formats: Vec<String> =
        Format::value_variants().iter().map(|format| format!("-o={0}=out.{0}", format.name())).collect();
    let arguments = ["check", "-p=policies", "-f=objects", "--allow-refused", "-o=json"];
    let arguments: Vec<&str> = arguments.into_iter().chain(formats.iter().map(String::as_str)).collect();
    let ended = kaudit(folder, what, &arguments);
    assert_eq!(ended.code, Some(1), "{what}: {}", ended.stderr);
    for format in Format::value_variants() {
        let written = fs::read_to_string(folder.join(format!("out.{}", format.name()))).unwrap();
        assert_harmless_as(*format, what, &written);
    }
    (parsed(&ended.stdout), ended)
}

pub(crate) fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Returns the results of one policy, or of all in a package, as outcome and message.
fn results<'a>(result: &'a Value, policy: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let entries = result["results"].as_array().unwrap().iter();
    let own = entries.filter(move |entry| entry["policy"] == policy);
    own.map(|entry| (entry["result"].as_str().unwrap(), entry["message"].as_str().unwrap()))
}

/// Returns an error if the outcome of a policy is not as expected.
fn judge_alone(policy: &Policy) -> Result<(), String> {
    let file = format!("policies/{}.rego", policy.name);
    let folder = folder(&[
        (&file, policy.text.as_bytes()),
        ("policies/good.rego", GOOD.as_bytes()),
        ("objects/pod.yaml", POD.as_bytes()),
    ]);
    let (result, _) = check(folder.path(), policy.name);
    if !results(&result, "good").eq([("fail", "good")]) {
        return Err(format!("the good one did not judge: {result}"));
    }
    let refused: Vec<String> = result["refused"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|problem| problem["message"].as_str().unwrap().to_owned())
        .collect();
    let own: Vec<(&str, &str)> = result["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["policy"] != "good")
        .map(|entry| (entry["result"].as_str().unwrap(), entry["message"].as_str().unwrap()))
        .collect();
    let fits = match policy.fate {
        Fate::Refused(part) => refused.iter().any(|why| why.contains(part)),
        Fate::Limited => {
            let limits = ["took longer than", "produced more than", "makes more than"];
            let limited = |message: &str| limits.iter().any(|limit| message.contains(limit));
            refused.is_empty() && own.iter().any(|(is, message)| *is == "error" && limited(message))
        }
        Fate::Silent => refused.is_empty() && own.is_empty(),
        Fate::Says(outcome, part) => {
            refused.is_empty() && own.iter().any(|(is, message)| is.starts_with(outcome) && message.contains(part))
        }
    };
    let problem: String = format!("refused {refused:?}, says {own:?}").chars().take(300).collect();
    if fits { Ok(()) } else { Err(problem) }
}

#[test]
fn each_hostile_policy_affects_only_itself() {
    let policies = all();
    assert!(policies.len() >= 60);
    let wrong = Mutex::new(Vec::new());
    let next = Mutex::new(policies.iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(policy) = next.lock().unwrap().next() else { return };
                    let judged = std::panic::catch_unwind(|| judge_alone(policy));
                    let judged = judged.unwrap_or_else(|_| Err("see above".into()));
                    if let Err(why) = judged {
                        wrong.lock().unwrap().push(format!("{}: {why}", policy.name));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), policies.len(), wrong.join("\n"));
}

#[test]
fn all_hostile_policies_together_affect_no_others() {
    let policies = all();
    let files: Vec<(String, &[u8])> =
        policies.iter().map(|policy| (format!("policies/{}.rego", policy.name), policy.text.as_bytes())).collect();
    let mut files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    files.extend([("policies/good.rego", GOOD.as_bytes()), ("objects/pod.yaml", POD.as_bytes())]);
    let folder = folder(&files);
    let (result, _) = check(folder.path(), "all");
    assert!(results(&result, "good").eq([("fail", "good")]));
    // On a slow machine, rules run out of time, and only some of their errors are listed.
    let is_counted = |(_, message): (&str, &str)| message.ends_with("more results for this object are not listed");
    let is_listed = results(&result, "hostile.width").next().is_some();
    assert!(is_listed || results(&result, "kaudit").any(is_counted));
    let listed = kaudit(folder.path(), "policies", &["policies", "policies"]);
    assert_eq!(listed.code, Some(2));
    kaudit(folder.path(), "policies as JSON", &["policies", "policies", "-o=json"]);
    kaudit(folder.path(), "test", &["test", "policies"]);
}

#[test]
fn circular_imports_are_harmless() {
    let folder = folder(&[
        ("policies/a.rego", b"package a\n\nimport data.b\n\nx := b.y\n\ndeny contains \"a\" if x\n"),
        ("policies/b.rego", b"package b\n\nimport data.a\n\ny := a.x\n\ndeny contains \"b\" if y\n"),
        // The modules import each other, but the rules are not recursive.
        ("policies/c.rego", b"package c\n\nimport data.d\n\nx := d.y\n\ndeny contains \"c\" if x\n"),
        ("policies/d.rego", b"package d\n\nimport data.c\n\ny := 1\n\ndeny contains \"d\" if c.x\n"),
        ("policies/good.rego", GOOD.as_bytes()),
        ("objects/pod.yaml", POD.as_bytes()),
    ]);
    let (result, _) = check(folder.path(), "imports");
    let refused: Vec<&str> =
        result["refused"].as_array().unwrap().iter().map(|problem| problem["severity"].as_str().unwrap()).collect();
    assert_eq!(refused, ["refused", "left-out"], "{}", result["refused"]);
    for (policy, number) in [("a", 0), ("b", 0), ("c", 1), ("d", 1), ("good", 1)] {
        assert_eq!(results(&result, policy).count(), number, "{policy}: {result}");
    }
}

#[test]
fn files_that_only_look_like_policies_are_harmless() {
    let deny = |name: &str| format!("package {name}\n\ndeny contains \"x\"\n").into_bytes();
    let folder = folder(&[
        ("policies/good.rego", GOOD.as_bytes()),
        ("policies/empty.rego", b""),
        ("policies/binary.rego", &[0xff, 0xfe, 0x00, 0x80]),
        ("policies/wide.rego", &[0xff, 0xfe, b'p', 0, b'a', 0]),
        ("policies/broken_text.rego", b"package a\n\ndeny contains \"\xc3\x28\"\n"),
        ("policies/\u{1b}[31mred\u{202e}.rego", &deny("red")),
        ("policies/\u{9b}31m/a\n::error::b.rego", b"package nope\n\ndeny contains nope(1)\n"),
        ("policies/folder.rego/inner.rego", &deny("inner")),
        ("policies/data.json", format!("{}1{}", "[".repeat(9_000), "]".repeat(9_000)).as_bytes()),
        ("policies/more/data.yaml", b"a: &a [*a]\n"),
        ("policies/laughs.yaml", b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n"),
        ("objects/pod.yaml", POD.as_bytes()),
    ]);
    let policies = folder.path().join("policies");
    symlink("/dev/zero", policies.join("zero.rego")).unwrap();
    symlink("/dev/full", policies.join("full.json")).unwrap();
    symlink(".", policies.join("loop")).unwrap();
    symlink("nowhere", policies.join("nowhere.rego")).unwrap();
    // There is no writer.
    assert!(Command::new("mkfifo").arg(policies.join("pipe.rego")).status().unwrap().success());
    let (result, _) = check(folder.path(), "files");
    assert!(results(&result, "good").eq([("fail", "good")]), "{result}");
    kaudit(folder.path(), "policies", &["policies", "policies"]);
}
