//! Checks of modules that parse: recursion, unknown functions, unsupported imports, and rules at the paths of data.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    builtins,
    data::Data,
    file::File,
    graph::{Graph, RuleDepth},
    limits::Limits,
    missing::{Companion, LoadedRules, Missing},
    problem::{Problem, ProblemSeverity},
    references::{Call, Node, Path},
    syntax::Module,
};

/// The input of the checks; `modules` and `files` have the same indices.
pub struct Checked<'a> {
    /// The files of the modules.
    pub files: &'a [&'a File],
    /// The modules, without those that could not be parsed.
    pub modules: &'a [&'a Module],
    /// The references of each definition.
    pub nodes: &'a [Node],
    /// The references between all definitions.
    pub graph: &'a Graph<'a>,
    /// The data files, merged.
    pub data: &'a Data,
    /// The definitions that refused files would have contributed.
    pub missing: &'a Missing,
    /// The rules that are evaluated directly.
    pub entries: &'a BTreeSet<Path>,
    /// Whether tests are evaluated as well.
    pub tests: bool,
    /// Rules that are evaluated together with others, without being referenced by them.
    pub companion: Companion,
    /// The limits on stack and nesting.
    pub limits: &'a Limits,
}

impl Checked<'_> {
    /// Returns all problems.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.imports(&mut problems);
        self.calls(&mut problems);
        self.recursion(&mut problems);
        self.data(&mut problems);
        let Self { files, nodes, graph, data, companion, .. } = *self;
        problems.extend(self.missing.users(&LoadedRules { files, nodes, graph, data, companion }));
        problems
    }

    fn at(&self, node: &Node, message: String) -> Problem {
        let file = self.files[node.module];
        Problem::refused(&file.shown, message).at(&file.text, node.line, node.column)
    }

    fn imports(&self, problems: &mut Vec<Problem>) {
        for (file, module) in self.files.iter().zip(self.modules) {
            for (path, at) in module.imported_paths() {
                let known = ["contains", "every", "if", "in", "not"];
                let wrong = match path.split_once('.') {
                    Some(("rego", rest)) => rest != "v1",
                    Some(("future", rest)) => {
                        rest.strip_prefix("keywords.").is_some_and(|keyword| !known.contains(&keyword))
                    }
                    _ => path == "rego" || path == "data",
                };
                if wrong {
                    let problem = Problem::refused(&file.shown, format!("import {path} is not supported"));
                    let help = match path.as_str() {
                        "future.keywords.and" => "write the two conditions on separate lines",
                        "future.keywords.or" => "write a rule for each of the two, or test a set: `x in {a, b}`",
                        _ => "Rego v1 needs no import; `import rego.v1` and `future.keywords` are accepted",
                    };
                    problems.push(problem.at(&file.text, at.line, at.column).help(help));
                }
            }
        }
    }

    fn calls(&self, problems: &mut Vec<Problem>) {
        let reachable = self.graph.reachable(self.entries.iter().map(Vec::as_slice));
        for node in self.nodes {
            if !self.tests && node.is_test() {
                continue;
            }
            for call in &node.calls {
                if let Some((message, help, exists)) = self.wrong_call(call) {
                    let file = self.files[node.module];
                    let mut problem = Problem::refused(&file.shown, message);
                    // A library may contain more rules than are used.
                    if exists && !reachable.contains(node.path.as_slice()) {
                        problem.severity = ProblemSeverity::Warning;
                    }
                    problems.push(problem.at(&file.text, call.line, call.column).help(help));
                }
            }
        }
    }

    /// Returns the message and help for a call of an unknown or unsupported function, and whether OPA has it.
    fn wrong_call(&self, call: &Call) -> Option<(String, String, bool)> {
        // A rule that calls a refused one is left out, with a problem of its own.
        if call.rule.as_ref().is_some_and(|path| self.missing.at(path, self.graph, self.data).is_some()) {
            return None;
        }
        let is_rule = |path: &Path| self.graph.at(path).next().is_some();
        // Operators are calls of builtins that no module can name.
        let is_builtin = || {
            builtins::exists(&call.name)
                || builtins::declarations::declaration(&call.name).is_some()
                    && builtins::unsupported(&call.name).is_none()
        };
        let known = call.rule.as_ref().is_some_and(is_rule) || call.rule.is_none() && is_builtin();
        (!known).then(|| unknown_function(call))
    }

    fn recursion(&self, problems: &mut Vec<Problem>) {
        let (depths, cycles) = self.graph.depths();
        for cycle in cycles {
            let names: Vec<String> = cycle.iter().chain(cycle.first()).map(|path| name(path)).collect();
            let message = format!("rules may not refer to themselves: {}", names.join(" → "));
            let help = "OPA refuses recursion too; use `walk` or `graph.reachable` for nested values";
            let node = cycle.first().and_then(|path| self.graph.at(path).next());
            problems.extend(node.map(|node| self.at(node, message).help(help)));
        }
        // Reports all at once, as each round of refusals compiles the rest again; of each file only its deepest rule.
        let deepest = |depth: fn(&RuleDepth) -> usize, limit: usize| {
            let mut deepest: BTreeMap<usize, (usize, &Node)> = BTreeMap::new();
            for (path, found) in depths.iter().filter(|(_, found)| depth(found) > limit) {
                for node in self.graph.at(path).take(1) {
                    let kept = deepest.entry(node.module).or_insert((0, node));
                    *kept = if depth(found) >= kept.0 { (depth(found), node) } else { *kept };
                }
            }
            deepest.into_values()
        };
        for (stack, node) in deepest(|depth| depth.stack, self.limits.stack) {
            let (needed, limit) = (stack / 1024, self.limits.stack / 1024);
            let message = format!("{} evaluates too many rules inside one another", name(&node.path));
            let help = format!(
                "it would need {needed} KiB of stack, and the limit is {limit} KiB; make the chain of rules shorter"
            );
            problems.push(self.at(node, message).help(help));
        }
        for (levels, node) in deepest(|depth| depth.levels, self.limits.levels) {
            let message = format!("{} may return a value that is nested too deeply", name(&node.path));
            let help = format!(
                "it could have {levels} levels, and the limit is {}; nest calls of functions that build collections less deeply",
                self.limits.levels
            );
            problems.push(self.at(node, message).help(help));
        }
    }

    /// Reports paths that both data and a rule define.
    fn data(&self, problems: &mut Vec<Problem>) {
        for node in self.nodes {
            if let Some(other) = self.data.conflicting_file(&node.path) {
                let message = format!("{} is also defined as data in {other}", name(&node.path));
                problems.push(self.at(node, message).help("rename one of the two"));
            }
        }
    }
}

/// Returns the message and help for an unknown or unsupported function, and whether OPA has it.
fn unknown_function(call: &Call) -> (String, String, bool) {
    let name = &call.name;
    if let Some(help) = builtins::unsupported(name) {
        return (format!("{name} is not supported"), help, true);
    }
    let help = match builtins::nearest(name) {
        Some(near) => format!("did you mean {near}?"),
        None => "it is neither a builtin nor a function in the loaded files; is a library missing?".to_owned(),
    };
    (format!("unknown function {name}"), help, false)
}

fn name(path: &[String]) -> String {
    format!("data.{}", path.join("."))
}
