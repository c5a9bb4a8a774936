//! Rego expressions, whose values must be the same in the real `opa` and in kaudit.
//!
//! `expressions.txt` has one expression per line. One `opa` process evaluates all of them. A line that begins with `! `
//! is refused by kaudit with an error where `opa` has a value; one that begins with `~ ` has a different value in
//! kaudit, for the reason above it.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command};

use kaudit_controlplane::{Tool, require_tool, tool};
use kaudit_rego::Value;
use kaudit_test_support::opa::{limits, on_deep_stack, policies};

use super::{from_json, through_json};

/// The `input` of the expressions: values whose types `opa` cannot check beforehand.
const INPUT: &str = r#"{
    "none": null, "yes": true, "no": false, "text": "x", "empty": "", "wide": "añ😀\n\"\\\t",
    "zero": 0, "one": 1, "minus": -1, "half": 1.5, "small": 0.00001,
    "list": [1, "a", [2, null], {"b": 1.5}], "object": {"a": 1, "b": {"c": [true]}}, "nothing": [], "fields": {}
}"#;

/// Returns a module that evaluates one expression.
fn module(name: &str, expression: &str) -> String {
    format!("package {name}\n\nanswer := value if {{\n\tvalue := {expression}\n}}\n")
}

/// Returns the values according to `opa`, by index.
pub(super) fn by_opa(expressions: &[&str]) -> BTreeMap<usize, serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input.json");
    fs::write(&input, INPUT).unwrap();
    let modules = folder.path().join("modules");
    fs::create_dir(&modules).unwrap();
    for (index, expression) in expressions.iter().enumerate() {
        fs::write(modules.join(format!("{index}.rego")), module(&format!("answers.a{index}"), expression)).unwrap();
    }
    let output = Command::new(tool(Tool::Opa).unwrap())
        .args(["eval", "--format", "json", "--data"])
        .arg(&modules)
        .arg("--input")
        .arg(&input)
        .arg("data.answers")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let answers: serde_json::Value = serde_json::from_str(&text).unwrap();
    let packages = answers["result"][0]["expressions"][0]["value"].as_object().unwrap();
    packages
        .iter()
        .filter_map(|(name, package)| Some((name.strip_prefix('a')?.parse().unwrap(), package.get("answer")?.clone())))
        .collect()
}

pub(super) fn by_kaudit(expression: &str) -> Result<Option<Value>, String> {
    let input = Value::from_json_str(INPUT).unwrap();
    let modules = [module("answers", expression)];
    let policies = policies(None, &modules, &serde_json::json!({}), &limits(false)).map_err(|why| why.to_string())?;
    let query = policies.query("x = data.answers.answer", &["x"]).map_err(|why| why.to_string())?;
    let answers = query.solutions(&input).map_err(|why| why.to_string())?;
    Ok(answers.first().map(|bindings| bindings["x"].clone()))
}

#[test]
fn builtins_agree_with_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/opa/expressions.txt")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let expressions: Vec<&str> = lines.iter().map(|line| line.trim_start_matches(['!', '~']).trim_start()).collect();
    assert!(expressions.len() > 300, "{}", expressions.len());
    let wanted = by_opa(&expressions);
    let compared = on_deep_stack(|| differences(&lines, &expressions, &wanted));
    assert!(compared.is_empty(), "{compared}");
}

fn differences(lines: &[&str], expressions: &[&str], wanted: &BTreeMap<usize, serde_json::Value>) -> String {
    let mut wrong = String::new();
    for (index, (line, expression)) in lines.iter().zip(expressions).enumerate() {
        let wanted = wanted.get(&index);
        let got = by_kaudit(expression);
        let same = match &got {
            Ok(Some(got)) => wanted.is_some_and(|wanted| from_json(wanted) == through_json(got)),
            Ok(None) => wanted.is_none(),
            Err(_) => false,
        };
        let expected = match line.split_once(' ') {
            Some(("!", _)) => got.is_err(),
            Some(("~", _)) => got.is_ok() && !same,
            _ => same,
        };
        if !expected {
            let wanted = wanted.map_or("undefined".to_owned(), ToString::to_string);
            let got = got.map(|got| got.map_or("undefined".to_owned(), |got| got.to_string()));
            let _ = writeln!(wrong, "{expression}\n    opa:    {wanted}\n    kaudit: {got:?}");
        }
    }
    wrong
}
