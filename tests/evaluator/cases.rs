//! Runs the cases of the YAML files in `cases`: policies are written to a directory, loaded, and evaluated on objects.
//!
//! Results are formatted by [`shown`].

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use kaudit::{
    judge::{
        evaluate::{Job, evaluate},
        load_options::LoadOptions,
        set::PolicySet,
    },
    model::verdict::Verdict,
    rego::analysis::yaml,
};
use serde::Deserialize;
use serde_json::Value;

use crate::{object, shown};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    note: String,
    #[serde(default)]
    modules: BTreeMap<String, String>,
    #[serde(default)]
    data: BTreeMap<String, String>,
    #[serde(default)]
    objects: Vec<Value>,
    /// Evaluated after the objects.
    #[serde(default)]
    changes: Vec<Change>,
    /// The Namespaces of the objects.
    #[serde(default)]
    namespaces: Vec<Value>,
    want: Want,
}

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, default)]
struct Change {
    object: Value,
    previous: Option<Value>,
    deleted: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Want {
    /// All load errors as displayed.
    load_error: Option<String>,
    /// Refused files of a set whose other files are loaded, as displayed.
    refused: Option<String>,
    /// Warnings of a set that loads, as displayed.
    warnings: Option<String>,
    /// `name: reason`.
    unjudged: Option<Vec<String>>,
    /// `name dialect: rules`.
    policies: Option<Vec<String>>,
    /// For each object.
    verdicts: Vec<WantVerdict>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WantVerdict {
    passed: u32,
    results: Vec<String>,
    transitions: Vec<String>,
}

/// Evaluates a change of an object, in its Namespace if that is given.
fn evaluate_change(policies: &Arc<PolicySet>, change: &Change, namespaces: &[Value]) -> Verdict {
    let name = change.object.pointer("/metadata/namespace");
    let namespace = namespaces.iter().find(|namespace| name.is_some() && namespace.pointer("/metadata/name") == name);
    evaluate(&Job {
        object: object(&change.object),
        previous: change.previous.as_ref().map(object),
        deleted: change.deleted,
        namespace: namespace.map(object),
        policies: Arc::clone(policies),
    })
}

/// Writes files below a directory.
fn write(root: &Path, files: &BTreeMap<String, String>) {
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Runs one case; returns the deviations.
fn run(case: &Case) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), &case.modules);
    write(root.path(), &case.data);
    let here = |text: String| {
        let root = root.path().display().to_string();
        text.replace(&format!("{root}/"), "").replace(&root, ".").trim_end().to_owned()
    };
    let mut wrong = Vec::new();
    let mut compare = |subject: &str, got: String, want: &str| {
        if got != want.trim_end() {
            wrong.push(format!("{subject}:\n--- got\n{got}\n--- want\n{}", want.trim_end()));
        }
    };
    let paths = [root.path().to_owned()];
    let options = LoadOptions { allow_refused: case.want.refused.is_some(), ..LoadOptions::default() };
    let loaded = PolicySet::load_with(&paths, &options);
    let policies = match (loaded, &case.want.load_error) {
        (Err(why), want) => {
            compare("load error", here(why.to_string()), want.as_deref().unwrap_or("no error"));
            return wrong;
        }
        (Ok(_), Some(want)) => {
            compare("load error", "no error".to_owned(), want);
            return wrong;
        }
        (Ok(policies), None) => Arc::new(policies),
    };
    let refused: Vec<String> = policies.refused().map(ToString::to_string).collect();
    compare("refused", here(refused.join("\n")), case.want.refused.as_deref().unwrap_or_default());
    let warnings: Vec<String> =
        policies.problems.iter().filter(|problem| !problem.is_refusal()).map(ToString::to_string).collect();
    compare("warnings", here(warnings.join("\n")), case.want.warnings.as_deref().unwrap_or_default());
    if let Some(want) = &case.want.policies {
        let policies = policies.policies.iter().map(|policy| {
            let rules: Vec<&str> = policy.rules.iter().map(|rule| &*rule.name).collect();
            format!("{} {}: {}", policy.name, policy.dialect, rules.join(" "))
        });
        compare("policies", policies.collect::<Vec<_>>().join("\n"), &want.join("\n"));
    }
    if let Some(want) = &case.want.unjudged {
        let unjudged = policies.unjudged.iter().map(|unjudged| format!("{}: {}", unjudged.name, unjudged.reason));
        compare("unjudged", unjudged.collect::<Vec<_>>().join("\n"), &want.join("\n"));
    }
    let unchanged = case.objects.iter().map(|object| Change { object: object.clone(), ..Change::default() });
    let changes: Vec<Change> = unchanged.chain(case.changes.iter().map(Change::clone)).collect();
    for (index, change) in changes.iter().enumerate() {
        let verdict = evaluate_change(&policies, change, &case.namespaces);
        let default = WantVerdict::default();
        let want = case.want.verdicts.get(index).unwrap_or(&default);
        let results: Vec<String> = verdict.results.iter().map(|finding| here(shown(finding))).collect();
        compare(&format!("results of object {index}"), results.join("\n"), &want.results.join("\n"));
        let transitions: Vec<String> = verdict.transitions.iter().map(|finding| here(shown(finding))).collect();
        compare(&format!("transitions of object {index}"), transitions.join("\n"), &want.transitions.join("\n"));
        compare(
            &format!("passed of object {index}"),
            verdict.passed.iter().count().to_string(),
            &want.passed.to_string(),
        );
    }
    wrong
}

#[test]
fn cases() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/cases");
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut failed = Vec::new();
    let mut count = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "yaml")) {
        let text = fs::read_to_string(file).unwrap();
        let cases: Vec<Case> = yaml::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        for case in &cases {
            count += 1;
            let wrong = run(case);
            if !wrong.is_empty() {
                let name = file.file_name().unwrap().to_string_lossy();
                failed.push(format!("=== {name}: {}\n{}", case.note, wrong.join("\n")));
            }
        }
    }
    assert!(count > 0, "no cases");
    assert!(failed.is_empty(), "{} of {count} cases failed\n{}", failed.len(), failed.join("\n\n"));
}
