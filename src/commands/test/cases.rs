//! The cases of table tests, read from the value of the table.

use std::collections::BTreeMap;

use regorus::Value;

use super::result::{Case, TestOutcome};
use crate::{
    commands::explainer::{Explanation, show},
    rego::{trace::TracedCase, value},
};

/// Returns the cases of a table: those with a value, and those tried without one; `explain` explains a failed case.
pub(super) fn cases(
    value: &Value,
    tried: &[TracedCase],
    explain: &mut dyn FnMut(&[Value]) -> Option<Explanation>,
) -> Vec<Case> {
    let mut cases = BTreeMap::new();
    read(value, &mut cases);
    for keys in tried {
        try_case(&mut cases, keys);
    }
    finish(cases, &mut Vec::new(), explain)
}

/// A case while cases are collected.
struct CaseTree {
    key: Value,
    failed: bool,
    below: BTreeMap<String, Self>,
}

/// Reads the value of a table: `true` is a case that passed, an object has cases of its own.
fn read(value: &Value, cases: &mut BTreeMap<String, CaseTree>) {
    let Some(fields) = value::object(value) else { return };
    for (key, value) in fields {
        let mut below = BTreeMap::new();
        read(value, &mut below);
        let failed = match value {
            Value::Object(_) => below.values().any(|tree: &CaseTree| tree.failed),
            value => *value != Value::from(true),
        };
        cases.insert(name(key), CaseTree { key: key.clone(), failed, below });
    }
}

fn name(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string(),
        key => show::literal(key),
    }
}

/// Adds a case that was tried: it failed if the table has no value for it. Returns whether it did.
fn try_case(cases: &mut BTreeMap<String, CaseTree>, keys: &[Value]) -> bool {
    let Some((key, rest)) = keys.split_first() else { return false };
    let new = || CaseTree { key: key.clone(), failed: true, below: BTreeMap::new() };
    let tree = cases.entry(name(key)).or_insert_with(new);
    if rest.is_empty() {
        return tree.failed;
    }
    let below = try_case(&mut tree.below, rest);
    tree.failed |= below;
    below
}

fn finish(
    cases: BTreeMap<String, CaseTree>,
    keys: &mut Vec<Value>,
    explain: &mut dyn FnMut(&[Value]) -> Option<Explanation>,
) -> Vec<Case> {
    let case = |(name, tree): (String, CaseTree)| {
        keys.push(tree.key);
        let below = finish(tree.below, keys, explain);
        let explanation = if tree.failed && below.is_empty() { explain(keys) } else { None };
        keys.pop();
        Case {
            name,
            outcome: if tree.failed { TestOutcome::Fail } else { TestOutcome::Pass },
            message: String::new(),
            explanation,
            output: Vec::new(),
            cases: below,
        }
    };
    cases.into_iter().map(case).collect()
}
