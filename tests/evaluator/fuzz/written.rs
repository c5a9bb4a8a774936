//! Real policies, unchanged and with random changes.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use fastrand::Rng;
use kaudit::rego::Version;
use kaudit_controlplane::{Tool, require_tool};
use kaudit_test_support::{
    opa::{
        comparison::{DifferenceKind, OpaComparison, by_opa},
        on_deep_stack,
    },
    settings::setting,
};
use serde_json::{Value, json};

use crate::objects::{alter, objects};

/// Number of variants of each object, for unchanged policies.
const ALTERATIONS: usize = 6;
/// Default number of altered policy sets.
const MUTANTS: usize = 1_000;
/// Number of objects for each of them.
const OBJECTS: usize = 12;

/// Replacements of text.
const REPLACEMENTS: [(&str, &str); 24] = [
    ("==", "!="),
    ("!=", "=="),
    (" > ", " < "),
    (" < ", " >= "),
    ("not ", ""),
    ("\t", "\tnot "),
    (":=", "="),
    (":= ", ":= [] == "),
    ("input.", "input.spec."),
    (".spec", ""),
    ("[_]", "[0]"),
    ("\"", "`"),
    ("1", "1.5"),
    ("0", "-1"),
    ("startswith", "endswith"),
    ("count(", "sum("),
    ("count(", "sort("),
    ("_ in ", "k, v in "),
    ("lower(", "to_number("),
    (", []", ", {}"),
    (", \"\")", ", null)"),
    ("true", "false"),
    ("name", "image"),
    ("containers", "volumes"),
];

/// Returns the modules of one folder, without tests, comments, and Trivy modules, which need Trivy's own functions.
fn modules(folder: &Path) -> Vec<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let is_module = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".rego") && !name.ends_with("_test.rego")
    };
    let texts = files.iter().filter(is_module).map(|path| fs::read_to_string(path).unwrap());
    let is_code = |line: &&str| !line.trim_start().starts_with('#');
    let code = |text: String| text.split_inclusive('\n').filter(is_code).collect();
    texts.filter(|text| !text.contains("result.new(")).map(code).collect()
}

/// Returns the package paths of modules, whose rules are compared one by one.
fn packages(modules: &[String]) -> Vec<Vec<String>> {
    let package = |text: &String| {
        let line = text.lines().find_map(|line| line.strip_prefix("package "))?;
        Some(line.trim().split('.').map(str::to_owned).collect())
    };
    modules.iter().filter_map(package).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns an object, possibly altered, alone or in a review.
fn input(of: &Value, random: &mut Rng) -> Value {
    let mut object = of.clone();
    for _ in 0..random.usize(..4) {
        for part in ["metadata", "spec"] {
            if let Some(part) = object.get_mut(part) {
                alter(part, random);
            }
        }
    }
    match random.u8(..4) {
        0 => json!({"request": {"operation": "CREATE", "kind": {"kind": object["kind"]}, "object": object}}),
        _ => object,
    }
}

/// Changes a place of a text, or moves, duplicates or removes a statement.
fn mutate(text: &str, random: &mut Rng) -> String {
    let (from, to) = REPLACEMENTS[random.usize(..REPLACEMENTS.len())];
    let places: Vec<usize> = text.match_indices(from).map(|(place, _)| place).collect();
    if !places.is_empty() && random.u8(..3) > 0 {
        let place = places[random.usize(..places.len())];
        return format!("{}{to}{}", &text[..place], &text[place + from.len()..]);
    }
    let mut lines: Vec<&str> = text.lines().collect();
    let is_statement =
        |index: &usize| lines[*index].starts_with('\t') && !lines[*index].ends_with(['{', '(', '[', ',']);
    let statements: Vec<usize> = (0..lines.len()).filter(is_statement).collect();
    let Some(index) = (!statements.is_empty()).then(|| statements[random.usize(..statements.len())]) else {
        return text.to_owned();
    };
    match random.u8(..3) {
        0 => drop(lines.remove(index)),
        1 => lines.insert(index, lines[index]),
        _ => {
            let next = (index + 1).min(lines.len() - 1);
            lines.swap(index, next);
        }
    }
    lines.join("\n") + "\n"
}

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> =
        ["policies", "examples/policies", "examples/bench/policies", "tests/evaluator/conftest"]
            .map(|folder| root.join(folder))
            .into();
    if let Some(library) = std::env::var_os("KAUDIT_TEST_LIBRARY") {
        folders.push(library.into());
        let mut next = folders.len() - 1;
        while next < folders.len() {
            let entries = fs::read_dir(&folders[next]).unwrap().map(|entry| entry.unwrap().path());
            let mut below: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
            below.sort();
            folders.extend(below);
            next += 1;
        }
    }
    folders.retain(|folder| !modules(folder).is_empty());
    folders
}

#[test]
fn real_policies_have_the_results_of_opa() {
    if !require_tool(Tool::OpaCases) {
        return;
    }
    let objects = objects();
    let mut wrong = Vec::new();
    for folder in folders() {
        let modules = modules(&folder);
        let mut random = Rng::with_seed(1);
        let altered = objects.iter().flat_map(|object| std::iter::repeat_n(object, ALTERATIONS));
        let inputs = altered.map(|object| input(object, &mut random)).collect();
        let comparison =
            OpaComparison { rules: packages(&modules), modules, version: Version::V1, inputs, strict: false };
        let answer = by_opa(std::slice::from_ref(&comparison)).remove(0);
        wrong.extend(
            on_deep_stack(|| comparison.difference(&answer))
                .map(|difference| format!("{}: {}", folder.display(), difference.text)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn randomly_changed_policies_have_the_results_of_opa() {
    if !require_tool(Tool::OpaCases) {
        return;
    }
    let (objects, folders) = (objects(), folders());
    let texts: Vec<Vec<String>> = folders.iter().map(|folder| modules(folder)).collect();
    let first = setting("KAUDIT_TEST_SEED").unwrap_or(1);
    let mutants = setting("KAUDIT_TEST_MODULES").unwrap_or(MUTANTS);
    let seeds: Vec<u64> = (first..first + mutants as u64).collect();
    let mut wrong = Vec::new();
    let mut counts = [0; 3];
    for batch in seeds.chunks(100) {
        let comparisons: Vec<OpaComparison> = batch
            .iter()
            .map(|seed| {
                let mut random = Rng::with_seed(*seed);
                let mut modules = texts[random.usize(..texts.len())].clone();
                for _ in 0..random.usize(1..4) {
                    let index = random.usize(..modules.len());
                    modules[index] = mutate(&modules[index], &mut random);
                }
                let inputs =
                    (0..OBJECTS).map(|_| input(&objects[random.usize(..objects.len())], &mut random)).collect();
                OpaComparison {
                    rules: packages(&modules),
                    modules,
                    version: Version::V1,
                    inputs,
                    strict: seed.is_multiple_of(4),
                }
            })
            .collect();
        let answers = by_opa(&comparisons);
        for ((seed, comparison), answer) in batch.iter().zip(&comparisons).zip(&answers) {
            counts[usize::from(answer.results.is_none())] += 1;
            let Some(difference) = on_deep_stack(|| comparison.difference(answer)) else { continue };
            if difference.kind == DifferenceKind::ErrorOnly {
                counts[2] += 1;
                continue;
            }
            wrong.push(format!("seed {seed}, strict {}: {}", comparison.strict, difference.text));
        }
    }
    let [accepted, refused, error_only] = counts;
    println!("{accepted} sets accepted, {refused} refused, {error_only} with an error where opa has none");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
