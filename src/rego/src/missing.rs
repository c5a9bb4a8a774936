//! Definitions missing because their file was refused: the other files must not be evaluated as if they did not exist.
//!
//! A rule that uses a missing one would be undefined, and `not allowed` true: a wrong result without any error. So
//! everything that uses a missing definition is left out too, with the reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use super::{
    data::Data,
    file::{File, Form},
    graph::Graph,
    problem::Problem,
    references::{Node, Path},
};

/// Returns, for a package and one of its rules, the rule of the package that is always evaluated together with it.
pub(crate) type Companion = fn(&Path, &str) -> Option<&'static str>;

/// The definitions of refused files: each path with the first file that would define it.
#[derive(Debug, Default)]
pub struct Missing {
    /// Rules that are missing.
    rules: BTreeMap<Path, Arc<str>>,
    /// Paths below which anything may be missing, for files that could not be read or parsed.
    below: BTreeMap<Path, Arc<str>>,
}

/// The rules of the loaded modules; `files` and modules have the same indices.
pub struct LoadedRules<'a> {
    /// The files of the modules.
    pub files: &'a [&'a File],
    /// The references of each definition.
    pub nodes: &'a [Node],
    /// The references between all definitions.
    pub graph: &'a Graph<'a>,
    /// The data files, merged.
    pub data: &'a Data,
    /// Rules that are evaluated together with others, without being referenced by them.
    pub companion: Companion,
}

impl Missing {
    /// Whether anything is missing.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.below.is_empty()
    }

    /// Adds a file that could not be read.
    pub fn unread(&mut self, shown: &Arc<str>) {
        self.package(Path::new(), shown);
    }

    /// Adds a package that is left out completely, with one of its files.
    pub fn package(&mut self, package: Path, shown: &Arc<str>) {
        self.below.entry(package).or_insert_with(|| Arc::clone(shown));
    }

    /// Adds a file that cannot be parsed: data below its directory, or the apparent definitions of a module.
    pub fn unparsed(&mut self, file: &File) {
        if file.form != Form::Rego {
            self.package(file.directories.clone(), &file.shown);
            return;
        }
        let Some(package) = package_of(&file.text) else { return };
        for name in names(&file.text) {
            self.rule(package.iter().cloned().chain([name.to_owned()]).collect(), &file.shown);
        }
        self.package(package, &file.shown);
    }

    fn rule(&mut self, path: Path, shown: &Arc<str>) {
        self.rules.entry(path).or_insert_with(|| Arc::clone(shown));
    }

    /// Returns the rules that are missing.
    pub fn rules(&self) -> impl Iterator<Item = &Path> {
        self.rules.keys()
    }

    /// Returns the file that would define the value at a path or a part of it, if that is missing.
    pub fn at(&self, path: &[String], graph: &Graph<'_>, data: &Data) -> Option<&Arc<str>> {
        let rule = first_below(&self.rules, path).or_else(|| first_above(&self.rules, path));
        let place = || {
            let above = || first_above(&self.below, path).filter(|_| graph.covered(path).is_empty() && !data.has(path));
            if data.is_external(path) { None } else { first_below(&self.below, path).or_else(above) }
        };
        rule.or_else(place)
    }

    /// Returns one problem for each file with a rule that uses something missing.
    pub fn users(&self, loaded: &LoadedRules<'_>) -> Vec<Problem> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut reported = BTreeSet::new();
        let problem = |node: &Node| {
            let problem = (!reported.contains(&node.module)).then(|| self.use_by(node, loaded)).flatten()?;
            reported.insert(node.module);
            Some(problem)
        };
        loaded.nodes.iter().filter_map(problem).collect()
    }

    /// Adds the rules of refused modules, of the modules that use them, and so on; returns the indices of all these
    /// modules, and a problem for each file that is left out because of another one.
    pub fn leave_out(&mut self, refused: BTreeSet<usize>, loaded: &LoadedRules<'_>) -> (BTreeSet<usize>, Vec<Problem>) {
        let dependents = RuleUsers::new(loaded);
        let (mut left_out, mut problems) = (BTreeSet::new(), Vec::new());
        let mut next = refused;
        while !next.is_empty() {
            let mut candidates = BTreeSet::new();
            for module in &next {
                for node in dependents.of_module(*module) {
                    let is_first = !self.rules.contains_key(&node.path);
                    self.rule(node.path.clone(), &loaded.files[node.module].shown);
                    if is_first {
                        candidates.extend(dependents.users(&node.path));
                    }
                }
            }
            left_out.append(&mut next);
            for module in candidates.difference(&left_out) {
                let problem = dependents.of_module(*module).find_map(|node| self.use_by(node, loaded));
                if let Some(problem) = problem {
                    problems.push(problem);
                    next.insert(*module);
                }
            }
        }
        (left_out, problems)
    }

    /// Returns the problem of a rule that uses something missing.
    fn use_by(&self, node: &Node, loaded: &LoadedRules<'_>) -> Option<Problem> {
        if node.is_test() {
            return None;
        }
        let package = node.package().to_vec();
        let missing = |path: &Path| Some((path.clone(), self.at(path, loaded.graph, loaded.data)?));
        let used = node.uses.iter().find_map(missing);
        let (path, missing) = used.or_else(|| self.unnamed(node, &package, loaded.companion))?;
        let file = loaded.files[node.module];
        let name = node.name().map_or("", String::as_str);
        let message = format!("left out: {name} uses data.{} of {missing}, which is not loaded", path.join("."));
        Some(Problem::left_out(&file.shown, message).at(&file.text, node.line, node.column))
    }

    /// Returns a missing rule that is evaluated together with this one, which uses it without referring to it.
    fn unnamed(&self, node: &Node, package: &Path, companion: Companion) -> Option<(Path, &Arc<str>)> {
        let name = companion(package, node.path.get(package.len())?)?;
        let path: Path = package.iter().cloned().chain([name.to_owned()]).collect();
        let file = self.rules.get(&path)?;
        Some((path, file))
    }
}

/// The modules that may use a rule.
struct RuleUsers<'a> {
    nodes: Vec<Vec<&'a Node>>,
    users: BTreeMap<&'a [String], BTreeSet<usize>>,
}

impl<'a> RuleUsers<'a> {
    fn new(loaded: &LoadedRules<'a>) -> Self {
        let mut nodes = vec![Vec::new(); loaded.files.len()];
        let mut users: BTreeMap<&[String], BTreeSet<usize>> = BTreeMap::new();
        for node in loaded.nodes {
            nodes[node.module].push(node);
            for used in node.uses.iter().flat_map(|path| loaded.graph.covered(path)) {
                users.entry(used).or_default().insert(node.module);
            }
            let package = node.package().to_vec();
            let companion = node.path.get(package.len()).and_then(|name| (loaded.companion)(&package, name));
            let path: Option<Path> = companion.map(|name| package.into_iter().chain([name.to_owned()]).collect());
            for rule in path.iter().flat_map(|path| loaded.graph.at(path)) {
                users.entry(&rule.path).or_default().insert(node.module);
            }
        }
        Self { nodes, users }
    }

    fn of_module(&self, module: usize) -> impl Iterator<Item = &'a Node> {
        self.nodes[module].iter().copied()
    }

    fn users(&self, rule: &[String]) -> impl Iterator<Item = usize> {
        self.users.get(rule).into_iter().flatten().copied()
    }
}

/// Returns the file of the first path that starts with the given one.
fn first_below<'m>(files: &'m BTreeMap<Path, Arc<str>>, path: &[String]) -> Option<&'m Arc<str>> {
    let from: (Bound<&[String]>, Bound<&[String]>) = (Bound::Included(path), Bound::Unbounded);
    let (first, file) = files.range::<[String], _>(from).next()?;
    first.starts_with(path).then_some(file)
}

/// Returns the file of the shortest path that is a prefix of the given one.
fn first_above<'m>(files: &'m BTreeMap<Path, Arc<str>>, path: &[String]) -> Option<&'m Arc<str>> {
    (0..path.len()).find_map(|length| files.get(&path[..length]))
}

/// Returns the index of the line that declares the package, and the text after the keyword.
pub fn package_line(text: &str) -> Option<(usize, &str)> {
    text.lines().enumerate().find_map(|(index, line)| {
        let rest = line.trim_start().strip_prefix("package")?;
        rest.starts_with([' ', '\t']).then_some((index, rest))
    })
}

/// Returns the package that a module declares.
pub fn package_of(text: &str) -> Option<Path> {
    let (_, line) = package_line(text)?;
    let path = line.split(['#', ';']).next()?.trim().replace("[\"", ".").replace("\"]", "");
    Some(path.split('.').map(str::to_owned).collect())
}

/// Returns the apparent definitions of a module: the names at the beginning of lines. Bodies are indented.
pub fn names(text: &str) -> BTreeSet<&str> {
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
    fn definitions_of_a_broken_module_are_guessed_from_its_lines() {
        let text = "# of a\npackage a.b[\"c-d\"] # here\nimport data.x\ndefault ok := false\nok if {\n\tmsg := 1\n}\nelse := 2\n\
                    deny[msg] {\n  x\n}\nf(x) := (\n";
        assert_eq!(package_of(text), Some(vec!["a".to_owned(), "b".to_owned(), "c-d".to_owned()]));
        assert_eq!(names(text).into_iter().collect::<Vec<_>>(), ["deny", "f", "ok"]);
        assert_eq!(package_of("deny if x"), None);
    }
}
