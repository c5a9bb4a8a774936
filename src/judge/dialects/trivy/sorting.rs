//! Selects the files of a directory to compile, if there are Trivy checks among them.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    legacy,
    selector::{CheckScope, Reason},
};
use crate::{
    judge::{
        metadata::{self, Metadata},
        unjudged::Unjudged,
    },
    model::verdict::Source,
    rego::{
        File,
        analysis::{
            missing::{package_line, package_of},
            references::Path,
            syntax,
        },
    },
};

/// Functions that only checks for input types other than Kubernetes call.
const FOREIGN: [&str; 4] = ["cidr.count_addresses(", "cidr.is_public(", "sh.parse_commands(", "squealer.scan_string("];

/// The selected and the omitted files.
#[derive(Debug, Default)]
pub(crate) struct Sorted<'f> {
    /// The files to compile, in their original order.
    pub(crate) kept: Vec<&'f File>,
    /// The checks of input that kaudit cannot read, sorted.
    pub(crate) unjudged: Vec<Unjudged>,
    /// The checks that Trivy does not run on Kubernetes objects, sorted.
    pub(crate) left_out: Vec<Unjudged>,
    pub(crate) examples: Examples,
}

/// The files next to checks that are not data despite their format.
#[derive(Debug, Default)]
pub(crate) struct Examples {
    /// Paths given by checks, relative to the start of their library.
    named: BTreeSet<String>,
    /// The paths of checks without `.rego`.
    beside: BTreeSet<String>,
    /// Directories that also contain checks for other input types. Of their many files, only those named `data` are
    /// data, as in OPA's bundles.
    libraries: BTreeSet<String>,
}

impl Examples {
    /// Whether a file is an example.
    pub(crate) fn contain(&self, file: &File) -> bool {
        let relative = file.relative();
        let ends =
            |text: &str, end: &str| text.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        // The given path may lie above or below the start of the library.
        let named = self.named.iter().any(|named| ends(named, &relative) || ends(&relative, named));
        let beside = || self.beside.contains(stem(&file.shown)) || self.libraries.contains(root(file).as_str());
        named || !ends(stem(&relative), "data") && beside()
    }

    /// Adds the examples that a check declares.
    fn add(&mut self, file: &File, about: &Metadata, role: &Role) {
        let named = about.custom.get("examples").and_then(|path| path.as_str());
        self.named.extend(named.map(|path| path.trim_start_matches("./").to_owned()));
        if CheckScope::of(about).is_some() {
            self.beside.insert(stem(&file.shown).to_owned());
        }
        if matches!(role, Role::LeftOut(Reason::Types(_))) {
            self.libraries.insert(root(file));
        }
    }
}

/// Returns a path without the extension of its file.
fn stem(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(stem, _)| stem)
}

/// Returns the given path below which the file was found.
fn root(file: &File) -> String {
    file.shown.strip_suffix(file.relative().as_str()).unwrap_or(&file.shown).to_owned()
}

/// How a file is used.
enum Role {
    /// Not a Trivy check, or a check that is evaluated.
    Evaluated,
    /// Compiled if others use it.
    Library,
    /// Tests, which are kept together with the module that they test.
    Test,
    LeftOut(Reason),
}

/// One `.rego` file.
struct CheckModule<'f> {
    file: &'f File,
    package: Path,
    role: Role,
    /// Its references below `data`.
    uses: BTreeSet<Path>,
}

/// Separates the files to compile from checks that apply to no object, and from libraries that only such checks use.
///
/// With `tests`, checks of Kubernetes objects that are not evaluated are kept, for their tests.
pub(crate) fn sort_out(files: Vec<&File>, tests: bool) -> Sorted<'_> {
    let (mut unjudged, mut left_out) = (Vec::new(), Vec::new());
    let mut examples = Examples::default();
    let mut modules = Vec::new();
    let clones = clones(&files);
    for file in files {
        let Some(package) = package_of(&file.text) else {
            modules.push(CheckModule { file, package: Path::new(), role: Role::Evaluated, uses: BTreeSet::new() });
            continue;
        };
        let about = about(file);
        let role = match role(file, about.as_ref(), tests) {
            Role::Evaluated
                if !tests && is_example(file, &clones) && about.as_ref().and_then(CheckScope::of).is_some() =>
            {
                Role::LeftOut(Reason::Example)
            }
            role => role,
        };
        if let Some(about) = &about {
            examples.add(file, about, &role);
        }
        if let Role::LeftOut(reason) = &role {
            let source = Source { file: Arc::clone(&file.shown), line: line_of_package(&file.text) };
            let (name, reason_text) = (package.join("."), reason.to_string());
            let check = Unjudged { name, reason: reason_text, source, controls: Vec::new() };
            if *reason == Reason::Node { unjudged.push(check) } else { left_out.push(check) }
        }
        modules.push(CheckModule { file, package, role, uses: uses(&file.text) });
    }
    unjudged.sort();
    left_out.sort();
    let kept = kept(&modules);
    let kept = modules.iter().zip(kept).filter(|(_, kept)| *kept).map(|(module, _)| module.file).collect();
    Sorted { kept, unjudged, left_out, examples }
}

/// Returns the paths at which clones of Trivy's library start: directories with `checks` and `lib`.
fn clones<'f>(files: &[&'f File]) -> BTreeSet<&'f str> {
    let holding = |name: &str| {
        // A clone may be below a directory with the name of one of its own.
        let above = |file: &&'f File| {
            let starts: Vec<usize> = file.shown.match_indices(name).map(|(at, _)| at).collect();
            let path: &'f str = &file.shown;
            starts.into_iter().map(move |at| &path[..at]).filter(|above| above.is_empty() || above.ends_with('/'))
        };
        files.iter().flat_map(above).collect::<BTreeSet<&str>>()
    };
    holding("checks/").intersection(&holding("lib/")).copied().collect()
}

/// Whether a file is among the examples of a clone.
fn is_example(file: &File, clones: &BTreeSet<&str>) -> bool {
    clones.iter().any(|clone| file.shown.strip_prefix(clone).is_some_and(|path| path.starts_with("examples/")))
}

/// Returns the metadata of a file, if it may be a Trivy check.
fn about(file: &File) -> Option<Metadata> {
    let annotated = metadata::of_package(&file.text);
    // Annotations override legacy rules.
    annotated.or_else(|| {
        let legacy = legacy::is_in(&file.text).then(|| syntax::read(&file.text, file.version()).ok()).flatten();
        legacy.and_then(|module| legacy::metadata(&module))
    })
}

fn role(file: &File, about: Option<&Metadata>, tests: bool) -> Role {
    if file.is_test() {
        return Role::Test;
    }
    match about.and_then(CheckScope::of) {
        None => Role::Evaluated,
        Some(scope) if scope.library => Role::Library,
        Some(scope) => match scope.kinds() {
            Err(reason) if !tests || matches!(reason, Reason::Types(_)) => Role::LeftOut(reason),
            _ => Role::Evaluated,
        },
    }
}

/// Returns whether each module is compiled.
fn kept(modules: &[CheckModule<'_>]) -> Vec<bool> {
    let foreign = |module: &CheckModule<'_>| matches!(module.role, Role::LeftOut(_));
    let any_foreign = modules.iter().any(foreign);
    let needs = |module: &CheckModule<'_>, other: &CheckModule<'_>| {
        let meets = |used: &Path| used.starts_with(&other.package) || other.package.starts_with(used);
        module.package == other.package || module.uses.iter().any(meets)
    };
    // A test of a module that is left out is left out as well.
    let is_about_foreign = |module: &CheckModule<'_>| {
        let about = |other: &&CheckModule<'_>| {
            let name = module.package.join(".");
            name.strip_suffix("_test") == Some(&other.package.join(".")) || needs(module, other)
        };
        any_foreign && FOREIGN.iter().any(|function| module.file.text.contains(function))
            || modules.iter().filter(|other| foreign(other)).any(|other| about(&other))
    };
    let mut kept: Vec<bool> = modules
        .iter()
        .map(|module| match module.role {
            Role::Evaluated => true,
            Role::Test => !is_about_foreign(module),
            Role::Library | Role::LeftOut(_) => false,
        })
        .collect();
    let (mut open, mut others): (Vec<usize>, Vec<usize>) = (0..modules.len()).partition(|index| kept[*index]);
    others.retain(|other| !matches!(modules[*other].role, Role::Test));
    while let Some(user) = open.pop() {
        for needed in others.extract_if(.., |other| needs(&modules[user], &modules[*other])) {
            kept[needed] = true;
            open.push(needed);
        }
    }
    kept
}

/// Returns the references of a text below `data`, including those in comments, but no fields, quoted strings or
/// longer names that contain `data.`.
pub(crate) fn uses(text: &str) -> BTreeSet<Path> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let path = |(at, _): (usize, &str)| {
        let before = text[..at].chars().next_back().is_some_and(|c| is_word(c) || ['.', '"', '`'].contains(&c));
        let rest = &text[at + "data.".len()..];
        let end = rest.find(|c| !is_word(c) && c != '.').unwrap_or(rest.len());
        let keys = rest[..end].split('.').filter(|key| !key.is_empty()).map(str::to_owned);
        (!before).then(|| keys.collect::<Path>()).filter(|path| !path.is_empty())
    };
    text.match_indices("data.").filter_map(path).collect()
}

/// Whether a text seems to refer to `data` as a whole, or to a computed key of it.
pub(crate) fn uses_all(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices("data").any(|(at, word)| {
        let before = text[..at].chars().next_back().is_some_and(|c| is_word(c) || ['.', '"', '`'].contains(&c));
        let after = text[at + word.len()..].chars().next().is_some_and(|c| is_word(c) || c == '.');
        !before && !after
    })
}

fn line_of_package(text: &str) -> u32 {
    package_line(text).and_then(|(line, _)| u32::try_from(line + 1).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rego::Form;

    fn sorted(modules: &[(&str, &str)], with_tests: bool) -> (Vec<String>, Vec<String>) {
        let files: Vec<File> =
            modules.iter().map(|(name, text)| File::new((*name).into(), Form::Rego, (*text).to_owned())).collect();
        let Sorted { kept, unjudged, left_out, .. } = sort_out(files.iter().collect(), with_tests);
        let kept = kept.into_iter().map(|file| file.shown.to_string()).collect();
        (kept, unjudged.into_iter().chain(left_out).map(|check| format!("{}: {}", check.name, check.reason)).collect())
    }

    fn check(package: &str, selector: &str, rest: &str) -> String {
        format!("# METADATA\n# custom:\n#   id: X-1\n#   input: {{selector: [{selector}]}}\npackage {package}\n{rest}")
    }

    #[test]
    fn examples_of_a_clone_are_left_out() {
        let check = |package: &str| check(package, "{type: kubernetes}", "");
        let (pods, example) = (check("builtin.pods"), check("user.example"));
        let clone = |directory: &str| {
            let texts = [
                ("checks/pods.rego", pods.as_str()),
                ("examples/a.rego", &example),
                ("examples/a_test.rego", "package user.example_test\n"),
                ("examples/plain.rego", "package plain\n"),
                ("lib/b.rego", "package lib.b\n"),
            ];
            texts.map(|(name, text)| (format!("{directory}{name}"), text.to_owned()))
        };
        for directory in ["", "trivy-checks/", "a/lib.d/", "lib/trivy-checks/", "checks/", "a/checks/lib/b/"] {
            let files = clone(directory);
            let texts: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            let (kept, left_out) = sorted(&texts, false);
            let want =
                ["checks/pods.rego", "examples/plain.rego", "lib/b.rego"].map(|name| format!("{directory}{name}"));
            assert_eq!(kept, want);
            assert_eq!(left_out, ["user.example: an example of the library, which Trivy does not ship"]);
            // Elsewhere, a directory with this name contains ordinary checks.
            assert_eq!(sorted(&texts[1..], false).1, [""; 0]);
        }
    }

    #[test]
    fn checks_of_other_types_are_left_out_with_their_libraries() {
        let pods = check("builtin.pods", "{type: kubernetes}", "import data.lib.pods\n");
        let docker = check("builtin.docker", "{type: dockerfile}", "import data.lib.docker\n");
        let node = check("builtin.node", "{type: kubernetes, subtypes: [{kind: nodeinfo}]}", "");
        let library = |name: &str| format!("# METADATA\n# custom: {{library: true}}\npackage lib.{name}\n");
        let (pods_lib, docker_lib) = (library("pods"), library("docker"));
        let texts = [
            ("a.rego", "package plain\n"),
            ("docker.rego", docker.as_str()),
            ("docker_test.rego", "package builtin.docker_test\n"),
            ("lib/docker.rego", docker_lib.as_str()),
            ("lib/docker_test.rego", "package lib.docker_test\nx := sh.parse_commands(\"a\")\n"),
            ("lib/pods.rego", pods_lib.as_str()),
            ("node.rego", node.as_str()),
            ("pods.rego", pods.as_str()),
            ("pods_test.rego", "package builtin.pods_test\nimport data.builtin.pods as check\n"),
        ];
        let (kept, left_out) = sorted(&texts, false);
        assert_eq!(kept, ["a.rego", "lib/pods.rego", "pods.rego", "pods_test.rego"]);
        let node =
            "builtin.node: checks files and processes of nodes (nodeinfo), which the API server does not provide";
        assert_eq!(left_out, [node, "builtin.docker: not for Kubernetes, but for dockerfile"]);
        let (kept, _) = sorted(&texts, true);
        assert_eq!(kept, ["a.rego", "lib/pods.rego", "node.rego", "pods.rego", "pods_test.rego"]);
    }

    #[test]
    fn paths_of_examples_match_relative_to_any_directory() {
        let examples = Examples { named: ["checks/kubernetes/a.yaml".to_owned()].into(), ..Examples::default() };
        let file = |directories: &[&str], name: &str| File {
            directories: directories.iter().map(|name| (*name).to_owned()).collect(),
            ..File::new(name.into(), Form::Yaml, String::new())
        };
        assert!(examples.contain(&file(&[], "a.yaml")) && examples.contain(&file(&["kubernetes"], "a.yaml")));
        assert!(examples.contain(&file(&["trivy", "checks", "kubernetes"], "a.yaml")));
        assert!(!examples.contain(&file(&[], "aa.yaml")) && !examples.contain(&file(&["docker"], "a.yaml")));
    }

    #[test]
    fn legacy_rules_are_read_and_annotations_come_first() {
        let legacy = "package a\n__rego_input__ := {\"selector\": [{\"type\": \"dockerfile\"}]}\n";
        let both = format!("# METADATA\n# custom: {{input: {{}}}}\n{}", legacy.replace("package a", "package b"));
        let (kept, left_out) = sorted(&[("a.rego", legacy), ("b.rego", &both)], false);
        assert_eq!((kept, left_out.len()), (vec!["b.rego".to_owned()], 1));
    }

    #[test]
    fn checks_of_other_types_are_kept_if_they_are_used() {
        let docker = check("builtin.docker", "{type: dockerfile}", "");
        let user = "package a\ndeny contains \"x\" if data.builtin.docker.helper\n";
        assert_eq!(sorted(&[("a.rego", user), ("d.rego", &docker)], false).0, ["a.rego", "d.rego"]);
    }

    #[test]
    fn references_are_found_in_the_text() {
        let found =
            uses("import data.lib.k8s as k\nx := data.a[\"b\"]\ny := mydata.c\nz := input.data.d\nq := \"data.e\"\n");
        assert_eq!(found.into_iter().map(|path| path.join(".")).collect::<Vec<_>>(), ["a", "lib.k8s"]);
    }
}
