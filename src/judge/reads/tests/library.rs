//! Tests each check of Trivy's library alone: fields that it does not read do not change the verdict on the examples of
//! the library and on randomly altered objects. `KAUDIT_TEST_TRIVY_CHECKS` is the path of a checkout; without it, the
//! test is skipped.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::property::{Changes, Seen, TestedPolicies, hold, rounds, seeds};
use crate::{judge::set::PolicySet, rego::analysis::yaml};

/// Returns the examples next to the checks: good and bad ones, each a manifest in a string.
fn examples(folder: &Path) -> Vec<Value> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let files = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    let read = |file: &PathBuf| {
        let file: Value = yaml::from_str(&fs::read_to_string(file).unwrap()).unwrap_or_default();
        let texts = ["good", "bad"].map(|kind| file["kubernetes"][kind].as_array().cloned().unwrap_or_default());
        let documents = |text: &Value| yaml::from_multiple(text.as_str().unwrap_or_default()).unwrap_or_default();
        texts.iter().flatten().flat_map(documents).collect::<Vec<Value>>()
    };
    files.flat_map(read).filter(|object| object["kind"].is_string() && object["metadata"].is_object()).collect()
}

#[test]
fn fields_that_a_library_check_does_not_read_do_not_change_verdicts() {
    let Some(library) = std::env::var_os("KAUDIT_TEST_TRIVY_CHECKS").map(PathBuf::from) else { return };
    let folder = library.join("checks/kubernetes");
    let mut objects = examples(&folder);
    assert!(objects.len() > 50, "only {} examples", objects.len());
    objects.extend(seeds());
    let mut checks: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    checks.sort();
    let is_check = |file: &PathBuf| {
        let name = file.to_string_lossy();
        name.ends_with(".rego") && !name.ends_with("_test.rego")
    };
    let (mut seen, mut silent, mut everything) = (Seen::default(), Vec::new(), BTreeSet::new());
    for (number, file) in checks.iter().filter(|file| is_check(file)).enumerate() {
        let Ok(policies) = PolicySet::load(&[file.clone(), library.join("lib")]) else { continue };
        let set = TestedPolicies::new(&file.display().to_string(), policies, &fs::read_to_string(file).unwrap(), false);
        let all = set.policies.policies.iter().filter(|policy| policy.reads.to_string() == "*");
        everything.extend(all.map(|policy| policy.name.to_string()));
        let mut random = Changes::new(number as u64, &set, &objects);
        let before = seen.flipped;
        for object in &objects {
            hold(&file.display().to_string(), &set.policies, object, rounds(), &mut random, &mut seen);
        }
        if seen.flipped == before {
            silent.push(file.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    eprintln!("{seen:?}\nof these no verdict changed: {}", silent.join(" "));
    assert!(seen.verdicts > 10_000, "{seen:?}");
    assert!(everything.is_empty(), "these read everything: {everything:?}");
}
