//! CI runners find no command in kaudit's output, whatever manifests, policies, file names and options contain.

use std::{fs, path::Path};

use clap::ValueEnum as _;
use kaudit::output::Format;
use kaudit_test_support::files;

use crate::kaudit;

/// A command in the middle of a line for each runner, and one at the beginning.
const HOSTILE: &str = "see ##[add-mask]a ##vso[task.setvariable variable=PATH]b ##teamcity[c]\n::error::d\n ##[error]e";
const NAME: &str = "x##[error]y";

/// Quotes text for YAML, JSON and Rego alike.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn folder() -> tempfile::TempDir {
    let policy = format!(
        "# METADATA\n# title: {0}\n# description: {0}\npackage p\n\n# METADATA\n# title: {0}\ndeny contains input.data.m\n\n\
         warn contains {0} if input.metadata.name == {1}\n",
        quoted(HOSTILE),
        quoted(NAME)
    );
    let failing =
        format!("package p_test\n\ntest_print if {{\n\tprint({0})\n\tx := {0}\n\tx == 1\n}}\n", quoted(HOSTILE));
    let object = |message: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}, namespace: {}}}\ndata: {{m: {}}}\n",
            quoted(NAME),
            quoted(NAME),
            quoted(message)
        )
    };
    files::folder(&[
        ("policies/p.rego", &policy),
        ("policies/p_test.rego", &failing),
        ("broken##[error]/p.rego", "package p\n\ndeny contains \"##[error]\" if {\n"),
        ("m/##[error]a.yaml", &object(HOSTILE)),
        ("other/a.yaml", &object("other")),
        ("bad/##vso[task.x]y.yaml", "kind: ##[error]\nmetadata: [\n"),
    ])
}

fn assert_obeyed_by_none(what: &str, text: &str) {
    for line in text.lines() {
        let lower = line.to_lowercase();
        for command in ["##[", "##vso[", "##teamcity["] {
            assert!(!lower.contains(command), "{what}: {line}");
        }
        let own = what.contains("github") && ["::error ", "::warning "].iter().any(|own| line.starts_with(own));
        assert!(own || !line.trim_start().starts_with("::"), "{what}: {line}");
    }
    assert!(!text.contains(['\r', '\u{85}', '\u{202e}']), "{what}: {text:?}");
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    let ended = kaudit(folder, arguments).output().unwrap();
    let text = [("stdout", ended.stdout), ("stderr", ended.stderr)].map(|(name, bytes)| {
        let text = String::from_utf8(bytes).unwrap();
        assert_obeyed_by_none(&format!("{arguments:?} {name}"), &text);
        text
    });
    assert!(text.iter().any(|text| !text.is_empty()), "{arguments:?}");
    text.concat()
}

#[test]
fn no_output_contains_commands_for_runners() {
    let folder = folder();
    let run = |arguments: &[&str]| run(folder.path(), arguments);
    for format in Format::value_variants() {
        let name = format.name();
        run(&["check", "-f", "m", "-f", "bad", "-o", name]);
        run(&["check", "-f", "m", "-o", &format!("{name}=out"), "--fail-on", "none", "-o", "ndjson"]);
        assert_obeyed_by_none(&format!("a file of {name}"), &fs::read_to_string(folder.path().join("out")).unwrap());
    }
    let json = run(&["check", "-p", "policies", "-f", "m", "-o", "json"]);
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(result["results"].as_array().unwrap().iter().any(|entry| entry["message"] == HOSTILE), "{json}");
    fs::write(folder.path().join("new.json"), &json).unwrap();
    fs::write(folder.path().join("old.json"), run(&["check", "-p", "policies", "-f", "other", "-o", "json"])).unwrap();
    for format in ["text", "json", "markdown"] {
        run(&["diff", "old.json", "new.json", "-o", format]);
        run(&["diff", "builtin:services", "policies", "-f", "m", "-o", format]);
    }
    let object = format!("{NAME}/{NAME}");
    for format in ["text", "json"] {
        run(&["explain", "ConfigMap", &object, "p/deny", "-f", "m", "-o", format]);
        run(&["policies", "policies", "-o", format]);
    }
    for format in ["text", "json", "junit"] {
        run(&["test", "policies", "-o", format]);
        run(&["test", "policies", "-o", format, "-v"]);
    }
    run(&["check", "-f", "m", "-p", "broken##[error]"]);
    run(&["check", "-f", "m", "--log-level", "debug", "--log-format", "json"]);
    run(&["check", "-f", "m", "--log-level", "debug"]);
    run(&["check", "-f", "m", "-o", "github=/dev/stderr"]);
}

#[test]
fn echoed_option_values_contain_no_commands() {
    let folder = folder();
    for value in ["a\n::error::b", "##[error]a", "a ##vso[x]", "a\r::error::b", "a\u{85}::error::b", "\u{202e}a"] {
        for option in
            ["-o", "-n", "--fail-on", "--exclude", "--log-level", "-f", "-p", "--config", "--baseline", "--poll"]
        {
            run(folder.path(), &["check", "--once", option, value]);
        }
        run(folder.path(), &[value]);
        run(folder.path(), &["explain", value]);
        run(folder.path(), &["diff", value, value]);
        run(folder.path(), &["policies", value]);
        run(folder.path(), &["test", value]);
        run(folder.path(), &["rbac", "--service-account", value]);
    }
}

/// Characters that editors interpret or that are invisible.
const UNSEEN: [char; 8] = ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}', '\u{ad}', '\u{e0041}', '\u{2028}', '\u{9b}'];

fn assert_shows_all(what: &str, text: &str) {
    let unseen = text.chars().find(|c| UNSEEN.contains(c) || c.is_control() && *c != '\n');
    assert_eq!(unseen, None, "{what}: {text}");
}

#[test]
fn reviewed_files_show_hidden_characters_and_load_unchanged() {
    let hidden = UNSEEN.map(|c| format!("a{c}")).concat();
    let name = quoted(&hidden);
    let metadata = format!("{{\"name\": {name}, \"namespace\": {name}}}");
    let kind = "\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\"";
    let object = format!("{{{kind}, \"metadata\": {metadata}, \"data\": {{\"a\": {name}}}}}");
    let policy = format!("package p\n\ndeny contains {{\"msg\": input.data.a, {name}: {name}}}\n");
    let folder = files::folder(&[("policies/p.rego", &policy), ("m/a.json", &object)]);
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    let check = |more: &[&str]| kaudit(folder.path(), &[&["check", "-f", "m"], more].concat()).output().unwrap();
    for format in Format::value_variants() {
        let ended = check(&["-o", &format!("{}=out", format.name())]);
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert_shows_all(format.name(), &read("out"));
    }
    for option in ["--write-exceptions", "--write-baseline"] {
        let ended = check(&[option, option.trim_start_matches("--write-")]);
        assert!(ended.status.code().is_some_and(|code| code < 2), "{ended:?}");
        assert_shows_all(option, &read(option.trim_start_matches("--write-")));
    }
    let pruned = check(&["--baseline", "baseline", "--prune-baseline"]);
    assert_eq!(pruned.status.code(), Some(0), "{pruned:?}");
    assert_shows_all("--prune-baseline", &read("baseline"));
    fs::write(folder.path().join("filled.yaml"), read("exceptions").replace("reason: \"\"", "reason: tested")).unwrap();
    let excused = check(&["--exceptions", "filled.yaml", "-o", "json"]);
    let result: serde_json::Value = serde_json::from_slice(&excused.stdout).unwrap();
    let skipped = &result["results"][0];
    assert_eq!((&skipped["result"], &skipped["resource"]["name"]), (&"skip".into(), &hidden.into()), "{result:#}");
}
