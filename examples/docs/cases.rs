//! The manifests on the pages of the rules: `examples` in the tests of each package of the library.
//!
//! They are evaluated as in a check of one file, without other objects. So a page cannot show a violation that is none, or
//! a correction that does not help.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use kaudit::{
    judge::set::PolicySet,
    rego::{Evaluator, File, Form, Limits, Policies, Value, value},
};
use serde_json::Value as Json;

/// A manifest with one violation of a rule, and the same without it.
pub(crate) struct RuleExample {
    pub(crate) violating: Json,
    pub(crate) correct: Json,
    /// The result for the first.
    pub(crate) result: Json,
}

/// The library with its tests.
pub(crate) struct TestedLibrary(Evaluator);

impl TestedLibrary {
    /// Loads the library in `folder`, and prepares its rules and examples.
    pub(crate) fn load(folder: &Path, library: &PolicySet) -> Result<Self> {
        let mut files = Vec::new();
        read(folder, &mut files)?;
        let rules =
            library.policies.iter().flat_map(|policy| policy.rules.iter().map(|rule| path(&policy.name, &rule.name)));
        let examples = library.policies.iter().map(|policy| examples(&policy.name));
        let policies = Policies::load(files, &Limits::default())?;
        Ok(Self(policies.prepare(&rules.chain(examples).collect::<Vec<_>>())?))
    }

    /// Returns the example of a rule.
    ///
    /// # Errors
    /// If there is none, or if the rule has other results for it.
    pub(crate) fn example(&self, policy: &str, rule: &str) -> Result<RuleExample> {
        let examples = json(&self.0.value(&examples(policy), &Value::Undefined)?)?;
        let [violating, correct] = ["violating", "correct"].map(|which| examples[rule][which].clone());
        ensure!(violating.is_object() && correct.is_object(), "data.{policy}_test.examples has none of {rule}");
        let results = |manifest: &Json| json(&self.0.value(&path(policy, rule), &value::from_tree(manifest.clone())?)?);
        let found = [results(&violating)?, results(&correct)?];
        let [Some([result]), Some([])] = found.each_ref().map(|found| found.as_array().map(Vec::as_slice)) else {
            anyhow::bail!(
                "{policy}/{rule} must have one result for its violating example and none for the correct one: {found:?}"
            )
        };
        Ok(RuleExample { violating, correct, result: result.clone() })
    }
}

/// Returns the keys of a rule below `data`.
fn path(policy: &str, rule: &str) -> Vec<String> {
    policy.split('.').chain([rule]).map(str::to_owned).collect()
}

/// Returns the keys of the examples of a package.
fn examples(policy: &str) -> Vec<String> {
    path(&format!("{policy}_test"), "examples")
}

fn json(value: &Value) -> Result<Json> {
    serde_json::from_str(&value.to_json_str()?).context("reading a value of Rego")
}

/// Reads the modules in a folder and below.
fn read(folder: &Path, files: &mut Vec<File>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, files)?;
        } else if Form::of(&path) == Some(Form::Rego) {
            files.push(File::new(path.to_string_lossy().into(), Form::Rego, fs::read_to_string(&path)?));
        }
    }
    Ok(())
}
