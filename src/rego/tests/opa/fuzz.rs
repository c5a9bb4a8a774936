//! Random modules on random inputs: each rule must have the same value as in the real `opa`, or an error where `opa`
//! has one.
//!
//! Where they differ, the test prints the seed and the smallest module found that still differs. `KAUDIT_TEST_SEED`
//! repeats a run, `KAUDIT_TEST_MODULES` sets the number of modules.

mod cases;
mod joins;

use std::fmt::Write as _;

use fastrand::Rng;
use kaudit_controlplane::{Tool, require_tool};
use kaudit_rego::analysis::yaml;
use kaudit_test_support::{
    modules::{ModuleGenerator, RandomModule},
    opa::{
        comparison::{Difference, DifferenceKind, OpaComparison, by_opa},
        on_deep_stack,
    },
    settings::setting,
};
use regex::Regex;
use serde::{Deserialize, Deserializer, de::Error as _};

/// The default number of modules.
const MODULES: usize = 1_000;
/// The number of inputs for each module.
const INPUTS: usize = 20;
/// The number of modules sent to `opa` at a time.
const BATCH: usize = 500;
/// One of this many modules may end in an error where `opa` has none: OPA skips more rules by its index, and looks up
/// single keys.
const MODULES_PER_ERROR: usize = 100;
/// The most differences that are shortened and printed.
const SHOWN: usize = 5;

/// A difference that is known and not fixed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownDifference {
    /// A pattern that matches a part of the smallest module that differs.
    #[serde(deserialize_with = "pattern")]
    pattern: Regex,
    #[expect(dead_code, reason = "it is for readers of the list")]
    reason: String,
}

impl KnownDifference {
    /// Returns the list, which must stay short.
    fn all() -> Vec<Self> {
        let all: Vec<Self> = yaml::from_str(include_str!("fuzz/known.yaml")).unwrap();
        assert!(all.len() <= 10, "{}", all.len());
        all
    }
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Regex, D::Error> {
    Regex::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A module with its inputs.
#[derive(Clone)]
struct FuzzCase {
    module: RandomModule,
    inputs: Vec<serde_json::Value>,
    strict: bool,
}

impl FuzzCase {
    fn new(seed: u64) -> Self {
        let mut generator = ModuleGenerator::new(Rng::with_seed(seed));
        let module = generator.module();
        let inputs = (0..INPUTS).map(|_| generator.input()).collect();
        Self { module, inputs, strict: seed.is_multiple_of(4) }
    }

    fn comparison(&self) -> OpaComparison {
        let (modules, rules) = (self.module.texts(), self.module.rules());
        let version = self.module.version();
        OpaComparison { modules, version, rules, inputs: self.inputs.clone(), strict: self.strict }
    }

    /// Returns smaller cases.
    fn smaller(&self) -> Vec<Self> {
        let one_input = (self.inputs.len() > 1)
            .then(|| self.inputs.iter().map(|input| Self { inputs: vec![input.clone()], ..self.clone() }));
        let modules = self.module.smaller().into_iter().map(|module| Self { module, ..self.clone() });
        one_input.into_iter().flatten().chain(modules).collect()
    }
}

/// Shortens a case as long as it still differs.
fn shorten(mut case: FuzzCase, mut difference: Difference) -> (FuzzCase, String) {
    loop {
        let smaller = case.smaller();
        let comparisons: Vec<OpaComparison> = smaller.iter().map(FuzzCase::comparison).collect();
        let answers = by_opa(&comparisons);
        let found = comparisons.iter().zip(&answers).map(|(comparison, answer)| comparison.difference(answer));
        let next = smaller.into_iter().zip(found).find_map(|(smaller, found)| {
            found.filter(|found| found.kind == difference.kind).map(|found| (smaller, found))
        });
        match next {
            Some(next) => (case, difference) = next,
            None => return (case, difference.text),
        }
    }
}

/// Returns a summary, and the differences.
fn run(first: u64, modules: usize) -> (String, String) {
    let mut wrong = String::new();
    let known = KnownDifference::all();
    let (mut differences, mut listed, mut evaluated, mut refused, mut error_only) = (0, 0, 0, 0, 0);
    let seeds: Vec<u64> = (first..first + modules as u64).collect();
    for batch in seeds.chunks(BATCH) {
        let cases: Vec<FuzzCase> = batch.iter().map(|seed| FuzzCase::new(*seed)).collect();
        let comparisons: Vec<OpaComparison> = cases.iter().map(FuzzCase::comparison).collect();
        let answers = by_opa(&comparisons);
        for (((seed, case), comparison), answer) in batch.iter().zip(&cases).zip(&comparisons).zip(answers) {
            refused += usize::from(answer.results.is_none());
            evaluated += answer.results.iter().flatten().map(Vec::len).sum::<usize>();
            let Some(difference) = comparison.difference(&answer) else { continue };
            if difference.kind == DifferenceKind::ErrorOnly {
                error_only += 1;
                continue;
            }
            let is_known =
                |texts: &[String]| known.iter().any(|known| texts.iter().any(|text| known.pattern.is_match(text)));
            let may_be_known = is_known(&comparison.modules);
            let shortened = (may_be_known || differences < SHOWN).then(|| shorten(case.clone(), difference));
            if may_be_known && shortened.as_ref().is_some_and(|(case, _)| is_known(&case.module.texts())) {
                listed += 1;
                continue;
            }
            differences += 1;
            if let Some((case, difference)) = shortened {
                let texts = case.module.texts().join("\n---\n");
                let _ = writeln!(wrong, "seed {seed}, strict {}: {difference}\n{texts}\n", case.strict);
            } else {
                let _ = writeln!(wrong, "seed {seed}");
            }
        }
    }
    if error_only > modules / MODULES_PER_ERROR + 1 {
        let _ = writeln!(wrong, "{error_only} of {modules} modules end in an error in kaudit only");
    }
    let summary = format!(
        "{modules} modules, {refused} of them refused; {evaluated} evaluations, {differences} modules differ, {error_only} by an error only, {listed} as known"
    );
    (summary, wrong)
}

#[test]
fn random_modules_evaluate_as_in_opa() {
    if !require_tool(Tool::OpaCases) {
        return;
    }
    let modules = setting("KAUDIT_TEST_MODULES").unwrap_or(MODULES);
    let first = setting("KAUDIT_TEST_SEED").unwrap_or(1);
    let (summary, wrong) = on_deep_stack(|| run(first, modules));
    println!("{summary}");
    assert!(wrong.is_empty(), "{wrong}");
}
