//! Baselines and audits as input: new and fixed violations, and the supported file formats.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::Path,
    process::Stdio,
};

use clap::ValueEnum as _;
use kaudit::output::Format;
use kaudit_test_support::files;
use serde_json::Value;

use crate::kaudit;

const POLICY: &str =
    "package ports\n\ndeny contains sprintf(\"opens port %d\", [port]) if {\n\tsome port in input.spec.ports\n}\n";

fn pod(name: &str, ports: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{ports: [{ports}]}}\n")
}

/// Runs `kaudit`; returns its exit code and standard output.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let ended = kaudit(folder, arguments).output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    let code = ended.status.code().unwrap();
    assert!(code != 2, "{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
    (code, text)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// Returns the messages of the new violations.
fn new(folder: &Path, arguments: &[&str]) -> Vec<String> {
    let command = [&["check", "--baseline", "baseline.json", "-o", "json"], arguments].concat();
    let (code, text) = run(folder, &command);
    let results = json(&text)["results"].as_array().unwrap().clone();
    let new = results.iter().filter(|entry| entry["result"] == "fail");
    let new: Vec<String> = new.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect();
    assert_eq!(code, i32::from(!new.is_empty()), "{text}");
    new
}

fn listed(folder: &Path) -> usize {
    json(&fs::read_to_string(folder.join("baseline.json")).unwrap())["results"].as_array().unwrap().len()
}

#[test]
fn violations_that_differ_in_a_number_are_counted() {
    let folder = files::folder(&[("policies/p.rego", POLICY), ("m/a.yaml", &pod("a", "80"))]);
    let folder = folder.path();
    assert_eq!(run(folder, &["check", "-f", "m", "--write-baseline", "baseline.json"]).0, 0);
    assert_eq!(new(folder, &["-f", "m"]), [""; 0]);
    fs::write(folder.join("m/a.yaml"), pod("a", "22, 80")).unwrap();
    assert_eq!(new(folder, &["-f", "m"]), ["opens port 22"]);
    fs::write(folder.join("m/a.yaml"), pod("a", "22, 443")).unwrap();
    assert_eq!(new(folder, &["-f", "m"]), ["opens port 22", "opens port 443"]);
    // The same object in another file.
    fs::write(folder.join("m/a.yaml"), pod("a", "80")).unwrap();
    fs::create_dir(folder.join("m/prod")).unwrap();
    fs::write(folder.join("m/prod/a.yaml"), pod("a", "80")).unwrap();
    let (code, text) = run(folder, &["check", "-f", "m", "--baseline", "baseline.json"]);
    assert_eq!(code, 1);
    assert!(text.contains("m/prod/a.yaml") && !text.contains("m/a.yaml"), "{text}");
}

#[test]
fn violations_in_unread_files_are_not_fixed() {
    let all = ["m/a.yaml", "m/b.yaml", "n/c.yaml", "n/d.yaml"];
    let texts = ["a", "b", "c", "d"].map(|name| pod(name, "80"));
    let mut given = vec![("policies/p.rego", POLICY)];
    given.extend(all.iter().copied().zip(texts.iter().map(String::as_str)));
    let folder = files::folder(&given);
    let folder = folder.path();
    assert_eq!(run(folder, &["check", "-f", "m", "-f", "n", "--write-baseline", "baseline.json"]).0, 0);
    assert_eq!(listed(folder), 4);
    let prune = |arguments: &[&str]| {
        let (code, text) =
            run(folder, &[&["check", "--baseline", "baseline.json", "--prune-baseline"], arguments].concat());
        (code, listed(folder), text)
    };
    // Audit one file only, and then leave out Pods.
    let (code, left, text) = prune(&["-f", "m/a.yaml"]);
    assert_eq!((code, left), (0, 4), "{text}");
    assert!(text.contains("not compared: 3 entries of the baseline"), "{text}");
    // Another object, so that a run without Pods has some.
    fs::write(folder.join("m/e.yaml"), "apiVersion: v1\nkind: Service\nmetadata: {name: e, namespace: shop}\n")
        .unwrap();
    assert_eq!(prune(&["-f", "m", "--exclude", "pods"]).1, 4);
    // One violation is fixed, and the file of another deleted.
    fs::write(folder.join("m/a.yaml"), pod("a", "")).unwrap();
    let hint = "--prune-baseline removes fixed violations";
    let text = run(folder, &["check", "--baseline", "baseline.json", "-f", "m/a.yaml"]).1;
    assert!(text.contains("fixed: Pod") && text.contains(hint), "{text}");
    let (_, left, text) = prune(&["-f", "m/a.yaml"]);
    assert!(left == 3 && text.contains("fixed: Pod") && !text.contains(hint), "{text}");
    fs::remove_file(folder.join("m/b.yaml")).unwrap();
    assert_eq!(prune(&["-f", "./m/"]).1, 2);
    fs::remove_file(folder.join("n/d.yaml")).unwrap();
    assert_eq!(prune(&["-f", "n/c.yaml"]).1, 2, "whether it is fixed is not known");
}

#[test]
fn a_changed_message_is_not_a_new_violation() {
    let folder =
        files::folder(&[("policies/p.rego", POLICY), ("m/a.yaml", &pod("a", "80, 81")), ("m/b.yaml", &pod("b", "80"))]);
    let folder = folder.path();
    run(folder, &["check", "-f", "m", "--write-baseline", "baseline.json"]);
    fs::write(folder.join("policies/p.rego"), POLICY.replace("opens", "uses")).unwrap();
    assert_eq!(new(folder, &["-f", "m"]), [""; 0]);
    let summary = |arguments: &[&str]| {
        json(&run(folder, &[&["check", "-o", "json", "--baseline", "baseline.json"], arguments].concat()).1)
    };
    assert_eq!(summary(&["-f", "m"])["baseline"]["fixed"].as_array().unwrap().len(), 0);
    fs::write(folder.join("m/b.yaml"), pod("b", "80, 22")).unwrap();
    assert_eq!(new(folder, &["-f", "m"]).len(), 1);
    fs::write(folder.join("m/b.yaml"), pod("b", "80")).unwrap();
    // Pruning updates the messages.
    summary(&["-f", "m", "--prune-baseline"]);
    assert!(fs::read_to_string(folder.join("baseline.json")).unwrap().contains("uses port 80"));
    assert_eq!(new(folder, &["-f", "m"]), [""; 0]);
}

#[test]
fn baselines_of_earlier_versions_still_work() {
    let folder = files::folder(&[("policies/p.rego", POLICY), ("m/a.yaml", &pod("a", "80"))]);
    let folder = folder.path();
    run(folder, &["check", "-f", "m", "--write-baseline", "baseline.json"]);
    let path = folder.join("baseline.json");
    let mut baseline = json(&fs::read_to_string(&path).unwrap());
    assert_eq!(baseline["form"], 2);
    baseline.as_object_mut().unwrap().remove("form");
    baseline["results"][0].as_object_mut().unwrap().remove("file");
    fs::write(&path, baseline.to_string()).unwrap();
    fs::write(folder.join("m/a.yaml"), pod("a", "80, 22")).unwrap();
    assert_eq!(new(folder, &["-f", "m"]), [""; 0]);
    let ended = kaudit(folder, &["check", "-f", "m", "--baseline", "baseline.json"]).output().unwrap();
    assert!(String::from_utf8_lossy(&ended.stderr).contains("Write it again with --write-baseline"), "{ended:?}");
    baseline["form"] = 3.into();
    fs::write(&path, baseline.to_string()).unwrap();
    let ended = kaudit(folder, &["check", "-f", "m", "--baseline", "baseline.json"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("form 3"), "{ended:?}");
}

fn gzipped(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn audits_and_baselines_are_read_in_every_format() {
    let folder = files::folder(&[("policies/p.rego", POLICY), ("m/a.yaml", &pod("a", "80"))]);
    let folder = folder.path();
    let audit = run(folder, &["check", "-f", "m", "-o", "json"]).1;
    let lines = run(folder, &["check", "-f", "m", "-o", "ndjson"]).1;
    let (code, baseline) = run(folder, &["check", "-f", "m", "--write-baseline", "-"]);
    assert_eq!((code, &json(&baseline)["kind"]), (0, &Value::from("Baseline")));
    assert!(!folder.join("-").exists());
    fs::write(folder.join("m/a.yaml"), pod("a", "80, 22")).unwrap();
    fs::write(folder.join("new.json"), run(folder, &["check", "-f", "m", "-o", "json"]).1).unwrap();
    let marked = |text: &str| format!("\u{feff}{text}").into_bytes();
    for (name, content) in [
        ("old", audit.clone().into_bytes()),
        ("old.ndjson", lines.clone().into_bytes()),
        ("old.json.gz", gzipped(audit.as_bytes())),
        ("lines.gz", gzipped(lines.as_bytes())),
        ("marked.json", marked(&audit)),
    ] {
        fs::write(folder.join(name), content).unwrap();
        let (code, text) = run(folder, &["diff", name, "new.json", "-o", "json"]);
        let diff = json(&text);
        assert_eq!((code, diff["appears"].as_array().unwrap().len()), (1, 1), "{name}: {text}");
        assert_eq!(diff["appears"][0]["message"], "opens port 22", "{name}");
    }
    for (name, content) in [("a.json", marked(&baseline)), ("a.gz", gzipped(baseline.as_bytes()))] {
        fs::write(folder.join(name), content).unwrap();
        assert_eq!(run(folder, &["check", "-f", "m", "--baseline", name]).0, 1, "{name}");
    }
    let cut = lines.lines().next().unwrap();
    fs::write(folder.join("cut.ndjson"), format!("{cut}\n{cut}\n")).unwrap();
    for (arguments, want) in [
        (&["diff", "nowhere.json", "new.json"][..], "reading nowhere.json: No such file"),
        (&["diff", "cut.ndjson", "new.json"], "it is cut off"),
        (&["diff", "old", "policies"], "is an audit and policies is not"),
        (
            &["check", "-f", "m", "--baseline", "new.json"],
            "new.json: expected kind Baseline of kaudit.dev/v1alpha1, found AuditResult",
        ),
        (&["check", "-f", "m", "--baseline", "a.gz", "--prune-baseline"], "a.gz is compressed"),
        (&["check", "-f", "m", "--write-baseline", "-", "-o", "json"], "both go to standard output"),
    ] {
        let ended = kaudit(folder, arguments).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(stderr.contains(want), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_closed_pipe_is_not_an_error_in_any_format() {
    let pods: Vec<String> = (0..3_000).map(|number| pod(&format!("p{number}"), "80")).collect();
    let folder = files::folder(&[("policies/p.rego", POLICY), ("m/a.yaml", &pods.join("---\n"))]);
    for format in Format::value_variants() {
        let mut command = kaudit(folder.path(), &["check", "-f", "m", "-p", "policies", "-o", format.name()]);
        let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0];
        running.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let ended = running.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), String::from_utf8(ended.stderr).unwrap()),
            (Some(1), String::new()),
            "{}",
            format.name()
        );
    }
}

#[test]
fn file_names_are_relative_to_the_repository() {
    let folder = files::folder(&[("deploy/policies/p.rego", POLICY), ("deploy/m/a.yaml", &pod("a", "80"))]);
    let here = folder.path().join("deploy");
    let absolute = here.join("m");
    let path = |variable: Option<&str>, given: &str, format: &str| {
        let mut command = kaudit(&here, &["check", "-f", given, "-o", format]);
        if let Some(variable) = variable {
            command.env(variable, folder.path());
        }
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        match format {
            "github" => text.split("file=").nth(1).unwrap().split(',').next().unwrap().to_owned(),
            "gitlab" => json(&text)[0]["location"]["path"].as_str().unwrap().to_owned(),
            _ => json(&text)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
                .as_str()
                .unwrap()
                .to_owned(),
        }
    };
    for format in ["github", "gitlab", "sarif"] {
        assert_eq!(path(None, "m", format), "m/a.yaml", "{format}");
        for variable in ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"] {
            assert_eq!(path(Some(variable), "m", format), "deploy/m/a.yaml", "{format}");
            assert_eq!(path(Some(variable), absolute.to_str().unwrap(), format), "deploy/m/a.yaml", "{format}");
        }
    }
    fs::create_dir(folder.path().join(".git")).unwrap();
    for format in ["github", "gitlab", "sarif"] {
        assert_eq!(path(None, "m", format), "deploy/m/a.yaml", "{format}");
    }
}

#[test]
fn reports_and_runs_have_the_given_names() {
    let clean = pod("c", "").replace("namespace: shop", "namespace: clean");
    let folder = files::folder(&[("policies/p.rego", POLICY), ("m/a.yaml", &pod("a", "80")), ("m/c.yaml", &clean)]);
    let (_, text) = run(folder.path(), &["check", "-f", "m", "-o", "openreport", "--report-name", "shop-ci"]);
    let reports = json(&text)["items"].as_array().unwrap().clone();
    let named: Vec<(&str, u64)> = reports
        .iter()
        .map(|report| {
            assert_eq!(report["metadata"]["name"], "shop-ci");
            assert_eq!(report["metadata"]["labels"]["app.kubernetes.io/instance"], "shop-ci");
            (report["metadata"]["namespace"].as_str().unwrap(), report["summary"]["fail"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(named, [("clean", 0), ("shop", 1)]);
    let sarif =
        |arguments: &[&str]| json(&run(folder.path(), &[&["check", "-f", "m", "-o", "sarif"], arguments].concat()).1);
    assert_eq!(sarif(&["--sarif-id", "kaudit/shop/"])["runs"][0]["automationDetails"]["id"], "kaudit/shop/");
    assert_eq!(sarif(&[])["runs"][0].get("automationDetails"), None);
    assert_eq!(sarif(&[])["runs"][0]["tool"]["driver"]["rules"][0]["name"], "Deny");
}

#[test]
fn fixing_one_of_two_files_keeps_the_fingerprint_of_the_other() {
    let folder = files::folder(&[
        ("policies/p.rego", POLICY),
        ("m/dev.yaml", &pod("a", "80")),
        ("m/prod.yaml", &pod("a", "80")),
    ]);
    let print = |format: &str| -> Vec<(String, String)> {
        let text = json(&run(folder.path(), &["check", "-f", "m", "-o", format]).1);
        let all = if format == "gitlab" { &text } else { &text["runs"][0]["results"] };
        let of = |one: &Value| {
            let place = &one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
            let [place, print] = if format == "gitlab" {
                [&one["location"]["path"], &one["fingerprint"]]
            } else {
                [place, &one["partialFingerprints"]["primaryLocationLineHash"]]
            };
            (place.to_string(), print.to_string())
        };
        all.as_array().unwrap().iter().map(of).collect()
    };
    let before = [print("gitlab"), print("sarif")];
    assert!(before.iter().all(|prints| prints.len() == 2 && prints[0].1 != prints[1].1), "{before:?}");
    fs::write(folder.path().join("m/dev.yaml"), pod("a", "")).unwrap();
    for (before, after) in before.iter().zip([print("gitlab"), print("sarif")]) {
        assert_eq!(after, before[1..]);
    }
}
