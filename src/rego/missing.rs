//! What is missing because a file was refused: the rest must not be judged as if it had never been there.
//!
//! A rule that uses another one which was left out would come out undefined, and `not allowed` true: a wrong verdict in
//! silence. So whatever uses something missing is left out too, with the reason.

use std::{collections::BTreeSet, sync::Arc};

use regorus::unstable::{Module, Ref};

use super::{
    data::Data,
    file::{File, Form},
    graph::Graph,
    problem::Problem,
    references::{Node, Path, package},
};

/// Returns, for a package and one of its rules, the rule of the package that is always evaluated together with it.
pub(crate) type Companion = fn(&Path, &str) -> Option<&'static str>;

/// What refused files would have defined.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// Rules that are known to be missing, and the file they are in.
    rules: Vec<(Path, Arc<str>)>,
    /// Places below which anything may be missing: all that is known of files that could not be read or parsed.
    below: Vec<(Path, Arc<str>)>,
}

impl Missing {
    /// Whether anything is missing.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.below.is_empty()
    }

    /// Adds a file that could not be read.
    pub(crate) fn unread(&mut self, shown: &Arc<str>) {
        self.below.push((Vec::new(), Arc::clone(shown)));
    }

    /// Adds a file that cannot be understood: data below its directory, or what the lines of a module seem to define.
    pub(crate) fn unparsed(&mut self, file: &File) {
        if file.form != Form::Rego {
            self.below.push((file.directories.clone(), Arc::clone(&file.shown)));
            return;
        }
        let Some(package) = package_of(&file.text) else { return };
        let rule = |name: &str| {
            (package.iter().map(String::as_str).chain([name]).map(str::to_owned).collect(), Arc::clone(&file.shown))
        };
        self.rules.extend(names(&file.text).into_iter().map(rule));
        self.below.push((package, Arc::clone(&file.shown)));
    }

    /// Adds a module that parses: its rules.
    pub(crate) fn module<'n>(&mut self, file: &File, nodes: impl Iterator<Item = &'n Node>) {
        self.rules.extend(nodes.map(|node| (node.path.clone(), Arc::clone(&file.shown))));
    }

    /// Returns the rules that are known to be missing.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Path> {
        self.rules.iter().map(|(path, _)| path)
    }

    /// Returns the file that would define what is at a path, or a part of it, if that is missing.
    pub(crate) fn at(&self, path: &[String], graph: &Graph<'_>, data: &Data) -> Option<&Arc<str>> {
        let rule = self.rules.iter().find(|(rule, _)| rule.starts_with(path) || path.starts_with(rule));
        let place = || {
            self.below.iter().filter(|_| !data.is_external(path)).find(|(below, _)| {
                let found = || !graph.covered(path).is_empty() || data.has(path);
                below.starts_with(path) || (path.starts_with(below) && !found())
            })
        };
        rule.or_else(place).map(|(_, file)| file)
    }

    /// Returns one problem for each file with a rule that uses something missing.
    pub(crate) fn users(
        &self,
        files: &[&File],
        modules: &[Ref<Module>],
        nodes: &[Node],
        graph: &Graph<'_>,
        data: &Data,
        companion: Companion,
    ) -> Vec<Problem> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut reported = BTreeSet::new();
        let mut problems = Vec::new();
        for node in nodes {
            let package = package(&modules[node.module]);
            if reported.contains(&node.module) || node.is_test(package.len()) {
                continue;
            }
            let used = node.uses.iter().find_map(|path| Some((path.clone(), self.at(path, graph, data)?)));
            let Some((path, missing)) = used.or_else(|| self.unnamed(node, &package, companion)) else { continue };
            reported.insert(node.module);
            let file = files[node.module];
            let name = node.path.get(package.len()).map_or("", String::as_str);
            let path = path.join(".");
            let message = format!("left out: {name} uses data.{path} of {missing}, which is not loaded");
            problems.push(Problem::left_out(&file.shown, message).at(&file.text, node.line, node.column));
        }
        problems
    }

    /// A rule that is evaluated with another one is used by it, without being named.
    fn unnamed(&self, node: &Node, package: &Path, companion: Companion) -> Option<(Path, &Arc<str>)> {
        let name = companion(package, node.path.get(package.len())?)?;
        let path: Path = package.iter().cloned().chain([name.to_owned()]).collect();
        let (_, file) = self.rules.iter().find(|(rule, _)| *rule == path)?;
        Some((path, file))
    }
}

/// Returns the number of the line, from 0, in which a text declares its package, and what follows the keyword.
pub(crate) fn package_line(text: &str) -> Option<(usize, &str)> {
    text.lines().enumerate().find_map(|(number, line)| {
        let rest = line.trim_start().strip_prefix("package")?;
        rest.starts_with([' ', '\t']).then_some((number, rest))
    })
}

/// Returns the package that a text declares.
pub(crate) fn package_of(text: &str) -> Option<Path> {
    let (_, line) = package_line(text)?;
    let path = line.split(['#', ';']).next()?.trim().replace("[\"", ".").replace("\"]", "");
    Some(path.split('.').map(str::to_owned).collect())
}

/// Returns what the lines of a module seem to define: the names at the beginning of lines. Bodies are indented.
pub(crate) fn names(text: &str) -> BTreeSet<&str> {
    const NO_NAMES: [&str; 8] = ["package", "import", "else", "not", "some", "every", "if", "default"];
    let lines = text.lines().map(|line| line.strip_prefix("default ").map_or(line, str::trim_start));
    let name = |line| {
        let end = str::find(line, |c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(line.len());
        &line[..end]
    };
    let is_name =
        |name: &&str| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !NO_NAMES.contains(name);
    lines.map(name).filter(is_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broken_text_defines_is_guessed_from_its_lines() {
        let text = "# of a\npackage a.b[\"c-d\"] # here\nimport data.x\ndefault ok := false\nok if {\n\tmsg := 1\n}\nelse := 2\n\
                    deny[msg] {\n  x\n}\nf(x) := (\n";
        assert_eq!(package_of(text), Some(vec!["a".to_owned(), "b".to_owned(), "c-d".to_owned()]));
        assert_eq!(names(text).into_iter().collect::<Vec<_>>(), ["deny", "f", "ok"]);
        assert_eq!(package_of("deny if x"), None);
    }
}
