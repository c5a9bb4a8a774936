//! Files read below `-f` and `-p`: links, special files, hidden files and encodings; and status in manifests.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::{child::ChildGuard, files::folder};

use crate::kaudit;

const POLICY: &str = "package p\n\ndeny contains sprintf(\"denied: %v\", [input.metadata.name])\n";

fn pod(name: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: web}}]}}\n")
}

fn check(folder: &Path, arguments: &[&str]) -> Command {
    kaudit(folder, &[&["check", "-p", "p", "-f", "m"], arguments].concat())
}

/// Returns the exit code, the names of the evaluated objects, and the messages about unread files.
fn outcome(folder: &Path) -> (Option<i32>, Vec<String>, Vec<String>) {
    let ended = check(folder, &["-o", "json"]).output().unwrap();
    let result: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
    let texts = |list: &serde_json::Value, path: &str| {
        let texts = list.as_array().into_iter().flatten().filter_map(|entry| entry.pointer(path)?.as_str());
        texts.filter(|text| !text.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    (ended.status.code(), texts(&result["results"], "/resource/name"), texts(&result["coverage"], "/message"))
}

#[test]
fn the_status_in_a_manifest_does_not_exempt_it() {
    let finished = "status: {phase: Succeeded, conditions: [{type: Complete, status: 'True'}]}\n";
    let owner = "ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]";
    let files = [
        format!("{}{finished}", pod("pod")),
        format!("apiVersion: batch/v1\nkind: Job\nmetadata: {{name: job}}\n{finished}"),
        format!("apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: set, {owner}}}\nspec: {{replicas: 0}}\n"),
    ];
    let folder = folder(&[("p/p.rego", POLICY), ("m/all.yaml", &files.join("---\n"))]);
    assert_eq!(outcome(folder.path()), (Some(1), ["set", "job", "pod"].map(str::to_owned).to_vec(), vec![]));
}

#[test]
fn a_link_to_the_root_of_the_file_system_terminates() {
    let folder = folder(&[("p/p.rego", POLICY), ("m/a.yaml", &pod("a"))]);
    symlink("/", folder.path().join("p/root")).unwrap();
    let ended = check(folder.path(), &[]).output().unwrap();
    assert!(ended.status.code() == Some(2) && String::from_utf8_lossy(&ended.stderr).contains("p/root"), "{ended:?}");
}

#[test]
fn links_stay_within_named_directories() {
    let folder = folder(&[
        ("p/p.rego", POLICY),
        ("p/leak.rego", "package leak\n\ndeny contains sprintf(\"%v\", [data.limits])\n"),
        ("credentials.json", "{\"limits\": {\"auth\": \"TOPSECRET\"}}"),
        ("m/a.yaml", &pod("a")),
        ("elsewhere/b.yaml", &pod("b")),
        ("shared/lib.rego", "package shared\n"),
    ]);
    let root = folder.path();
    fs::create_dir(root.join("p/limits")).unwrap();
    // Within the directory, links may lead anywhere, as in a mounted ConfigMap.
    fs::create_dir(root.join("m/..2026_01")).unwrap();
    fs::write(root.join("m/..2026_01/c.yaml"), pod("c")).unwrap();
    symlink("..2026_01", root.join("m/..data")).unwrap();
    symlink("..data/c.yaml", root.join("m/c.yaml")).unwrap();
    assert_eq!(outcome(root).1, ["a", "c"]);
    symlink(root.join("elsewhere/b.yaml"), root.join("m/b.yaml")).unwrap();
    symlink("../elsewhere", root.join("m/sub")).unwrap();
    symlink("/", root.join("m/root")).unwrap();
    symlink("../m", root.join("m/loop")).unwrap();
    symlink("nowhere", root.join("m/broken.yaml")).unwrap();
    symlink("../credentials.json", root.join("m/LICENSE")).unwrap();
    assert_cmd_snapshot!("links_in_manifests", check(root, &[]));
    let both = check(root, &["-f", "elsewhere", "-o", "json"]).output().unwrap();
    let both = String::from_utf8(both.stdout).unwrap();
    assert!(both.contains("denied: b") && both.contains("m/root") && !both.contains("m/sub:"), "{both}");
    symlink(root.join("credentials.json"), root.join("p/limits/data.json")).unwrap();
    symlink("/", root.join("p/root")).unwrap();
    symlink("../shared", root.join("p/shared")).unwrap();
    assert_cmd_snapshot!("links_in_policies", check(root, &["-f", "m/a.yaml"]));
    for name in ["p/limits/data.json", "p/root"] {
        fs::remove_file(root.join(name)).unwrap();
    }
    let named = kaudit(root, &["check", "-f", "m/a.yaml", "-p", "p", "-p", "shared"]).output().unwrap();
    assert_eq!(named.status.code(), Some(1), "{named:?}");
}

#[test]
fn special_files_are_read_only_if_named() {
    let folder = folder(&[("p/p.rego", POLICY), ("m/a.yaml", &pod("a"))]);
    let root = folder.path();
    assert!(
        Command::new("mkfifo").args([root.join("m/pipe.yaml"), root.join("named.yaml")]).status().unwrap().success()
    );
    symlink("/dev/zero", root.join("m/zero.yaml")).unwrap();
    assert_cmd_snapshot!("special_files", check(root, &[]));
    let reading =
        check(root, &["-f", "named.yaml", "-o", "json"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    fs::write(root.join("named.yaml"), pod("piped")).unwrap();
    let ended = reading.wait_with_output().unwrap();
    assert!(String::from_utf8(ended.stdout).unwrap().contains("denied: piped"));
}

#[test]
fn a_signal_ends_a_run_that_still_reads_policies() {
    let folder = folder(&[("m/a.yaml", &pod("a"))]);
    let pipe = folder.path().join("pipe.rego");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (arguments, code) in [(&["check", "-p", "pipe.rego"][..], 0), (&["check", "-p", "pipe.rego", "-f", "m"], 2)] {
        let reading = kaudit(folder.path(), arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reading = ChildGuard(reading);
        let (sender, opened) = mpsc::channel();
        let path = pipe.clone();
        // Opening waits for kaudit to read.
        thread::spawn(move || sender.send(fs::OpenOptions::new().write(true).open(path)));
        let written = opened.recv_timeout(Duration::from_mins(1)).unwrap().unwrap();
        reading.signal("TERM");
        assert_eq!(reading.0.wait().unwrap().code(), Some(code), "{arguments:?}");
        drop(written);
    }
}

#[test]
fn hidden_manifests_are_read_and_hidden_settings_are_no_gap() {
    let folder = folder(&[
        ("p/p.rego", POLICY),
        ("m/a.yaml", &pod("a")),
        ("m/.b.yaml", &pod("b")),
        ("m/.argocd/c.yaml", &pod("c")),
        ("m/.git/d.yaml", &pod("d")),
        ("m/.github/workflows/ci.yml", "on: push\njobs: {}\n"),
        ("m/.vscode/settings.json", "{\n// A comment.\n\"a\": 1}"),
    ]);
    symlink("user@host.1", folder.path().join("m/.#a.yaml")).unwrap();
    let (code, names, messages) = outcome(folder.path());
    assert_eq!((code, names), (Some(1), ["a", "b", "c"].map(str::to_owned).to_vec()));
    assert!(messages.iter().all(|message| message.ends_with(": no objects")), "{messages:?}");
    assert_cmd_snapshot!("hidden_files", check(folder.path(), &["--fail-on", "none"]));
}

#[test]
fn utf_16_is_read_and_other_encodings_are_named_with_their_line() {
    let folder = folder(&[("p/p.rego", POLICY), ("m/latin.yaml", "")]);
    let text = format!("{}---\n{}", pod("wide"), pod("ü"));
    let bytes = |unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect::<Vec<_>>();
    fs::write(folder.path().join("m/little.yaml"), [&[0xff, 0xfe][..], &bytes(u16::to_le_bytes)].concat()).unwrap();
    fs::write(folder.path().join("m/big.yaml"), [&[0xfe, 0xff][..], &bytes(u16::to_be_bytes)].concat()).unwrap();
    fs::write(folder.path().join("m/latin.yaml"), b"# One.\n# caf\xe9\nkind: Pod\n").unwrap();
    let (code, names, messages) = outcome(folder.path());
    assert_eq!((code, names), (Some(1), ["wide", "wide", "ü", "ü"].map(str::to_owned).to_vec()));
    assert_eq!(messages, ["m/latin.yaml could not be read: line 2 is not UTF-8 text; save the file as UTF-8"]);
}

#[test]
fn keys_that_occur_twice_are_named_with_file_and_line() {
    let object = |data: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:{data}\n");
    let json = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"a": "1",
        "b": "{\"c\": 1, \"c\": 2}", "a": "2"}}"#;
    let all = [object("\n  a: 1\n  b: 1\n  a: 2"), object(" {a: 1, a: 2}"), object(""), "kind: ConfigMap\n".to_owned()];
    let folder = folder(&[
        ("p/p.rego", POLICY),
        ("m/all.yaml", &format!("{}---\n{}---\n{}{}", all[0], all[1], all[2], all[3])),
        ("m/kustomization.yaml", "resources: []\nresources: [all.yaml]\n"),
        ("m/list.json", &format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{json},\n{json}]}}")),
        ("m/merged.yaml", &object("\n  <<: {a: 1}\n  a: 2")),
    ]);
    assert_cmd_snapshot!("duplicate_keys", check(folder.path(), &["--fail-on", "none"]));
    let fixed = String::from_utf8(check(folder.path(), &["-f", "m/merged.yaml"]).output().unwrap().stderr).unwrap();
    assert!(!fixed.contains("merged.yaml"), "{fixed}");
}

#[test]
fn an_object_with_an_invalid_list_is_not_clean() {
    let object = |kind: &str, rest: &str| format!("apiVersion: {kind}\nmetadata: {{name: a}}\n{rest}\n");
    let folder = folder(&[
        (
            "m/deployment.yaml",
            &object("apps/v1\nkind: Deployment", "spec: {template: {spec: {containers: {name: a}}}}"),
        ),
        (
            "m/labels.yaml",
            &object("v1\nkind: Secret", "").replace("{name: a}", "{name: a, labels: {on: yes, pin: 4711}}"),
        ),
        ("m/good.yaml", &object("v1\nkind: Namespace", "")),
        ("m/custom.yaml", &object("example.com/v1\nkind: Deployment", "spec: {template: {spec: {containers: {}}}}")),
    ]);
    let checked = |more: &[&str]| kaudit(folder.path(), &[&["check", "-p", "builtin", "-f", "m"], more].concat());
    assert_cmd_snapshot!("fields_of_a_wrong_type", checked(&[]));
    let diff = kaudit(folder.path(), &["diff", "builtin:images", "builtin:probes", "-f", "m"]).output().unwrap();
    assert_eq!(diff.status.code(), Some(3), "{diff:?}");
}

/// An unrendered chart is reported in one line, not one per template, and files next to its templates are read.
#[test]
fn a_chart_that_is_not_rendered_is_named_once() {
    let template = "{{ if .Values.a }}\napiVersion: v1\nkind: Pod\nmetadata: {name: {{ .Values.a }}}\n{{ end }}\n";
    let folder = folder(&[
        ("policies/p.rego", "package p\n\ndeny contains \"never\" if input.kind == \"Nope\"\n"),
        ("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        ("charts/web/values.yaml", "a: b\n"),
        ("charts/web/templates/a.yaml", template),
        ("charts/web/templates/b.yaml", template),
        ("charts/web/templates/more/c.yaml", template),
        ("charts/web/charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 0.1.0\n"),
        ("charts/web/charts/db/templates/a.yaml", template),
        ("charts/web/crds/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"),
        ("templates/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\n"),
    ]);
    for (arguments, chart) in [
        (&["check", "charts", "templates"][..], "charts/web"),
        (&["check", "charts/web/templates", "charts/web/crds", "templates"], "charts/web"),
    ] {
        let ended = kaudit(folder.path(), arguments).output().unwrap();
        let [stdout, stderr] = [ended.stdout, ended.stderr].map(|stream| String::from_utf8(stream).unwrap());
        assert_eq!(ended.status.code(), Some(3), "{stderr}");
        let how = format!("render the chart first: helm template {chart} | kaudit check -f -");
        let warnings: Vec<_> = stderr.lines().filter(|line| line.contains("WARN")).collect();
        assert!(matches!(warnings[..], [line] if line.contains(&how)), "{stderr}");
        assert!(stdout.contains("2 objects of 1 kind checked"), "{stdout}");
    }
}
