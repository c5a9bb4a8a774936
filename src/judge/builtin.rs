//! The policy library of `policies/`, compiled into the binary without its tests: the default if no policies are given.
//!
//! A part of the library is a package, such as `pod_security.baseline`, or a common prefix of packages, such as
//! `pod_security`. Packages in `lib` are not parts: they are included with the parts that use them. `practices` is off by
//! default: it is used only where it is named, or with the profile `strict`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::LazyLock,
};

use super::rule_example::RuleExample;
use crate::{
    model::spelling::nearest,
    rego::{
        Form,
        analysis::yaml::{self, YamlDialect},
    },
};

/// The name on the command line, and the folder under which its files appear.
pub(crate) const NAME: &str = "builtin";
/// The folder of packages that policies share.
const SHARED: &str = "lib";
/// The part that is off by default.
pub(crate) const PRACTICES: &str = "practices";

/// One file of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BuiltinFile {
    /// The path relative to the library's folder, with `/` on every system.
    pub(crate) path: &'static str,
    pub(crate) text: &'static str,
}

// `FILES`, every file sorted by path.
include!(concat!(env!("OUT_DIR"), "/library.rs"));

impl BuiltinFile {
    /// The package, which is named after the path.
    fn package(&self) -> String {
        self.path.trim_end_matches(".rego").replace('/', ".")
    }

    fn is_policy(&self) -> bool {
        Form::of(Path::new(self.path)) == Some(Form::Rego)
    }

    fn is_in(&self, folder: &str) -> bool {
        self.path.split('/').next() == Some(folder)
    }

    /// Whether it is used without being named.
    fn is_default(&self) -> bool {
        !self.is_in(PRACTICES)
    }

    /// Whether a rule or an import refers to the package of another file.
    fn uses(&self, other: &Self) -> bool {
        let name = format!("data.{}", other.package());
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
        self.text.match_indices(&name).any(|(start, _)| ends(&self.text[start + name.len()..]))
    }

    /// Returns the folders between the library's folder and the file.
    pub(crate) fn directories(&self) -> Vec<String> {
        let mut names: Vec<String> = self.path.split('/').map(str::to_owned).collect();
        names.pop();
        names
    }
}

/// Returns the policies of a part and of the packages that it uses, sorted by path. An empty name selects all that are on
/// by default; an unknown name selects none.
pub(crate) fn part(name: &str) -> Vec<BuiltinFile> {
    let below = format!("{name}.");
    let named = |file: &BuiltinFile| {
        let package = file.package();
        let is_named = !file.is_in(SHARED) && (package == name || package.starts_with(&below));
        if name.is_empty() { file.is_default() } else { is_named }
    };
    let mut files: BTreeSet<BuiltinFile> = policies().copied().filter(named).collect();
    let mut new: Vec<BuiltinFile> = files.iter().copied().collect();
    while let Some(file) = new.pop() {
        new.extend(policies().filter(|other| file.uses(other)).filter(|other| files.insert(**other)));
    }
    files.into_iter().collect()
}

/// Returns the Rego modules of the library.
fn policies() -> impl Iterator<Item = &'static BuiltinFile> {
    FILES.iter().filter(|file| file.is_policy())
}

/// Returns the text of a file of the library by its path.
pub(crate) fn file(path: &str) -> Option<&'static str> {
    FILES.iter().find(|file| file.path == path).map(|file| file.text)
}

/// Returns the example of a rule of the library by its id, as on its page in the documentation.
pub(crate) fn example(id: &str) -> Option<&'static RuleExample> {
    static EXAMPLES_BY_ID: LazyLock<BTreeMap<String, RuleExample>> = LazyLock::new(|| {
        let examples = file("examples/manifests.yaml").unwrap_or_default();
        yaml::single(examples, YamlDialect::Settings).and_then(|root| root.deserialize()).unwrap_or_default()
    });
    EXAMPLES_BY_ID.get(id)
}

/// Where the documentation is published, if the build names it.
const DOCUMENTATION: Option<&str> = option_env!("KAUDIT_DOCUMENTATION");

/// Returns the address of the page about a rule of the library; `None` if the build names none.
pub(crate) fn page(id: &str) -> Option<String> {
    DOCUMENTATION.map(|base| format!("{}/rules/{id}.html", base.trim_end_matches('/')))
}

/// Returns the names of all parts, sorted: packages and their common prefixes.
pub(crate) fn parts() -> Vec<String> {
    let packages = policies().filter(|file| !file.is_in(SHARED)).map(BuiltinFile::package);
    let names = packages.flat_map(|package| {
        let ends: Vec<usize> = package.match_indices('.').map(|(dot, _)| dot).chain([package.len()]).collect();
        ends.into_iter().map(|end| package[..end].to_owned()).collect::<Vec<_>>()
    });
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the part whose package has the rule with an id; that of a package that is off by default is `practices`.
pub(crate) fn part_with_rule(id: &str) -> Option<String> {
    let is_id = |line: &str| line.strip_prefix("#   id: ").is_some_and(|own| own == id);
    let file = policies().find(|file| file.text.lines().any(is_id))?;
    Some(if file.is_default() { file.package() } else { PRACTICES.to_owned() })
}

/// Returns a part, or the library if the name is empty, as written on the command line.
pub(crate) fn named(part: &str) -> String {
    if part.is_empty() { NAME.to_owned() } else { format!("{NAME}:{part}") }
}

/// Returns a hint for an unknown part name: the nearest part, and all parts.
pub(crate) fn suggestion(name: &str) -> String {
    let (parts, end) = (parts(), format!(".{name}"));
    let last = parts.iter().find(|part| part.ends_with(&end)).map(String::as_str);
    let near = last.or_else(|| nearest(name, parts.iter().map(String::as_str)));
    let near = near.map_or_else(String::new, |near| format!("did you mean {NAME}:{near}? "));
    format!("{near}the parts are {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        judge::{load_options::LoadOptions, profile::Profile, set::PolicySet, sources::FileSource},
        model::verdict::Severity,
    };

    fn paths(part: &str) -> Vec<&'static str> {
        super::part(part).iter().map(|file| file.path).collect()
    }

    #[test]
    fn every_policy_file_except_tests_is_embedded() {
        fn below(folder: &Path, root: &Path, found: &mut BTreeSet<String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                if path.is_dir() {
                    below(&path, root, found);
                } else if path.extension().is_some_and(|end| end == "rego") && !name.ends_with("_test.rego") {
                    found.insert(name);
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
        let mut there = BTreeSet::new();
        below(&root, &root, &mut there);
        assert_eq!(policies().map(|file| file.path.to_owned()).collect::<Vec<_>>(), Vec::from_iter(there));
        for file in FILES {
            assert_eq!(file.text, fs::read_to_string(root.join(file.path)).unwrap(), "{}", file.path);
        }
        for file in policies() {
            assert!(file.text.contains(&format!("\npackage {}\n", file.package())), "{}", file.path);
        }
    }

    #[test]
    fn practices_are_off_by_default_and_part_of_the_strict_profile() {
        let loaded = |part: &str, profile: Profile| {
            let options = LoadOptions { profile, ..LoadOptions::default() };
            let set = PolicySet::load_with(&[FileSource::Builtin(part.to_owned())], &options).unwrap();
            assert!(set.problems.is_empty(), "{part}: {:?}", set.problems);
            set.policies.iter().map(|policy| policy.name.to_string()).collect::<BTreeSet<_>>()
        };
        let default = loaded("", Profile::Default);
        let practices: BTreeSet<_> =
            policies().filter(|file| file.is_in(PRACTICES)).map(BuiltinFile::package).collect();
        assert!(default.is_disjoint(&practices) && default.contains("rbac"));
        assert_eq!(loaded("", Profile::Strict), &default | &practices);
        assert_eq!(loaded("rbac", Profile::Strict), ["rbac".to_owned()].into());
        assert_eq!(loaded(PRACTICES, Profile::Default), practices);
    }

    #[test]
    fn the_minimal_profile_has_the_critical_and_high_rules() {
        let rules = |profile: Profile| {
            let options = LoadOptions { profile, ..LoadOptions::default() };
            let set = PolicySet::load_with(&[FileSource::builtin()], &options).unwrap();
            let rules = set.policies.iter().flat_map(|policy| &policy.rules);
            let severe = rules.clone().filter(|rule| rule.metadata.severity <= Some(Severity::High)).count();
            (rules.count(), severe, set.rule_changes.unselected.len())
        };
        let (all, severe, none) = rules(Profile::Default);
        assert_eq!((rules(Profile::Minimal), none), ((severe, severe, all - severe), 0));
    }

    /// A result has the annotations of the definition that it comes from, so each definition needs those of its rule.
    #[test]
    fn each_definition_of_a_rule_has_its_id_title_and_severity() {
        let options = LoadOptions { profile: Profile::Strict, ..LoadOptions::default() };
        let set = PolicySet::load_with(&[FileSource::builtin()], &options).unwrap();
        let mut with_several = 0;
        for entrypoint in set.units.iter().flat_map(|unit| &unit.groups).flat_map(|group| &group.entrypoints) {
            let metadata = &entrypoint.rule.metadata;
            assert!(metadata.info.id.is_some(), "{entrypoint:?}");
            with_several += usize::from(entrypoint.definitions.len() > 1);
            for definition in &entrypoint.definitions {
                assert_eq!(definition.metadata.info, metadata.info, "{definition:?}");
                assert_eq!(definition.metadata.severity, metadata.severity, "{definition:?}");
            }
        }
        assert!(with_several > 0);
    }

    #[test]
    fn a_part_includes_only_the_packages_that_it_uses() {
        assert_eq!(paths("services"), ["services.rego"]);
        assert_eq!(paths("pod_security.baseline").last(), Some(&"pod_security/baseline.rego"));
        let both = ["lib/pod_security.rego", "lib/workload.rego"].map(str::to_owned);
        let both: Vec<_> = both.iter().map(String::as_str).chain(["pod_security/baseline.rego"]).collect();
        assert_eq!(paths("pod_security.baseline"), both);
        assert_eq!(paths("pod_security").len(), both.len() + 1);
        assert_eq!(paths("").len(), policies().filter(|file| file.is_default()).count());
        for nothing in ["lib", "lib.workload", "pod", "pod_security.", "images.rego", "Images"] {
            assert!(paths(nothing).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn every_rule_is_found_by_its_id() {
        let options = LoadOptions { profile: Profile::Strict, ..LoadOptions::default() };
        let set = PolicySet::load_with(&[FileSource::builtin()], &options).unwrap();
        for policy in &set.policies {
            for rule in &policy.rules {
                let id = rule.metadata.info.id.as_deref().unwrap();
                let part = part_with_rule(id).unwrap_or_else(|| panic!("{id} is in no part"));
                assert!(format!("{}.", policy.name).starts_with(&format!("{part}.")), "{id} is in {part}");
            }
        }
        assert_eq!(part_with_rule("IMG-03").as_deref(), Some(PRACTICES));
        assert_eq!(part_with_rule("IMG-0"), None);
    }

    #[test]
    fn every_part_is_complete() {
        for part in parts() {
            let set = PolicySet::load(&[FileSource::Builtin(part.clone())]).unwrap();
            assert!(set.problems.is_empty(), "{part}: {:?}", set.problems);
            let other =
                set.policies.iter().find(|policy| !format!("{}.", policy.name).starts_with(&format!("{part}.")));
            assert!(other.is_none(), "{part} brings {}", other.unwrap().name);
        }
    }
}
