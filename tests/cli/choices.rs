//! Rules, namespaces and severities excluded by the user, and the severity that determines the exit code.

use std::fs;

use clap::ValueEnum as _;
use insta_cmd::assert_cmd_snapshot;
use kaudit::output::Format;
use kaudit_test_support::files;
use serde_json::Value;

use crate::kaudit;

const POLICIES: &str = r#"
# METADATA
# scope: package
# custom: {category: Labels}
package labels

# METADATA
# title: Team
# custom: {id: LBL-01, severity: high}
deny_team contains "no team" if not input.metadata.labels.team

# METADATA
# custom: {id: LBL-02, severity: low}
warn_app contains "no app" if not input.metadata.labels.app

# A result may say how severe it is.
deny_owner contains {"msg": "no owner", "severity": "medium"} if not input.metadata.labels.owner
"#;

const PLAIN: &str = "package plain\n\ndeny contains \"no severity\" if not input.metadata.labels.plain\n";

fn objects() -> String {
    ["shop", "kube-system", "kube-public"]
        .map(|namespace| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: {namespace}}}\n"))
        .join("---\n")
}

fn folder() -> tempfile::TempDir {
    files::folder(&[("policies/labels.rego", POLICIES), ("policies/plain.rego", PLAIN), ("a.yaml", &objects())])
}

/// Runs a check of the manifests; returns the exit code and the result.
fn check(folder: &tempfile::TempDir, arguments: &[&str]) -> (i32, Value) {
    let command = [&["check", "-f", "a.yaml", "-o", "json"], arguments].concat();
    let ended = kaudit(folder.path(), &command).output().unwrap();
    (ended.status.code().unwrap(), serde_json::from_slice(&ended.stdout).unwrap_or_default())
}

/// Returns namespace, rule and severity of each violation.
fn found(result: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let one = |entry: &Value| [&entry["resource"]["namespace"], &entry["rule"], &entry["severity"]].map(text).join(" ");
    result["results"].as_array().into_iter().flatten().map(one).collect()
}

#[test]
fn rules_are_switched_off_by_name_id_and_glob() {
    let folder = folder();
    let rules = |arguments: &[&str]| {
        let found = found(&check(&folder, &[arguments, &["--exclude-namespace", "kube-*"]].concat()).1);
        found.iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(rules(&[]), "deny_owner deny_team warn_app deny");
    for (pattern, left) in [
        ("LBL-01", "deny_owner warn_app deny"),
        ("LBL-0?,plain", "deny_owner"),
        ("labels/deny_*", "warn_app deny"),
        ("labels", "deny"),
        ("deny_team", "deny_owner warn_app deny"),
        ("*/deny*", "warn_app"),
    ] {
        assert_eq!(rules(&["--skip-rule", pattern]), left, "{pattern}");
    }
    assert_cmd_snapshot!(
        "choices_unknown",
        kaudit(folder.path(), &["check", "-f", "a.yaml", "--skip-rule=LBL-03,team"])
    );
    assert_cmd_snapshot!("choices_all_off", kaudit(folder.path(), &["check", "-f", "a.yaml", "--skip-rule=*"]));
}

#[test]
fn excluded_namespaces_still_serve_lookups() {
    let folder = folder();
    let lookup = "package services\n\ndeny contains name if data.kubernetes.configmaps[\"kube-system\"][name]\n";
    fs::write(folder.path().join("policies/services.rego"), lookup).unwrap();
    let arguments = ["--exclude-namespace", "kube-*", "--skip-rule", "labels", "--skip-rule", "plain"];
    let (code, result) = check(&folder, &arguments);
    assert_eq!((code, found(&result)), (1, vec!["shop deny -".to_owned()]));
    assert_eq!(result["excludedNamespaces"], serde_json::json!(["kube-*"]));
    assert_eq!(result["summary"]["objects"], 1);
    for wrong in ["Kube", "", "a b"] {
        assert_eq!(check(&folder, &["--exclude-namespace", wrong]).0, 2, "{wrong}");
    }
}

#[test]
fn manifests_without_a_namespace_are_in_the_default_one() {
    let pod = |name: &str, place: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}{place}}}, spec: {{containers: [{{name: c, image: x}}]}}}}"
        )
    };
    let role =
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}, rules: []}".to_owned();
    let manifests =
        [pod("a", ""), pod("b", ", namespace: default"), pod("c", ", namespace: shop"), role].join("\n---\n");
    let folder = kaudit_test_support::files::folder(&[("pods.yaml", &manifests)]);
    for (namespace, objects) in [("default", 2), ("shop", 1)] {
        let arguments = ["check", "-f", "pods.yaml", "-n", namespace, "-p", "builtin:images", "-o", "json"];
        let ended = kaudit(folder.path(), &arguments).output().unwrap();
        let result: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(result["summary"]["objects"], objects, "{namespace}");
    }
}

#[test]
fn settings_of_rules_are_read_from_the_file_and_the_environment() {
    let folder = folder();
    let file = "rules:\n  LBL-02: off\n  labels/*: {severity: info}\n  labels/deny_owner: {namespaces: [shop]}\n  \
                plain: {namespaces: [kube-*], severity: critical}\n";
    fs::write(folder.path().join("kaudit.yaml"), file).unwrap();
    let expected = [
        "kube-public deny_team info",
        "kube-public deny critical",
        "kube-system deny_team info",
        "kube-system deny critical",
        "shop deny_owner info",
        "shop deny_team info",
    ];
    let (code, result) = check(&folder, &["--config", "kaudit.yaml", "--fail-on", "high"]);
    assert_eq!((code, found(&result)), (1, expected.map(str::to_owned).to_vec()));
    assert_eq!(result["skippedRules"], serde_json::json!([{"policy": "labels", "rule": "warn_app", "id": "LBL-02"}]));
    for (text, part) in [
        ("rules: [a]\n", "rules"),
        ("rules:\n  LBL-01: {severity: bad}\n", "unknown severity"),
        ("rules:\n  LBL-01: {level: low}\n", "LBL-01 has no parameter level"),
        ("rules:\n  LBL-09: off\n", "did you mean LBL-0"),
        (
            "rules:\n  IMG-03: off\n",
            "no rule or policy matches IMG-03: it is in builtin:practices; add -p builtin:practices",
        ),
    ] {
        fs::write(folder.path().join("kaudit.yaml"), text).unwrap();
        let mut command = kaudit(folder.path(), &["check", "-f", "a.yaml", "--config", "kaudit.yaml"]);
        let ended = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(2) && stderr.contains(part), "{text}: {stderr}");
    }
    fs::remove_file(folder.path().join("kaudit.yaml")).unwrap();
    let mut command = kaudit(folder.path(), &["check", "-f", "a.yaml", "-o", "json"]);
    let ended =
        command.env("KAUDIT_RULES", r#"{"labels": "off"}"#).env("KAUDIT_SKIP_RULE", "plain/x,plain").output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "every rule is off");
}

#[test]
fn severity_determines_exit_code_and_reported_results() {
    let folder = folder();
    let code = |arguments: &[&str]| check(&folder, arguments).0;
    let only = |rule: &'static str| -> Vec<&'static str> {
        let all = ["labels/deny_team", "labels/warn_app", "labels/deny_owner", "plain"];
        all.into_iter().filter(|one| *one != rule).flat_map(|one| ["--skip-rule", one]).collect()
    };
    // A fail without a severity counts, and so do all results of the same or a higher severity.
    for (rule, codes) in [
        ("labels/deny_team", [0, 1, 1, 1, 1]),
        ("labels/warn_app", [0, 0, 0, 1, 1]),
        ("labels/deny_owner", [0, 0, 1, 1, 1]),
        ("plain", [1, 1, 1, 1, 1]),
    ] {
        let severities = ["critical", "high", "medium", "low", "info"];
        let found = severities.map(|severity| code(&[&only(rule)[..], &["--fail-on", severity]].concat()));
        assert_eq!(found, codes, "{rule}");
    }
    let (code, result) = check(&folder, &["--min-severity", "medium", "--exclude-namespace", "kube-*"]);
    let expected = ["shop deny_owner medium", "shop deny_team high", "shop deny -"];
    assert_eq!((code, found(&result)), (1, expected.map(str::to_owned).to_vec()));
    assert_eq!((&result["minSeverity"], &result["summary"]["fail"]), (&"medium".into(), &3.into()));
}

#[test]
fn every_format_names_exclusions() {
    let folder = folder();
    let choices = ["--skip-rule", "LBL-02", "--exclude-namespace", "kube-*", "--min-severity", "medium"];
    for format in Format::value_variants() {
        let command = [&["check", "-f", "a.yaml", "-o", format.name()], &choices[..]].concat();
        let ended = kaudit(folder.path(), &command).output().unwrap();
        let text = String::from_utf8_lossy(&ended.stdout);
        let named = ["LBL-02", "kube-"].map(|name| text.contains(name));
        // These formats have no field for it.
        let expected = !matches!(format, Format::Csv | Format::Gitlab | Format::Openreport);
        assert_eq!(named, [expected; 2], "{}: {text}", format.name());
    }
}

/// `-l` selects objects as kubectl does and is shown; a baseline does not treat unselected objects as fixed.
#[test]
fn labels_choose_objects() {
    let pod = |name: &str, app: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {{app: {app}}}\n")
    };
    let folder = files::folder(&[
        ("policies/p.rego", "package p\n\ndeny contains \"never\"\n"),
        ("pods.yaml", &[pod("a", "web"), pod("b", "api"), pod("c", "db")].join("---\n")),
    ]);
    let run = |arguments: &[&str]| {
        let ended = kaudit(folder.path(), &[&["check", "-f", "pods.yaml"], arguments].concat()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ended.status.code(), text(&ended.stdout), text(&ended.stderr))
    };
    let (code, stdout, _) = run(&["-l", "app in (web,api),!tier"]);
    assert_eq!(code, Some(1));
    assert!(stdout.contains("Pod a") && stdout.contains("Pod b") && !stdout.contains("Pod c"), "{stdout}");
    let ended = run(&["-l", "app=db"]);
    let all = format!("{}{}", ended.1, ended.2);
    assert!(all.contains("only objects with the labels app=db"), "{all}");

    assert_eq!(run(&["--write-baseline", "baseline.yaml"]).0, Some(0));
    let (code, stdout, stderr) = run(&["--baseline", "baseline.yaml", "--prune-baseline", "-l", "app=web"]);
    assert_eq!(code, Some(3), "what is left out was not compared: {stdout}{stderr}");
    let (code, stdout, stderr) = run(&["--baseline", "baseline.yaml"]);
    assert_eq!(code, Some(0), "nothing was pruned: {stdout}{stderr}");

    for (selector, why) in [("app in web", "is not a label selector"), ("", "is not a label selector")] {
        let (code, _, stderr) = run(&["-l", selector]);
        assert!(code == Some(2) && stderr.contains(why), "{stderr}");
    }
    for (arguments, why) in [
        (&["check", "-l", "app=web"][..], "--selector needs --once or --filename"),
        (&["check", "--once", "--record=events", "-l", "app=web"], "--selector makes no sense with --record"),
    ] {
        let ended = kaudit(folder.path(), arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(2) && stderr.contains(why), "{stderr}");
    }
}

/// Violations below `--min-severity` do not count as fixed, neither in a baseline nor in a comparison of audits.
#[test]
fn less_severe_violations_do_not_count_as_fixed() {
    let rule = |name: &str, severity: &str| {
        format!("# METADATA\n# custom: {{severity: {severity}}}\ndeny_{name} contains \"{name}\"\n\n")
    };
    let folder = files::folder(&[
        ("policies/p.rego", &format!("package p\n\n{}{}", rule("bad", "high"), rule("small", "low"))),
        ("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"),
    ]);
    let run = |arguments: &[&str]| {
        let ended = kaudit(folder.path(), arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ended.status.code(), format!("{}{}", text(&ended.stdout), text(&ended.stderr)))
    };
    let check = |arguments: &[&str]| run(&[&["check", "-f", "pod.yaml"], arguments].concat());
    assert_eq!(check(&["--write-baseline", "baseline.json"]).0, Some(0));
    let severe = ["--baseline", "baseline.json", "--min-severity", "HIGH"];
    let (code, text) = check(&[&severe[..], &["--prune-baseline"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("not compared: 1 entry of the baseline") && text.contains("less severe than high"), "{text}");
    assert_eq!(check(&["--baseline", "baseline.json"]).0, Some(0), "nothing was pruned");

    assert_eq!(check(&["-o", "json=all.json"]).0, Some(1));
    assert_eq!(check(&["-o", "json=severe.json", "--min-severity", "high"]).0, Some(1));
    let (code, text) = run(&["diff", "all.json", "severe.json"]);
    assert!(code == Some(3) && text.contains("--min-severity high leaves it out"), "{code:?} {text}");
}

/// Results are never written over input files.
#[test]
fn inputs_are_not_overwritten() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
    let folder = files::folder(&[("policies/p.rego", "package p\n\ndeny contains \"never\"\n"), ("pod.yaml", pod)]);
    for option in ["--output=json=pod.yaml", "--write-baseline=./pod.yaml", "--write-exceptions=policies/../pod.yaml"] {
        let ended = kaudit(folder.path(), &["check", "-f", "pod.yaml", option]).output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(2) && stderr.contains("write the result to another file"), "{stderr}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("pod.yaml")).unwrap(), pod);
}

/// A baseline does not treat violations in excluded namespaces as fixed.
#[test]
fn a_baseline_keeps_violations_in_excluded_namespaces() {
    let pod = |name: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {name}}}\n");
    let folder = files::folder(&[
        ("policies/p.rego", "package p\n\ndeny contains \"never\"\n"),
        ("pods.yaml", &[pod("a"), pod("b")].join("---\n")),
    ]);
    let run = |arguments: &[&str]| {
        let ended = kaudit(folder.path(), &[&["check", "-f", "pods.yaml"], arguments].concat()).output().unwrap();
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    assert_eq!(run(&["--write-baseline", "baseline.yaml"]).0, Some(0));
    let pruned = run(&["--baseline", "baseline.yaml", "--prune-baseline", "--exclude-namespace", "b"]);
    assert_eq!(pruned.0, Some(3), "what is left out was not compared: {}", pruned.1);
    let all = run(&["--baseline", "baseline.yaml"]);
    assert_eq!(all.0, Some(0), "{}", all.1);
}
