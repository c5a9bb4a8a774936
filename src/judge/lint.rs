//! Warns of probable mistakes: rules and packages that are never evaluated, and imports of and references to undefined
//! paths. OPA allows all of these, so they are warnings; but a policy that is not evaluated by mistake looks like a clean
//! result.

mod undefined;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    dialects::{conftest::outcome, trivy},
    entrypoints::can_have_entrypoints,
    policy::Policy,
    reads::Matches,
};
use crate::rego::{
    File, FileText, Problem,
    analysis::{
        check::Checked,
        missing,
        references::{Node, Path},
        syntax::Module,
    },
};

/// The first word in the name of an entrypoint rule.
const WORDS: [&str; 3] = ["deny", "violation", "warn"];
/// Words used by mistake instead of these.
const FORMS: [(&str, &str); 9] = [
    ("denies", "deny"),
    ("denied", "deny"),
    ("violations", "violation"),
    ("violate", "violation"),
    ("violates", "violation"),
    ("violated", "violation"),
    ("warning", "warn"),
    ("warnings", "warn"),
    ("warned", "warn"),
];

/// The end of the warning about a package that no module refers to.
const UNUSED: &str = "and no module uses it";

/// Whether the problem is the warning about a package that no module of its source refers to.
pub(crate) fn is_unused_package(problem: &Problem) -> bool {
    problem.message.starts_with("package ") && problem.message.ends_with(UNUSED)
}

/// The package of a module, and its imports from `data`.
struct ModuleImports {
    package: Path,
    paths: Vec<Path>,
}

impl ModuleImports {
    fn of(module: &Module) -> Self {
        let paths = module.data_imports().into_iter().map(|(path, _)| path).collect();
        Self { package: module.package_path(), paths }
    }
}

/// Returns the probable mistakes in valid modules.
pub(crate) fn warnings(checked: &Checked<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let imported: Vec<ModuleImports> = checked.modules.iter().map(|module| ModuleImports::of(module)).collect();
    names(checked, &imported, &mut problems);
    // The refused files may use a package or define an import.
    if checked.missing.is_empty() {
        packages(checked, &imported, &mut problems);
        problems.extend(undefined::warnings(checked));
    }
    problems
}

/// Returns a warning for a `*_test.rego` file without tests whose rules have the names of entrypoints.
pub(crate) fn test_file(file: &File) -> Option<Problem> {
    let names = missing::names(&file.text);
    if names.iter().any(|name| name.contains("test_")) {
        return None;
    }
    let name = names.into_iter().find(|name| outcome(name).is_some())?;
    let line = file.text.lines().position(|line| line.strip_prefix("default ").unwrap_or(line).starts_with(name))?;
    let message = format!("{name} is not evaluated: files named *_test.rego are for tests, and this one has none");
    let problem = Problem::warning(&file.shown, message).help("rename the file");
    Some(problem.at(&file.text, u32::try_from(line + 1).ok()?, 1))
}

/// Returns a warning for each policy that cannot have a result for any kind.
pub(crate) fn without_kinds<'f>(policies: &[Policy], files: &(impl Iterator<Item = &'f File> + Clone)) -> Vec<Problem> {
    let nothing = |policy: &&Policy| matches!(&policy.matches, Matches::Kinds(kinds) if kinds.is_empty());
    let unknown = FileText::default();
    let problem = |policy: &Policy| {
        let text = files.clone().find(|file| file.shown == policy.source).map_or(&unknown, |file| &file.text);
        let message = format!("{} cannot match any kind", policy.name);
        let help = "its rules require two kinds at once, or a kind that its selector excludes";
        Problem::warning(&policy.source, message).at(text, policy.line, 1).help(help)
    };
    policies.iter().filter(nothing).map(problem).collect()
}

/// Warns of rules that are not evaluated although their names suggest it.
fn names(checked: &Checked<'_>, imported: &[ModuleImports], problems: &mut Vec<Problem>) {
    let mut reported: BTreeSet<&Path> = BTreeSet::new();
    for node in checked.nodes {
        let package = node.package().to_vec();
        let Some(name) = node.name() else { continue };
        if node.parameters.is_none() && checked.entries.contains(&node.path) {
            continue;
        }
        let Some((message, help)) = wrong_name(name, &package, node) else { continue };
        if reported.contains(&node.path) || is_used((checked, imported), &node.path, |other| other.path != node.path) {
            continue;
        }
        reported.insert(&node.path);
        let file = checked.files[node.module];
        problems.push(Problem::warning(&file.shown, message).help(help).at(&file.text, node.line, node.column));
    }
}

/// Returns why an unused rule is not evaluated, and how to fix it, if its name suggests that it should be.
fn wrong_name(name: &str, package: &Path, node: &Node) -> Option<(String, String)> {
    let shown = package.join(".");
    if outcome(name).is_none() {
        let word = meant(name).filter(|_| can_have_entrypoints(package))?;
        let message = format!("{name} is not evaluated: rules with results are named {word} or {word}_x");
        return Some((message, format!("rename it to {}", renamed(name, word))));
    }
    if !can_have_entrypoints(package) {
        let message = format!("{name} is not evaluated: {shown} is a package of {}", kind(package));
        return Some((message, "move it to its own package".to_owned()));
    }
    if node.parameters.is_some() {
        let message = format!("{name} is not evaluated: it is a function, and nothing calls it");
        return Some((message, "remove its parameters or rename it".to_owned()));
    }
    // Other entrypoints that are not evaluated are in a Trivy check.
    (trivy::DIALECT.outcome)(name).is_none().then(|| {
        let message =
            format!("{name} is not evaluated: {shown} is a Trivy check, whose rules are named deny or deny_x");
        (message, "rename it, or move it to a package without custom.input and result.new".to_owned())
    })
}

fn kind(package: &Path) -> &'static str {
    if package.iter().any(|part| part == "lib") { "helpers (lib)" } else { "tests (*_test)" }
}

/// Returns the word that the first word of a name was probably meant to be.
fn meant(name: &str) -> Option<&'static str> {
    let first = name.split('_').next().unwrap_or(name);
    let lower = first.to_lowercase();
    let form = FORMS.iter().find(|(form, _)| *form == lower).map(|(_, word)| *word);
    let near = |word: &&&str| lower.len() >= word.len() && strsim::damerau_levenshtein(&lower, word) <= 1;
    form.or_else(|| WORDS.iter().find(near).copied())
}

/// Returns the name with this first word and without empty parts: `Deny__x_` becomes `deny_x`.
fn renamed(name: &str, word: &str) -> String {
    let rest = name.split('_').skip(1).filter(|part| !part.is_empty());
    [word].into_iter().chain(rest).collect::<Vec<_>>().join("_")
}

/// Warns of packages that have no entrypoint and are not used.
fn packages(checked: &Checked<'_>, imported: &[ModuleImports], problems: &mut Vec<Problem>) {
    let mut modules: BTreeMap<Path, Vec<usize>> = BTreeMap::new();
    for (index, module) in imported.iter().enumerate() {
        modules.entry(module.package.clone()).or_default().push(index);
    }
    let mut nodes: BTreeMap<usize, Vec<&Node>> = BTreeMap::new();
    for node in checked.nodes {
        nodes.entry(node.module).or_default().push(node);
    }
    for (package, modules) in modules {
        let own = modules.iter().filter_map(|module| nodes.get(module)).flatten();
        let rules: Vec<&Node> = own.copied().filter(|node| !node.is_test()).collect();
        let below = checked.entries.range(package.clone()..).take_while(|path| path.starts_with(&package));
        let has_entrypoint = below.into_iter().any(|path| path.len() == package.len() + 1);
        let has_similar_name = |node: &&Node| node.path.get(package.len()).is_some_and(|name| meant(name).is_some());
        let is_useful =
            has_entrypoint || rules.is_empty() || rules.iter().any(has_similar_name) || checked.entries.is_empty();
        if is_useful
            || !can_have_entrypoints(&package)
            || is_used((checked, imported), &package, |other| !modules.contains(&other.module))
        {
            continue;
        }
        let (file, module) = (checked.files[modules[0]], &checked.modules[modules[0]]);
        let shown = package.join(".");
        let message = format!("package {shown} is not evaluated: it has no rule deny, violation or warn, {UNUSED}");
        problems.push(Problem::warning(&file.shown, message).at(&file.text, module.at.line, module.at.column));
    }
}

/// Whether a rule for which `counts` holds refers to something at a path, or a module of another package imports it.
fn is_used((checked, imported): (&Checked<'_>, &[ModuleImports]), path: &Path, counts: impl Fn(&Node) -> bool) -> bool {
    let meets = |used: &[String]| used.starts_with(path) || path.starts_with(used);
    let by_rule = checked.nodes.iter().any(|node| counts(node) && node.uses.iter().any(|used| meets(used)));
    let by_import = |module: &ModuleImports| {
        !path.starts_with(&module.package) && module.paths.iter().any(|imported| meets(imported))
    };
    by_rule || imported.iter().any(by_import)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_rule_names_are_detected() {
        for (name, want) in [
            ("deny_", "deny"),
            ("deny__x", "deny_x"),
            ("Deny_latest", "deny_latest"),
            ("denies", "deny"),
            ("dney_x", "deny_x"),
            ("denny", "deny"),
            ("violations", "violation"),
            ("voilation", "violation"),
            ("warning_x", "warn_x"),
            ("warnn", "warn"),
        ] {
            assert_eq!(meant(name).map(|word| renamed(name, word)).as_deref(), Some(want), "{name}");
        }
        for name in ["allow", "msg", "den", "denylist", "warrant", "violating_pods", "is_denied", "want"] {
            assert_eq!(meant(name), None, "{name}");
        }
    }
}
