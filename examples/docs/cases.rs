//! The manifests on the pages of the rules: `examples` in the tests of each package of the library.
//!
//! They are evaluated as in a check of one file, together with the objects and parameters that an example names. So a page
//! cannot show a violation that no rule reports, or a correction that does not help.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use kaudit::{
    judge::{rule::Rule, set::PolicySet},
    rego::{File, Form, Limits, Policies, Value},
};
use serde_json::Value as Json;

/// The length of a message, in characters.
const MESSAGE: usize = 120;

/// A manifest with one violation of a rule, and the same without it.
pub(crate) struct RuleExample {
    pub(crate) violating: Json,
    pub(crate) correct: Json,
    /// Other objects that the rule looks up, with the first and with the second.
    pub(crate) beside: [Vec<Json>; 2],
    /// Parameters of the rule; an empty object if it needs none.
    pub(crate) parameters: Json,
    /// The result for the first.
    pub(crate) result: Json,
}

/// The evaluated examples of the library, by policy and rule.
pub(crate) struct TestedLibrary(Json);

impl TestedLibrary {
    /// Loads the library in `folder`, and evaluates its examples.
    pub(crate) fn load(folder: &Path, library: &PolicySet) -> Result<Self> {
        let mut files = Vec::new();
        read(folder, &mut files)?;
        let rules = library.policies.iter().flat_map(|policy| policy.rules.iter().map(|rule| (&policy.name, rule)));
        let module = format!("package {EXAMPLES}\n{BESIDE}")
            + &rules.map(|(policy, rule)| evaluated(policy, rule)).collect::<String>();
        files.push(File::new("examples.rego".into(), Form::Rego, module));
        let policies = Policies::load(files, &Limits::default())?;
        let path = vec![EXAMPLES.to_owned()];
        let examples = policies.prepare(std::slice::from_ref(&path))?.value(&path, &Value::Undefined)?;
        Ok(Self(json(&examples)?))
    }

    /// Returns the example of a rule.
    ///
    /// # Errors
    /// If there is none, or if the rule has other results for it.
    pub(crate) fn example(&self, policy: &str, rule: &str) -> Result<RuleExample> {
        let example = &self.0["of"][format!("{policy}/{rule}")];
        let [violating, correct, parameters] =
            ["violating", "correct", "parameters"].map(|which| example[which].clone());
        ensure!(violating.is_object() && correct.is_object(), "data.{policy}_test.examples has none of {rule}");
        let found = ["for_violating", "for_correct"].map(|which| example[which].clone());
        let [Some([result]), Some([])] = found.each_ref().map(|found| found.as_array().map(Vec::as_slice)) else {
            anyhow::bail!(
                "{policy}/{rule} must have one result for its violating example and none for the correct one: {found:?}"
            )
        };
        let message = result["msg"].as_str().unwrap_or_default();
        let length = message.chars().count();
        ensure!(
            length <= MESSAGE,
            "the message of {policy}/{rule} has {length} characters, {MESSAGE} are allowed: {message}"
        );
        let beside =
            ["beside_violating", "beside_correct"].map(|which| example[which].as_array().cloned().unwrap_or_default());
        Ok(RuleExample { violating, correct, beside, parameters, result: result.clone() })
    }
}

/// The package that evaluates the examples.
const EXAMPLES: &str = "evaluated_examples";

/// A function of that package: the objects that an example names for both manifests, or for each.
const BESIDE: &str = "
beside(example, which) := objects[which] if {
	objects := object.get(example, \"beside\", [])
	is_object(objects)
} else := object.get(example, \"beside\", [])
";

/// Returns a rule that evaluates the example of a rule, in the package of the examples.
fn evaluated(policy: &str, rule: &Rule) -> String {
    let id = rule.metadata.info.id.as_deref().unwrap_or_default();
    let name = &rule.name;
    let results = |which: &str| {
        format!(
            "\tfor_{which} := data.{policy}.{name} with input as example.{which} with data.inventory as \
             data.lib.build_test.inventory(beside(example, \"{which}\")) with data.parameters as given\n"
        )
    };
    let given = format!("{{\"{id}\": object.get(example, \"parameters\", {{}})}}");
    let keys = ["violating", "correct"].map(|which| {
        format!("\t\t\"for_{which}\": for_{which},\n\t\t\"beside_{which}\": beside(example, \"{which}\"),\n")
    });
    [
        format!("\nof[\"{policy}/{name}\"] := object.union(example, results) if {{\n"),
        format!("\texample := data.{policy}_test.examples.{name}\n"),
        format!("\tgiven := {given}\n"),
        results("violating"),
        results("correct"),
        format!("\tresults := {{\n{}\t}}\n}}\n", keys.concat()),
    ]
    .concat()
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
