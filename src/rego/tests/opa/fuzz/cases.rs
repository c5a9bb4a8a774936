//! Cases found by random modules: each differed from `opa` once.

use kaudit_controlplane::{Tool, require_tool};
use kaudit_rego::{Version, analysis::yaml};
use kaudit_test_support::opa::{
    comparison::{OpaComparison, by_opa},
    on_deep_stack,
};
use serde::Deserialize;

/// Modules with the rules and inputs to evaluate.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FoundCase {
    note: String,
    /// `v0`; `v1` if missing.
    version: Option<String>,
    modules: Vec<String>,
    /// Paths below `data`.
    rules: Vec<String>,
    #[serde(default)]
    inputs: Vec<serde_json::Value>,
    #[serde(default)]
    strict: bool,
}

impl FoundCase {
    fn comparison(&self) -> OpaComparison {
        OpaComparison {
            modules: self.modules.clone(),
            version: if self.version.as_deref() == Some("v0") { Version::V0 } else { Version::V1 },
            rules: self.rules.iter().map(|rule| rule.split('.').map(str::to_owned).collect()).collect(),
            inputs: self.inputs.clone(),
            strict: self.strict,
        }
    }
}

#[test]
fn modules_that_once_differed_agree_with_opa() {
    if !require_tool(Tool::OpaCases) {
        return;
    }
    let cases: Vec<FoundCase> = yaml::from_str(include_str!("cases.yaml")).unwrap();
    let comparisons: Vec<OpaComparison> = cases.iter().map(FoundCase::comparison).collect();
    let answers = by_opa(&comparisons);
    let different = on_deep_stack(|| {
        let all = cases.iter().zip(comparisons.iter().zip(&answers));
        let texts = all.filter_map(|(case, (comparison, answer))| {
            comparison.difference(answer).map(|difference| format!("{}: {}", case.note, difference.text))
        });
        texts.collect::<Vec<_>>()
    });
    assert!(different.is_empty(), "{}", different.join("\n"));
}
