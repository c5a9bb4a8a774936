//! Compares `kaudit test` with the tools whose tests it runs: each test must have the same outcome.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use kaudit_controlplane::{Tool, require_tool, tool};
use serde_json::Value;

use super::{FAILING, FAILING_SUITE, OLD, SUITE, TABLES, folder, policies, suite, test};

/// The outcome of each test or test case.
type Ends = BTreeMap<String, String>;

fn json(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn by_kaudit(folder: &Path, arguments: &[&str]) -> Ends {
    fn cases(name: &str, test: &Value, ends: &mut Ends) {
        match test["cases"].as_array() {
            Some(below) => below.iter().for_each(|case| cases(&format!("{name}/{}", text(&case["name"])), case, ends)),
            None => drop(ends.insert(name.to_owned(), text(&test["outcome"]).to_owned())),
        }
    }
    let mut ends = Ends::new();
    for test in json(test(folder, arguments).args(["-o", "json"]))["tests"].as_array().unwrap() {
        cases(&format!("{}.{}", text(&test["group"]), text(&test["name"])), test, &mut ends);
    }
    ends
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn by_opa(folder: &Path, arguments: &[&str]) -> Ends {
    fn cases(name: &str, results: &Value, ends: &mut Ends) {
        for (case, result) in results.as_object().unwrap() {
            let name = format!("{name}/{case}");
            match result.get("sub_results") {
                Some(below) => cases(&name, below, ends),
                None => drop(ends.insert(name, if result["fail"] == true { "fail" } else { "pass" }.to_owned())),
            }
        }
    }
    let mut opa = Command::new(tool(Tool::Opa).unwrap());
    opa.current_dir(folder).args(["test", "--format", "json", "--timeout", "60s"]).args(arguments);
    let mut ends = Ends::new();
    for test in json(&mut opa).as_array().unwrap() {
        let name = format!("{}.{}", text(&test["package"]), text(&test["name"]));
        let end = match test {
            test if test["skip"] == true => "skip",
            test if !test["error"].is_null() => "error",
            test if test["fail"] == true => "fail",
            _ => "pass",
        };
        match test.get("sub_results") {
            Some(below) => cases(&name, below, &mut ends),
            None => drop(ends.insert(name, end.to_owned())),
        }
    }
    ends
}

#[test]
fn outcomes_match_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let odd = policies(&[("policies/shop_test.rego", FAILING), ("policies/table_test.rego", TABLES)]);
    let ends = by_kaudit(odd.path(), &["policies"]);
    assert!(ends.len() > 30, "{ends:?}");
    assert_eq!(ends, by_opa(odd.path(), &["policies"]));
    let old = folder(&[("old.rego", OLD)]);
    assert_eq!(by_kaudit(old.path(), &["old.rego"]), by_opa(old.path(), &["--v0-compatible", "old.rego"]));
}

#[test]
fn the_shipped_policies_pass_as_with_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ends = by_kaudit(root, &["policies"]);
    assert!(ends.len() >= 50 && ends.values().all(|end| end == "pass"), "{ends:?}");
    assert_eq!(ends, by_opa(root, &["policies"]));
}

/// A rule with constant values ends at its first solution.
const EARLY_EXIT: &str = r#"package p

allow if {
	some x in [1, 2]
	print("first", x)
	x > input.least
}

allow if {
	print("second")
	input.least == 2
}

test_allow if {
	some least in [0, 1, 2]
	allow with input as {"least": least}
	print("allowed", least)
	least == 2
}

test_first if {
	allow with input as {"least": 0}
}
"#;

#[test]
fn early_exit_matches_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let folder = folder(&[("p.rego", EARLY_EXIT)]);
    let printed = |command: &mut Command| -> Vec<String> {
        let written = String::from_utf8(command.args(["-v", "p.rego"]).output().unwrap().stdout).unwrap();
        let mut lines: Vec<String> = written.lines().filter(|line| line.starts_with("  ")).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let mut opa = Command::new(tool(Tool::Opa).unwrap());
    let by_opa = printed(opa.current_dir(folder.path()).arg("test"));
    assert!(by_opa.len() > 5, "{by_opa:?}");
    assert_eq!(printed(&mut test(folder.path(), &[])), by_opa);

    let mut opa = Command::new(tool(Tool::Opa).unwrap());
    let arguments = ["test", "--coverage", "--format", "json", "--run", "first", "p.rego"];
    let opa = json(opa.current_dir(folder.path()).args(arguments));
    let kaudit = json(&mut test(folder.path(), &["--coverage", "-o", "json", "--run", "first", "p.rego"]));
    let not_covered = kaudit["coverage"]["files"]["p.rego"]["not_covered"].as_array().unwrap().to_owned();
    assert_eq!(not_covered, [10, 11]);
    let by_opa = opa["files"]["p.rego"]["not_covered"].as_array().unwrap();
    for line in not_covered {
        let holds = |range: &&Value| {
            range["start"]["row"].as_u64() <= line.as_u64() && line.as_u64() <= range["end"]["row"].as_u64()
        };
        assert!(by_opa.iter().any(|range| holds(&range)), "{line}: {by_opa:?}");
    }
}

/// Returns the outcomes of `gator verify` by test and case; it does not distinguish errors from failures.
fn by_gator(folder: &Path) -> Ends {
    let gator: PathBuf = tool(Tool::Gator).unwrap();
    let output = Command::new(gator).current_dir(folder).args(["verify", "-v", "./..."]).output().unwrap();
    let written = String::from_utf8(output.stdout).unwrap();
    let mut ends = Ends::new();
    let mut of_test = Ends::new();
    for line in written.lines() {
        let (indent, line) = (line.len() - line.trim_start().len(), line.trim());
        let end = [("--- PASS: ", "pass"), ("--- FAIL: ", "fail"), ("=== SKIP  ", "skip")]
            .into_iter()
            .find_map(|(begin, end)| Some((line.strip_prefix(begin)?.split('\t').next()?.to_owned(), end.to_owned())));
        let Some((name, end)) = end else { continue };
        if indent > 0 {
            of_test.insert(name, end);
        } else if of_test.is_empty() {
            ends.insert(name, end);
        } else {
            ends.extend(std::mem::take(&mut of_test).into_iter().map(|(case, end)| (format!("{name}/{case}"), end)));
        }
    }
    ends
}

#[test]
fn outcomes_match_gator() {
    if !require_tool(Tool::Gator) {
        return;
    }
    // Unsupported tests are reported, not compared.
    let supported = FAILING_SUITE.lines().filter(|line| !line.contains("expansion")).collect::<Vec<_>>().join("\n");
    for text in [SUITE, &supported] {
        let folder = suite("labels/suite.yaml", text);
        let by_kaudit: Ends = by_kaudit(folder.path(), &["."])
            .into_iter()
            .map(|(name, end)| {
                let name = name.strip_prefix("labels/suite.yaml.").unwrap_or(&name).to_owned();
                (name, if end == "error" { "fail".to_owned() } else { end })
            })
            .collect();
        assert!(by_kaudit.len() >= 8, "{by_kaudit:?}");
        assert_eq!(by_kaudit, by_gator(folder.path()));
    }
}
