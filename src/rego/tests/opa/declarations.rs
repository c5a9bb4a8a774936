//! Compares kaudit's declarations of builtins with those of the real `opa`.
//!
//! With `KAUDIT_TEST_WRITE` in the environment, the test rewrites the file, for another version of OPA.

use std::{fs, path::Path, process::Command};

use kaudit_controlplane::{Tool, require_tool, tool};
use serde_json::Value;

/// Returns a type as OPA writes it in messages.
fn shown(ty: &Value) -> String {
    let listed = |items: Vec<String>| if items.is_empty() { String::new() } else { format!("<{}>", items.join(", ")) };
    let array = |name: &str| ty[name].as_array().cloned().unwrap_or_default();
    let dynamic = &ty["dynamic"];
    match ty["type"].as_str() {
        None => "???".to_owned(),
        Some("any") => format!("any{}", listed(array("of").iter().map(shown).collect())),
        Some("set") if ty["of"].is_null() => "set".to_owned(),
        Some("set") => format!("set[{}]", shown(&ty["of"])),
        Some("array") => {
            let rest = if dynamic.is_null() { String::new() } else { format!("[{}]", shown(dynamic)) };
            format!("array{}{rest}", listed(array("static").iter().map(shown).collect()))
        }
        Some("object") => {
            let field = |field: &Value| format!("{}: {}", field["key"].as_str().unwrap(), shown(&field["value"]));
            let rest = match dynamic {
                Value::Null => String::new(),
                _ => format!("[{}: {}]", shown(&dynamic["key"]), shown(&dynamic["value"])),
            };
            format!("object{}{rest}", listed(array("static").iter().map(field).collect()))
        }
        Some(scalar) => scalar.to_owned(),
    }
}

/// Returns the line of one builtin.
fn line(builtin: &Value) -> String {
    let decl = &builtin["decl"];
    let mut parameters: Vec<String> = decl["args"].as_array().into_iter().flatten().map(shown).collect();
    if !decl["variadic"].is_null() {
        parameters.push(format!("{}...", shown(&decl["variadic"])));
    }
    let mut line =
        format!("{} ({}) => {}", builtin["name"].as_str().unwrap(), parameters.join(", "), shown(&decl["result"]));
    for flag in ["relation", "deprecated"].into_iter().filter(|flag| builtin[*flag] == true) {
        line.extend([" ", flag]);
    }
    line
}

#[test]
fn declarations_of_builtins_match_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let output = Command::new(tool(Tool::Opa).unwrap()).args(["capabilities", "--current"]).output().unwrap();
    let capabilities: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines: Vec<String> = capabilities["builtins"].as_array().unwrap().iter().map(line).collect();
    let wanted = lines.join("\n") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/builtins/declarations.txt");
    if std::env::var_os("KAUDIT_TEST_WRITE").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted, "KAUDIT_TEST_WRITE=1 rewrites it");
}
