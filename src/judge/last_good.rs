//! The last valid version of policies that are read as cluster objects: it stays in force if the new version is
//! invalid.
//!
//! A directory is loaded as a whole, so one invalid file keeps all its old files in force. Cluster objects have
//! different owners, so each is kept separately. A bundle is published as a whole and kept as a whole.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    bundle::{Bundle, Edition},
    load_options::LoadOptions,
    set::PolicySet,
    sources::{FileSource, FileTree, TreeFile},
};
use crate::rego::{LoadError, Problem};

/// The number of attempts to load with older files: an older file may conflict with new ones and be refused as well.
const ATTEMPTS: usize = 4;

/// The last valid version of each file and bundle.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastGood {
    /// The contents of files, by name.
    files: BTreeMap<String, Arc<[u8]>>,
    /// Bundles, by reference.
    bundles: BTreeMap<Arc<str>, Arc<Bundle>>,
}

impl LastGood {
    /// Stores the valid files and bundles of `sources`, as the problems of the loaded `policies` show, and removes
    /// deleted ones.
    pub(crate) fn learn(&mut self, sources: &[FileSource], policies: &PolicySet) {
        let refused = policies.refused_files();
        let mut known = std::mem::take(&mut self.bundles);
        for bundle in sources.iter().filter_map(FileSource::bundle) {
            let source = &bundle.edition.source;
            let broken = bundle.tree.files.iter().any(|file| refused.contains_key(&bundle.tree.shown(file)));
            let good = if broken { known.remove(source) } else { Some(Arc::clone(bundle)) };
            self.bundles.extend(good.map(|good| (Arc::clone(source), good)));
        }
        let mut known = std::mem::take(&mut self.files);
        for (tree, file) in files(sources) {
            let shown = tree.shown(file);
            let content = match &file.content {
                Ok(content) if !refused.contains_key(&shown) => Some(content.as_slice().into()),
                _ => known.remove(&*shown),
            };
            self.files.extend(content.map(|content| (shown.to_string(), content)));
        }
    }

    /// Loads policies that may replace `before`; the problems of the set name the files whose last valid version is
    /// used.
    ///
    /// # Errors
    /// See [`PolicySet::after`].
    pub(crate) fn load(
        &self,
        sources: &[FileSource],
        options: &LoadOptions,
        before: &PolicySet,
    ) -> Result<PolicySet, LoadError> {
        let (mut sources, mut replaced) = (sources.to_vec(), Vec::new());
        let mut attempts = 0..ATTEMPTS;
        loop {
            let loaded = PolicySet::load_after(&sources, options, &before.package_owners);
            let problems = match &loaded {
                Ok(policies) => &policies.problems,
                Err(error) => &error.problems,
            };
            if attempts.next().is_none() || !self.replace(&mut sources, problems, &mut replaced) {
                let mut policies = loaded?.after(before)?;
                policies.problems.extend(replaced);
                policies.problems.sort();
                return Ok(policies);
            }
        }
    }

    /// Replaces refused files by their last valid version; returns whether any was replaced.
    fn replace(&self, sources: &mut [FileSource], problems: &[Problem], replaced: &mut Vec<Problem>) -> bool {
        let count = replaced.len();
        for source in sources.iter_mut() {
            if let Some((older, problem)) = source.bundle().and_then(|bundle| self.older(bundle, problems)) {
                replaced.push(problem);
                *source = FileSource::Bundle(Arc::new(older));
                continue;
            }
            let Some(tree) = source.tree() else { continue };
            let repair = |(index, file): (usize, &TreeFile)| {
                let shown = tree.shown(file);
                let problem = problems.iter().find(|problem| problem.is_refusal() && problem.file == shown)?;
                let good = self.files.get(&*shown).filter(|good| file.content.as_deref().ok() != Some(&good[..]))?;
                Some((index, problem, good))
            };
            let repairs: Vec<_> = tree.files.iter().enumerate().filter_map(repair).collect();
            if repairs.is_empty() {
                continue;
            }
            let mut files = tree.files.clone();
            for (index, problem, good) in repairs {
                files[index].content = Ok(good.to_vec());
                let message = format!("{}; its last valid version stays in force", problem.message);
                replaced.push(Problem { message, ..problem.clone() });
            }
            *source = FileSource::Tree(Arc::new(FileTree { name: Arc::clone(&tree.name), files }));
        }
        replaced.len() > count
    }

    /// Returns the last valid version of a refused bundle, and the problem to report.
    fn older(&self, bundle: &Bundle, problems: &[Problem]) -> Option<(Bundle, Problem)> {
        let tree = &bundle.tree;
        let names = || tree.files.iter().map(|file| tree.shown(file)).chain([Arc::clone(&bundle.edition.source)]);
        let refused = |problem: &&Problem| problem.is_refusal() && names().any(|name| name == problem.file);
        let problem = problems.iter().find(refused)?;
        let good = self.bundles.get(&bundle.edition.source).filter(|good| good.tree != *tree)?;
        let message = format!(
            "{}; the last valid version of the bundle stays in force, {}",
            problem.message, good.edition.digest
        );
        let stale = format!("{} is refused: {}: {}", bundle.edition.digest, problem.place(), problem.message);
        let edition = Edition { stale, ..good.edition.clone() };
        let older = Bundle { edition, problem: None, ..Bundle::clone(good) };
        Some((older, Problem { message, ..problem.clone() }))
    }
}

fn files(sources: &[FileSource]) -> impl Iterator<Item = (&FileTree, &TreeFile)> {
    let trees = sources.iter().filter_map(FileSource::tree);
    trees.flat_map(|tree| tree.files.iter().map(move |file| (&**tree, file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::sources::CONFIG_MAPS;

    fn tree(files: &[(&str, &str)]) -> Vec<FileSource> {
        let file = |(name, text): &(&str, &str)| TreeFile {
            path: vec![(*name).to_owned()],
            content: Ok(text.as_bytes().to_vec()),
        };
        let files = files.iter().map(file).collect();
        vec![FileSource::Tree(Arc::new(FileTree { name: "cluster".into(), files }))]
    }

    fn names(policies: &PolicySet) -> Vec<&str> {
        policies.policies.iter().map(|policy| &*policy.name).collect()
    }

    #[test]
    fn the_last_valid_version_of_each_file_stays_in_force() {
        let options = LoadOptions::allowing_refused();
        let (a, b) = ("package a\n\ndeny contains \"a\"\n", "package b\n\ndeny contains \"b\"\n");
        let mut last_good = LastGood::default();
        let mut in_force = PolicySet::load_with(&tree(&[("a.rego", a), ("b.rego", b)]), &options).unwrap();
        last_good.learn(&tree(&[("a.rego", a), ("b.rego", b)]), &in_force);
        let mut reload = |files: &[(&str, &str)]| {
            let sources = tree(files);
            in_force = last_good.load(&sources, &options, &in_force)?;
            last_good.learn(&sources, &in_force);
            let refused: Vec<String> = in_force.refused().map(ToString::to_string).collect();
            Ok::<_, LoadError>((names(&in_force).join(" "), refused.join("\n")))
        };
        // Twice: the last valid version of a refused file is kept.
        for _ in 0..2 {
            let (policies, refused) = reload(&[("a.rego", "package a\n\ndeny["), ("b.rego", b)]).unwrap();
            assert_eq!(policies, "a b");
            assert!(
                refused.contains("cluster/a.rego:3") && refused.contains("its last valid version stays in force"),
                "{refused}"
            );
        }
        // A file that was never valid has no rules in force, and does not affect other files.
        let (policies, refused) = reload(&[("a.rego", a), ("b.rego", b), ("c.rego", "package c\n\ndeny[")]).unwrap();
        assert_eq!(policies, "a b");
        assert!(refused.contains("cluster/c.rego:3") && !refused.contains("a.rego"), "{refused}");
        // A deleted file is forgotten.
        assert_eq!(reload(&[("b.rego", b)]).unwrap(), ("b".to_owned(), String::new()));
        assert_eq!(reload(&[("a.rego", "package a\n\ndeny["), ("b.rego", b)]).unwrap().0, "b");
        // If all are deleted or invalid, no policy is in force, and that is reported.
        let (policies, refused) = reload(&[]).unwrap();
        assert_eq!(policies, "");
        assert!(refused.contains("cluster: no rule"), "{refused}");
        let (policies, refused) = reload(&[("c.rego", "package c\n\ndeny[")]).unwrap();
        assert_eq!(policies, "");
        assert!(refused.contains("cluster/c.rego:3") && !refused.contains("no rule"), "{refused}");
        assert_eq!(reload(&[("a.rego", a)]).unwrap(), ("a".to_owned(), String::new()));
    }

    #[test]
    fn a_change_cannot_claim_a_package_that_is_in_force() {
        let options = LoadOptions::allowing_refused();
        let module = |package: &str, word: &str| format!("package {package}\n\ndeny contains \"{word}\"\n");
        // Ordered by age.
        let sources = |maps: &[(&str, &[(&str, String)])]| -> Vec<FileSource> {
            let source = |(map, files): &(&str, &[(&str, String)])| {
                let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
                let [FileSource::Tree(tree)] = &tree(&files)[..] else { unreachable!() };
                let name = format!("{CONFIG_MAPS}/policies/{map}").into();
                FileSource::Tree(Arc::new(FileTree { name, ..FileTree::clone(tree) }))
            };
            maps.iter().map(source).collect()
        };
        let [older, younger] = [("main.rego", module("a", "older")), ("main.rego", module("b", "younger"))];
        let before = sources(&[("older", std::slice::from_ref(&older)), ("younger", std::slice::from_ref(&younger))]);
        for claim in [
            // Instead of the previous package, and in addition to it.
            vec![("main.rego", module("b", "claimed"))],
            vec![older.clone(), ("more.rego", module("b", "claimed"))],
        ] {
            let mut last_good = LastGood::default();
            let mut in_force = PolicySet::load_with(&before, &options).unwrap();
            last_good.learn(&before, &in_force);
            // Other changes take effect.
            let third: &[_] = &[("main.rego", module("c", "third"))];
            let after = sources(&[("older", &claim), ("younger", std::slice::from_ref(&younger)), ("third", third)]);
            // Twice: the last valid version of a refused file is kept.
            for _ in 0..2 {
                in_force = last_good.load(&after, &options, &in_force).unwrap();
                last_good.learn(&after, &in_force);
                let refused: Vec<String> = in_force.refused().map(ToString::to_string).collect();
                assert!(refused.iter().all(|problem| problem.contains("/policies/older/")), "{refused:?}");
                assert!(
                    refused[0].contains("package b belongs to cluster:configmaps/policies/younger,"),
                    "{refused:?}"
                );
                assert_eq!(names(&in_force), ["a", "b", "c"]);
                let b = in_force.policies.iter().find(|policy| *policy.name == *"b").unwrap();
                assert!(b.rules[0].source.file.contains("younger"), "{:?}", b.rules[0].source);
            }
        }
    }

    #[test]
    fn the_problems_of_all_replaced_files_are_reported_after_the_last_attempt() {
        let options = LoadOptions::allowing_refused();
        let sources = |text: &dyn Fn(usize) -> String| -> Vec<FileSource> {
            let source = |number: usize| {
                let [FileSource::Tree(tree)] = &tree(&[("main.rego", text(number).as_str())])[..] else {
                    unreachable!()
                };
                let name = format!("{CONFIG_MAPS}/policies/{number}").into();
                FileSource::Tree(Arc::new(FileTree { name, ..FileTree::clone(tree) }))
            };
            (0..ATTEMPTS).map(source).collect()
        };
        let module = |number: usize| format!("package p{number}\n\ndeny contains \"x\"\n");
        // Each claims the package of the one before, which gets it back in the next attempt.
        let claim = |number: usize| match number.checked_sub(1) {
            Some(other) => module(other).replace('x', "claimed"),
            None => "package broken\n\ndeny[".to_owned(),
        };
        let (before, after) = (sources(&module), sources(&claim));
        let in_force = PolicySet::load_with(&before, &options).unwrap();
        let mut last_good = LastGood::default();
        last_good.learn(&before, &in_force);
        let in_force = last_good.load(&after, &options, &in_force).unwrap();
        let refused: Vec<String> = in_force.refused().map(ToString::to_string).collect();
        assert_eq!(refused.len(), ATTEMPTS, "{refused:#?}");
        assert_eq!(names(&in_force), ["p0", "p1", "p2", "p3"], "{refused:#?}");
    }

    #[test]
    fn a_directory_without_a_rule_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let loaded = PolicySet::load_followed(&[directory.path().to_owned()], &LoadOptions::default());
        assert!(loaded.unwrap_err().to_string().contains("no rule"));
    }

    fn bundle(digest: &str, files: &[(&str, &str)]) -> Vec<FileSource> {
        let [FileSource::Tree(tree)] = &tree(files)[..] else { unreachable!() };
        let edition = Edition { digest: digest.to_owned(), ..Edition::sample("cluster") };
        let (tree, versions) = (FileTree::clone(tree), BTreeMap::new());
        vec![FileSource::Bundle(Arc::new(Bundle { tree, edition, roots: None, versions, problem: None }))]
    }

    #[test]
    fn a_refused_bundle_is_replaced_as_a_whole() {
        let options = LoadOptions::allowing_refused();
        let (a, b) = ("package a\n\ndeny contains \"a\"\n", "package b\n\ndeny contains \"b\"\n");
        let mut last_good = LastGood::default();
        let mut in_force = PolicySet::load_with(&bundle("1", &[("a.rego", a)]), &options).unwrap();
        last_good.learn(&bundle("1", &[("a.rego", a)]), &in_force);
        let mut reload = |digest: &str, files: &[(&str, &str)]| {
            let sources = bundle(digest, files);
            in_force = last_good.load(&sources, &options, &in_force).unwrap();
            last_good.learn(&sources, &in_force);
            let stale = in_force.bundles[0].stale.clone();
            (names(&in_force).join(" "), in_force.bundles[0].digest.clone(), stale)
        };
        // New files in a refused bundle have no effect, either.
        for _ in 0..2 {
            let (policies, digest, stale) = reload("2", &[("b.rego", b), ("c.rego", "package c\n\ndeny[")]);
            assert_eq!((&*policies, &*digest), ("a", "1"));
            assert!(stale.contains("2 is refused: cluster/c.rego:3"), "{stale}");
        }
        assert_eq!(reload("3", &[("b.rego", b)]), ("b".to_owned(), "3".to_owned(), String::new()));
    }
}
