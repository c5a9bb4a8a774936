//! Usage patterns that users bring from similar tools.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    thread,
};

use kaudit_test_support::files;

use crate::kaudit;

const POLICY: &str = "package p\n\n# METADATA\n# custom: {id: P-01, severity: high}\ndeny contains \"no label\" if not input.metadata.labels\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n";

fn folder() -> tempfile::TempDir {
    files::folder(&[("policies/p.rego", POLICY), ("a.yaml", POD), ("b/c.yaml", &POD.replace("web", "api"))])
}

/// Runs kaudit; returns the exit code and both streams.
fn run(folder: &tempfile::TempDir, arguments: &[&str]) -> (Option<i32>, String, String) {
    let ended = kaudit(folder.path(), arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ended.status.code(), text(&ended.stdout), text(&ended.stderr))
}

#[test]
fn paths_need_no_option() {
    let folder = folder();
    for arguments in [
        &["check", "a.yaml", "b"][..],
        &["check", "-f", "a.yaml", "b"],
        &["check", "-A", "a.yaml", "-f", "b"],
        &["check", "-v", "a.yaml", "b/c.yaml"],
    ] {
        let (code, stdout, stderr) = run(&folder, arguments);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stdout.contains("Pod web") && stdout.contains("Pod api"), "{stdout}");
    }
}

#[test]
fn urls_are_downloaded() {
    let folder = folder();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let answering = thread::spawn(move || {
        for answer in ["200 OK", "404 Not Found"] {
            let (mut stream, _) = server.accept().unwrap();
            let mut request = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while request.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let length = POD.len();
            write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{POD}").unwrap();
        }
    });
    let url = format!("http://{address}/pod.yaml");
    let (code, stdout, stderr) = run(&folder, &["check", &url]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stdout.contains("pod.yaml:1"), "{stdout}");
    let (code, _, stderr) = run(&folder, &["check", "-f", &url]);
    assert!(code == Some(2) && stderr.contains("404 Not Found"), "{stderr}");
    answering.join().unwrap();
    let (code, _, stderr) = run(&folder, &["check", "-f", "http://192.0.2.1/pod.yaml"]);
    assert!(code == Some(2) && stderr.contains("only https URLs are supported"), "{stderr}");
}

#[test]
fn quiet_has_results_only_and_verbose_has_titles() {
    let folder = folder();
    let (_, plain, notes) = run(&folder, &["check", "a.yaml"]);
    assert!(notes.contains("note: ") && !plain.contains("P-01: "), "{notes} {plain}");
    let (_, stdout, stderr) = run(&folder, &["check", "-q", "a.yaml"]);
    assert_eq!((stdout, stderr), (plain, String::new()));
    let (_, stdout, _) = run(&folder, &["check", "-v", "a.yaml"]);
    assert!(stdout.contains("p/deny: P-01"), "{stdout}");
    let (_, stdout, _) = run(&folder, &["check", "--summary", "a.yaml", "b"]);
    assert!(stdout.starts_with("SEVERITY  FAIL\nhigh         2\n") && !stdout.contains("Pod web"), "{stdout}");
}

#[test]
fn discovered_settings_only_affect_the_result() {
    let folder = folder();
    let write = |text: &str| fs::write(folder.path().join("kaudit.yaml"), text).unwrap();
    write("fail-on: none\nskip-rule: [P-02]\n");
    assert_eq!(run(&folder, &["check", "a.yaml"]).0, Some(2), "no rule is called so");
    write("fail-on: none\n");
    let (code, _, stderr) = run(&folder, &["check", "a.yaml"]);
    assert!(code == Some(0) && stderr.contains("note: reading settings from kaudit.yaml"), "{stderr}");
    let elsewhere = files::folder(&[("a.yaml", POD)]);
    let policies = folder.path().join("policies").display().to_string();
    assert_eq!(run(&elsewhere, &["check", "a.yaml", "-p", &policies]).0, Some(0), "it is beside the policies");
    fs::write(folder.path().join("other.yaml"), "fail-on: warn\n").unwrap();
    assert_eq!(run(&folder, &["check", "a.yaml", "--config", "other.yaml"]).0, Some(1));
    for reserved in [
        "kubeconfig: x",
        "record: [events]",
        "listen: 127.0.0.1:0",
        "write-baseline: x",
        "output: [json=x]",
        "verification-key: x",
        "notify: x",
    ] {
        write(reserved);
        let (code, _, stderr) = run(&folder, &["check", "a.yaml"]);
        assert!(code == Some(2) && stderr.contains("kaudit.yaml:1: ") && stderr.contains("--config"), "{stderr}");
    }
}

#[test]
fn unknown_environment_variables_are_named() {
    let folder = folder();
    let ended = kaudit(folder.path(), &["check", "a.yaml"]).env("KAUDIT_FAILON", "none").output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(stderr.contains("KAUDIT_FAILON is not a setting of kaudit; did you mean KAUDIT_FAIL_ON?"), "{stderr}");
}

#[test]
fn rules_are_explained_by_their_id() {
    let folder = folder();
    let (code, stdout, stderr) = run(&folder, &["explain", "-f", "a.yaml", "Pod", "web", "p-01"]);
    assert!(code == Some(0) && stdout.contains("no label"), "{stdout} {stderr}");
    let (code, _, stderr) = run(&folder, &["explain", "-f", "a.yaml", "d27d"]);
    assert!(code == Some(2) && stderr.contains("is not a result id"), "{stderr}");
}

/// Each format that needs a file points to the template named by `helm template`, if its chart is below the working
/// directory, whatever the name of the chart's directory.
#[test]
fn rendered_manifests_are_named_by_their_helm_template() {
    let folder = files::folder(&[
        ("policies/p.rego", POLICY),
        ("deploy/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        ("deploy/templates/pod.yaml", "{{ if .Values.pod }}\n"),
        ("deploy/charts/db/templates/pod.yaml", "{{ if .Values.pod }}\n"),
    ]);
    let document = |source: &str, name: &str| format!("---\n# Source: {source}\n{}", POD.replace("web", name));
    let rendered = [
        document("web/templates/pod.yaml", "a"),
        document("web/charts/db/templates/pod.yaml", "b"),
        document("other/templates/pod.yaml", "c"),
        format!("---\n{}", POD.replace("web", "d")),
    ]
    .concat();
    let output = |format: &str| {
        fs::write(folder.path().join("rendered"), &rendered).unwrap();
        let mut command = kaudit(folder.path(), &["check", "-f", "-", "-o", format]);
        let ended = command.stdin(fs::File::open(folder.path().join("rendered")).unwrap()).output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    let text = output("text");
    for place in [
        "Pod a  deploy/templates/pod.yaml:1\n",
        "Pod b  deploy/charts/db/templates/pod.yaml:1\n",
        "Pod c  other/templates/pod.yaml:1\n",
        "Pod d  -:20\n",
    ] {
        assert!(text.contains(place), "{place}{text}");
    }
    let github = output("github");
    assert!(github.contains("file=deploy/templates/pod.yaml,line=1"), "{github}");
    let gitlab: serde_json::Value = serde_json::from_str(&output("gitlab")).unwrap();
    assert_eq!(gitlab[0]["location"]["path"], "deploy/templates/pod.yaml");
}
