//! Compares refusals: kaudit must refuse the same modules as OPA's compiler, at the same lines.
//!
//! Modules are broken in known ways (`kinds.yaml`) and at random. One `opa-cases compile` checks all of them as `opa
//! check` would. Where they differ, the test prints the seed; `KAUDIT_TEST_SEED` repeats a run, `KAUDIT_TEST_MODULES`
//! sets the number of modules. `KAUDIT_TEST_LIBRARY` names a folder with third-party policies to compare, in addition
//! to those of this repository.

mod random;

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use fastrand::Rng;
use kaudit_controlplane::{Tool, require_tool};
use kaudit_rego::{File, Form, Limits, Policies, Problem, analysis::yaml};
use kaudit_test_support::{
    opa::{on_deep_stack, opa_cases},
    settings::setting,
};
use serde::Deserialize;

use self::random::{DeclaredNames, Generator};

/// The default number of random modules.
const MODULES: usize = 1_500;

/// A way to break a module.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusalKind {
    #[serde(rename = "kind")]
    about: String,
    rules: Option<String>,
    other: Option<String>,
    body: Option<String>,
}

/// Modules that are compiled together, with a description.
struct ModuleSet {
    about: String,
    modules: Vec<(String, String)>,
    /// Whether OPA has to refuse them.
    broken: bool,
}

/// An error of OPA for a set of modules.
#[derive(Debug, Deserialize)]
struct Refusal {
    file: String,
    line: u32,
    code: String,
    message: String,
}

const GOOD: [&str; 6] = [
    "# Nothing is wrong with this.\ngood1 := input.x",
    "good2 contains msg if {\n\tsome x in input.xs\n\tmsg := sprintf(\"%v\", [x])\n}",
    "good3(x) := y if {\n\ty := x + 1\n} else := 0",
    "default good4 := false\n\ngood4 if {\n\tnot input.y\n}",
    "good5[k] := v if {\n\tsome k, v in input.map\n\tstartswith(k, \"a\")\n}",
    "good6 := [x |\n\tsome x in input.xs\n\tevery y in x.ys { y > 1 }\n]",
];

/// Puts a broken body into a rule, a function or a comprehension.
fn around(body: &str, random: &mut Rng) -> String {
    let lines = body.replace("; ", "\n\t");
    match random.u8(..10) {
        0 => format!("r if {{\n\t{lines}\n}}"),
        1 => format!("r contains 1 if {{\n\tinput.z\n\t{lines}\n}}"),
        2 => format!("r(p0) := 1 if {{\n\tp0\n\t{lines}\n}}"),
        3 => format!("r := [1 |\n\t{lines}\n]"),
        4 => format!("r if {{\n\tcount({{1 | {body}}}) > 0\n}}"),
        5 => format!("r := 1 if {{\n\tinput.z\n}} else := 2 if {{\n\t{lines}\n}}"),
        6 => format!("r[k0] := v0 if {{\n\tsome k0, v0 in input.map\n\t{lines}\n}}"),
        7 => format!("r if {{\n\tz0 := {{\"a\": 1 | {body}}}\n\tz0.a\n}}"),
        8 => format!("r if {{\n\tinput.z with input.a as 1\n\n\t{lines}\n}}"),
        _ => format!("r if {{\n\tevery x0 in input.zs {{\n\tx0\n\t{lines}\n\t}}\n}}"),
    }
}

fn broken(kind: &RefusalKind, plain: bool, random: &mut Rng) -> ModuleSet {
    let rules = match (&kind.rules, &kind.body) {
        (Some(rules), _) => rules.trim_end().to_owned(),
        (None, Some(body)) if plain => format!("r if {{\n\t{}\n}}", body.replace("; ", "\n\t")),
        (None, Some(body)) => around(body, random),
        (None, None) => String::new(),
    };
    let (imports, rules): (Vec<&str>, Vec<&str>) = rules.lines().partition(|line| line.starts_with("import "));
    let mut parts = vec![rules.join("\n").trim().to_owned()];
    for good in GOOD {
        if random.u8(..3) == 0 {
            parts.insert(random.usize(..=parts.len()), good.to_owned());
        }
    }
    let gap = "\n".repeat(random.usize(2..4));
    let imports = imports.join("\n");
    let main = format!("package broken\n\nimport rego.v1\n{imports}\n\n{}\n", parts.join(&gap));
    let good = format!("package good\n\nimport rego.v1\n\n{}\n", GOOD.join("\n\n"));
    let mut modules = vec![("b/main.rego".to_owned(), main), ("c/good.rego".to_owned(), good)];
    if let Some(other) = &kind.other {
        let name = if random.bool() { "a/other.rego" } else { "d/other.rego" };
        modules.push((name.to_owned(), other.clone()));
    }
    modules.sort();
    ModuleSet { about: kind.about.clone(), modules, broken: plain }
}

/// Returns modules of random rules; `declared` if their names are declared.
fn at_random(random: &mut Rng, declared: bool) -> ModuleSet {
    let count = random.usize(1..6);
    let mut rules: Vec<String> = if declared {
        let mut generator = DeclaredNames::new(random);
        (0..count).map(|number| generator.rule(number)).collect()
    } else {
        let mut generator = Generator { random };
        (0..count).map(|_| generator.rule()).collect()
    };
    rules.push("f(x) := x".replace('f', if declared { "f" } else { "f0" }));
    let main = format!("package broken\n\nimport rego.v1\n\n{}\n", rules.join("\n\n"));
    let other = "package other\n\nimport rego.v1\n\na := {\"a\": 1}\n\nb contains \"x\"\n\ng(x) := x + 1\n";
    let modules = vec![("b/main.rego".to_owned(), main), ("c/other.rego".to_owned(), other.to_owned())];
    ModuleSet { about: "at random".to_owned(), modules, broken: false }
}

/// Returns the errors of `opa check` for each set.
fn by_opa(sets: &[ModuleSet], version: &str) -> Vec<Vec<Refusal>> {
    let question = |set: &ModuleSet| {
        let modules: serde_json::Map<_, _> =
            set.modules.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
        serde_json::json!({"version": version, "modules": modules}).to_string()
    };
    let answers: Vec<_> = opa_cases("compile", &sets.iter().map(question).collect::<Vec<_>>());
    assert_eq!(answers.len(), sets.len());
    answers
}

/// Returns kaudit's refusals of modules that are loaded together, given by name and text.
fn refusals(modules: &[(String, String)]) -> Vec<Problem> {
    let file = |(name, text): &(String, String)| File::new(name.as_str().into(), Form::Rego, text.clone());
    let problems = Policies::load(modules.iter().map(file).collect(), &Limits::default()).err();
    problems.into_iter().flat_map(|error| error.problems).filter(Problem::is_refusal).collect()
}

/// Returns how kaudit differs from OPA.
fn difference(set: &ModuleSet, theirs: &[Refusal]) -> Option<String> {
    let found = refusals(&set.modules);
    let ours: BTreeSet<(String, u32)> = found.iter().map(|problem| (problem.file.to_string(), problem.line)).collect();
    let reported = |refusal: &&Refusal| {
        // OPA reports the last position of a rule's name for all of its definitions, and all rules of a cycle, where
        // kaudit reports one.
        let elsewhere = ["undefined ref", "undefined function", "recursive"];
        let anywhere = refusal.line == 0 || elsewhere.iter().any(|word| refusal.message.contains(word));
        let same_file = |(file, _): &(String, u32)| refusal.line == 0 || *file == refusal.file;
        ours.contains(&(refusal.file.clone(), refusal.line)) || anywhere && ours.iter().any(same_file)
    };
    // One mistake causes others, so only the first of each file counts.
    let mut files = BTreeSet::new();
    let mut firsts = theirs.iter().filter(|refusal| files.insert(&refusal.file));
    let all = firsts.all(|refusal| reported(&refusal));
    // For a file that cannot be parsed, only one problem is reported at a time.
    let first = |refusal: &Refusal| {
        refusal.code == "rego_parse_error"
            || ["must not shadow", "deprecated"].iter().any(|word| refusal.message.contains(word))
    };
    let one =
        theirs.iter().any(first) && theirs.iter().filter(|refusal| first(refusal)).any(|refusal| reported(&refusal));
    let same = ours.is_empty() == theirs.is_empty() && (all || one);
    if same && !(set.broken && theirs.is_empty()) {
        return None;
    }
    let mut text = format!("=== {}\n", set.about);
    for refusal in theirs {
        let _ = writeln!(text, "  opa:    {}:{}: {}: {}", refusal.file, refusal.line, refusal.code, refusal.message);
    }
    for problem in &found {
        let _ = writeln!(text, "  kaudit: {}: {}", problem.place(), problem.message);
    }
    for (name, module) in set.modules.iter().filter(|(name, _)| !name.starts_with("c/")) {
        let lines: Vec<String> =
            module.lines().enumerate().map(|(index, line)| format!("{:4} {line}", index + 1)).collect();
        let _ = writeln!(text, "  {name}\n{}", lines.join("\n"));
    }
    Some(text)
}

/// Returns a set for each policy file below a folder, and one for each folder that has several.
fn library(folder: &Path) -> Vec<ModuleSet> {
    let mut sets = Vec::new();
    let mut modules = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let about = path.display().to_string();
        if path.is_symlink() {
        } else if path.is_dir() {
            sets.extend(library(&path));
        } else if is_policy(&path)
            && let Ok(text) = fs::read_to_string(&path)
        {
            modules.push((about.clone(), text.clone()));
            sets.push(ModuleSet { about: about.clone(), modules: vec![(about, text)], broken: false });
        }
    }
    if modules.len() > 1 {
        sets.push(ModuleSet { about: folder.display().to_string(), modules, broken: false });
    }
    sets
}

/// Whether it is a policy file. Tests are only compiled by `kaudit test`, which is compared elsewhere.
fn is_policy(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".rego"));
    name.is_some_and(|name| !name.ends_with("_test") && !name.starts_with("test_"))
}

fn compare(sets: &[ModuleSet], seed: u64) {
    let theirs = by_opa(sets, "v1");
    let work = || sets.iter().zip(&theirs).filter_map(|(set, theirs)| difference(set, theirs)).collect::<Vec<_>>();
    let different = on_deep_stack(work);
    let shown = different.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(different.is_empty(), "{} of {} differ, KAUDIT_TEST_SEED={seed}\n{shown}", different.len(), sets.len());
}

/// Returns the seed. The default run always uses the same one: differences that a long run with random seeds finds must
/// not fail unrelated changes.
fn seed() -> u64 {
    let long = std::env::var_os("KAUDIT_TEST_MODULES").is_some();
    setting("KAUDIT_TEST_SEED").unwrap_or_else(|| if long { fastrand::u64(..) } else { 1 })
}

fn count() -> usize {
    setting("KAUDIT_TEST_MODULES").unwrap_or(MODULES)
}

#[test]
fn modules_broken_in_known_ways_are_refused() {
    if !require_tool(Tool::OpaCases) {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/opa/refusals/kinds.yaml");
    let kinds: Vec<RefusalKind> = yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(kinds.len() > 150, "{}", kinds.len());
    let (seed, count) = (seed(), count());
    let random = &mut Rng::with_seed(seed);
    let mut sets: Vec<ModuleSet> = kinds.iter().map(|kind| broken(kind, true, random)).collect();
    sets.extend((0..count).map(|index| broken(&kinds[index % kinds.len()], false, random)));
    compare(&sets, seed);
}

#[test]
fn random_modules_are_refused_as_by_opa() {
    if !require_tool(Tool::OpaCases) {
        return;
    }
    let (seed, count) = (seed(), count());
    let random = &mut Rng::with_seed(seed);
    let sets: Vec<ModuleSet> = (0..count).map(|index| at_random(random, index % 2 == 0)).collect();
    compare(&sets, seed);
}

/// Policies do not declare their version: OPA accepts a file if it is valid in one of the versions.
#[test]
fn real_policies_are_refused_as_by_opa() {
    if !require_tool(Tool::OpaCases) {
        return;
    }
    // The policies of the repository.
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sets: Vec<ModuleSet> =
        ["policies", "examples"].iter().flat_map(|folder| library(&own.join(folder))).collect();
    assert!(sets.len() > 15, "{}", sets.len());
    if let Some(folder) = std::env::var_os("KAUDIT_TEST_LIBRARY") {
        sets.extend(library(Path::new(&folder)));
    }
    // Trivy adds builtins to OPA's; its checks are compared with its scanner.
    for set in &mut sets {
        set.modules.retain(|(_, text)| !text.contains("result.new("));
    }
    let (old, new) = (by_opa(&sets, "v0"), by_opa(&sets, "v1"));
    // The positions of errors are compared above; here only whether there are any.
    let differs = |(set, (old, new)): (&ModuleSet, (&Vec<Refusal>, &Vec<Refusal>))| {
        let (found, taken) = (refusals(&set.modules), old.is_empty() || new.is_empty());
        // kaudit parses each file of a folder in its own version, and lacks some builtins.
        let unread = |theirs: &[Refusal]| theirs.iter().any(|refusal| refusal.code == "rego_parse_error");
        let mixed = set.modules.len() > 1 && unread(old) && unread(new);
        if mixed || found.iter().any(|problem| problem.message.ends_with("is not supported")) {
            return None;
        }
        let theirs = old.iter().chain(new).map(|refusal| format!("  opa:    {}: {}", refusal.line, refusal.message));
        let ours = found.iter().map(|problem| format!("  kaudit: {}: {}", problem.place(), problem.message));
        let all: Vec<String> = theirs.chain(ours).collect();
        (found.is_empty() != taken).then(|| format!("=== {}\n{}", set.about, all.join("\n")))
    };
    let work = || sets.iter().zip(old.iter().zip(&new)).filter_map(differs).collect::<Vec<_>>();
    let different = on_deep_stack(work);
    let shown = different.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(different.is_empty(), "{} of {} differ\n{shown}", different.len(), sets.len());
}
