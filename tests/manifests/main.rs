//! kaudit parses manifests like kubectl: generated files are read by both and compared value by value, including
//! errors.
//!
//! `KAUDIT_TEST_FILES` makes a longer run with other files, and prints the seed on failure; `KAUDIT_TEST_SEED` repeats
//! one. Known differences are in `exceptions.yaml`, which may only shrink.

#![expect(clippy::unwrap_used, reason = "a test says what failed")]

mod generator;

use std::{collections::BTreeMap, fs, path::Path, process::Command, slice};

use fastrand::Rng;
use kaudit::rego::analysis::yaml;
use kaudit_controlplane::{Tool, require_tool, tool};
use kaudit_test_support::settings::setting;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// Number of files in the short version.
const FILES: usize = 4_000;
/// Reports every object.
const POLICY: &str = "package echo\n\ndeny contains {\"msg\": \"read\", \"details\": {\"object\": input}}\n";

/// The content of a file, as parsed by kubectl.
#[derive(Deserialize)]
struct Theirs {
    name: String,
    objects: Vec<Value>,
    odd: Vec<String>,
    refused: String,
}

/// The content of a file, as parsed by kaudit.
#[derive(Default)]
struct Ours {
    objects: Vec<Value>,
    refused: Vec<String>,
}

/// A difference that is intended, or that cannot be fixed here.
#[derive(Deserialize)]
struct ManifestException {
    reason: String,
    /// An example of a file with this difference.
    example: String,
    /// The start of the difference's description.
    #[serde(default)]
    what: String,
    /// A regular expression for kubectl's error.
    #[serde(default)]
    kubectl: Option<String>,
    /// The same for kaudit's error.
    #[serde(default)]
    kaudit: Option<String>,
    /// The same for the file itself.
    #[serde(default)]
    text: Option<String>,
}

impl ManifestException {
    fn all() -> Vec<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests/exceptions.yaml");
        yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn covers(&self, difference: &Difference) -> bool {
        let Difference { text, theirs, ours, what } = difference;
        let fits = |pattern: &Option<String>, texts: &[String]| {
            let like = |pattern: &String| Regex::new(pattern).unwrap();
            pattern.as_ref().map(like).is_none_or(|like| texts.iter().any(|text| like.is_match(text)))
        };
        what.starts_with(&self.what)
            && (fits(&self.kubectl, &theirs.odd) || fits(&self.kubectl, slice::from_ref(&theirs.refused)))
            && fits(&self.kaudit, &ours.refused)
            && fits(&self.text, slice::from_ref(text))
    }
}

/// Number of retries with kubectl for a file that it parses differently.
const ASKED_AGAIN: usize = 20;

/// A file that the two parse differently.
struct Difference {
    text: String,
    theirs: Theirs,
    ours: Ours,
    what: String,
}

impl Difference {
    fn shown(&self) -> String {
        let lines = |values: &[Value]| values.iter().fold(String::new(), |text, value| format!("{text}    {value}\n"));
        format!(
            "{}\n{:?}\n{}\n  kubectl: {:?} {:?}\n{}  kaudit: {:?}\n{}",
            self.what,
            self.text,
            self.text,
            self.theirs.refused,
            self.theirs.odd,
            lines(&self.theirs.objects),
            self.ours.refused,
            lines(&self.ours.objects)
        )
    }
}

/// Parses files with both, and returns those that differ.
fn differences(files: &[String]) -> Vec<Difference> {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("files");
    fs::create_dir(&folder).unwrap();
    let names: Vec<String> = (0..files.len()).map(|number| format!("f{number:06}.yaml")).collect();
    for (name, text) in names.iter().zip(files) {
        fs::write(folder.join(name), text).unwrap();
    }
    let mut ours = by_kaudit(root.path(), &names);
    let mut found = Vec::new();
    for theirs in by_kubectl(&folder) {
        let ours = ours.remove(&theirs.name).unwrap_or_default();
        if let Some(what) = difference(&theirs, &ours) {
            let number: usize = theirs.name[1..7].parse().unwrap();
            found.push(Difference { text: files[number].clone(), theirs, ours, what });
        }
    }
    assert!(ours.is_empty(), "{:?}", ours.keys());
    found
}

/// Whether a file always differs: of two keys that become the same string, such as `1` and `"1"`, kubectl takes either,
/// as Go's maps are unordered.
fn always_differs(found: &Difference) -> bool {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f000000.yaml"), &found.text).unwrap();
    let differs = || by_kubectl(folder.path()).iter().all(|theirs| difference(theirs, &found.ours).is_some());
    (0..ASKED_AGAIN).all(|_| differs())
}

/// Returns kubectl's content of the files in a folder.
fn by_kubectl(folder: &Path) -> Vec<Theirs> {
    let read = Command::new(tool(Tool::KubectlRead).unwrap()).arg(folder).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    String::from_utf8(read.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Number of files per kaudit run: it names only a few of the documents that it cannot read.
const FILES_OF_A_RUN: usize = 20;

/// An additional valid file, because kaudit fails if it can read none.
const READABLE: (&str, &str) = ("readable.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: readable}}");

/// The end of the message that counts the documents without names.
const NOT_NAMED: &str = " others could not be read";

/// Returns kaudit's content of the files in `root/files`, by file.
fn by_kaudit(root: &Path, names: &[String]) -> BTreeMap<String, Ours> {
    fs::create_dir(root.join("policies")).unwrap();
    fs::write(root.join("policies/echo.rego"), POLICY).unwrap();
    fs::write(root.join(READABLE.0), READABLE.1).unwrap();
    names.chunks(FILES_OF_A_RUN).flat_map(|names| read_by_kaudit(root, names)).collect()
}

/// Returns kaudit's content of files; splits them if it does not name all unreadable documents.
fn read_by_kaudit(root: &Path, names: &[String]) -> BTreeMap<String, Ours> {
    let run = Command::new(env!("CARGO_BIN_EXE_kaudit"))
        .env_clear()
        .current_dir(root)
        .args(["check", "-p", "policies", "-o", "json", "--secrets", "full", "--fail-on", "none", "--include", "*"])
        .args(["-f", READABLE.0])
        .args(names.iter().flat_map(|name| ["-f".to_owned(), format!("files/{name}")]))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(matches!(run.status.code(), Some(0 | 3)), "{}: {stderr}", run.status);
    let result: Value = serde_json::from_slice(&run.stdout).unwrap();
    let file = |path: &Value| path.as_str().unwrap().strip_prefix("files/").map(ToOwned::to_owned);
    let mut files: BTreeMap<String, Ours> = BTreeMap::new();
    for entry in result["results"].as_array().unwrap() {
        let Some(file) = file(&entry["location"]["file"]) else { continue };
        let ours = files.entry(file).or_default();
        match entry["result"].as_str().unwrap() {
            "fail" => ours.objects.push(entry["details"]["object"].clone()),
            _ => ours.refused.push(entry["message"].as_str().unwrap().to_owned()),
        }
    }
    let coverage = result["coverage"].as_array().unwrap();
    for documents in coverage.iter().filter(|kind| kind["resource"] == "*") {
        let message = documents["message"].as_str().unwrap();
        if message.contains(NOT_NAMED) && names.len() > 1 {
            let (first, second) = names.split_at(names.len() / 2);
            return [first, second].into_iter().flat_map(|half| read_by_kaudit(root, half)).collect();
        }
        for part in message.split("files/").skip(1) {
            let name = part.split(':').next().unwrap().to_owned();
            files.entry(name).or_default().refused.push(part.trim_end_matches("; ").to_owned());
        }
    }
    files
}

/// Maximum size of a result's details, in bytes of JSON, minus a margin for what surrounds the object.
const DETAILS_BYTES: usize = 16_000;

/// Returns the difference, if any. kaudit must refuse what kubectl refuses, and read the same before it; kaudit
/// continues after it.
fn difference(theirs: &Theirs, ours: &Ours) -> Option<String> {
    let (objects, odd): (Vec<_>, Vec<_>) = theirs.objects.iter().partition(|object| is_object(object));
    let refused = !theirs.refused.is_empty() || !theirs.odd.is_empty() || !odd.is_empty();
    let mut more = ours.objects.clone();
    for object in objects {
        // The details of a result, which contain the object here, are cut if they are longer.
        let is_cut = object.to_string().len() > DETAILS_BYTES;
        match more.iter().position(|one| same(one, object) || is_cut && one["metadata"] == object["metadata"]) {
            Some(at) => drop(more.remove(at)),
            None => return Some(format!("not judged, or differently: {object}")),
        }
    }
    if theirs.refused.is_empty() && !more.is_empty() {
        return Some(format!("kubectl does not read {}", Value::from(more)));
    }
    match (refused, ours.refused.is_empty()) {
        (true, true) => Some("only kubectl refuses something".into()),
        (false, false) => Some("only kaudit refuses something".into()),
        _ => None,
    }
}

/// Whether kaudit accepts a well-formed value as an object.
fn is_object(value: &Value) -> bool {
    let texts = ["/apiVersion", "/kind", "/metadata/name"];
    texts.iter().all(|path| value.pointer(path).is_some_and(|text| text.as_str().is_some_and(|text| !text.is_empty())))
}

/// Whether two values are equal; numbers are compared by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            _ => a.as_f64() == b.as_f64(),
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

#[test]
fn generated_manifests_are_parsed_as_by_kubectl() {
    if !require_tool(Tool::KubectlRead) {
        return;
    }
    let longer = setting("KAUDIT_TEST_FILES");
    let count = longer.unwrap_or(FILES);
    // The short version always uses the same seed: of some hundred thousand mutated files, one differs for a unique
    // reason.
    let seed = setting("KAUDIT_TEST_SEED").unwrap_or_else(|| longer.map_or(1, |_| fastrand::u64(..)));
    let mut rng = Rng::with_seed(seed);
    let exceptions = ManifestException::all();
    let mut unknown = Vec::new();
    // The result of all files at once would be kept in memory.
    for batch in (0..count).step_by(FILES) {
        let files: Vec<String> = (batch..count.min(batch + FILES)).map(|_| generator::file(&mut rng)).collect();
        let found = differences(&files);
        unknown.extend(found.into_iter().filter(|one| !exceptions.iter().any(|exception| exception.covers(one))));
    }
    unknown.retain(always_differs);
    unknown.sort_by_key(|one| one.text.len());
    let shown: Vec<String> = unknown.iter().take(5).map(Difference::shown).collect();
    assert!(
        unknown.is_empty(),
        "{} of {count} files are read differently, KAUDIT_TEST_SEED={seed}\n{}",
        unknown.len(),
        shown.join("\n")
    );
}

#[test]
fn every_exception_is_still_needed() {
    if !require_tool(Tool::KubectlRead) {
        return;
    }
    let exceptions = ManifestException::all();
    let examples: Vec<String> = exceptions.iter().map(|exception| exception.example.clone()).collect();
    let found = differences(&examples);
    for ManifestException { reason, example, .. } in &exceptions {
        assert!(found.iter().any(|one| one.text == *example), "read as by kubectl now: remove {reason:?}");
    }
}
