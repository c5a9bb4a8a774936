//! Modules and data that were loaded and checked together, and rules, queries and traces prepared from them.

use regorus::Value;

use super::{
    check::Checked,
    compile::{self, Compiled, Fault},
    data::{self, Data},
    evaluator::{Evaluator, Failure},
    file::{File, Form},
    graph::Graph,
    limits::Limits,
    missing::Missing,
    problem::{LoadError, Problem},
    program::{RuleId, SourceLocation},
    references::{Node, Path},
    syntax::{self, LongBodies, Module, Position},
    trace::{ModuleUses, TracedBranch, Tracer},
    value,
};

/// The package of a query; it is hidden from other modules.
const QUERY_PACKAGE: &str = "kaudit_query";
/// The lines of a query's module before the query itself.
const LINES_BEFORE_QUERY: u32 = 3;

/// Modules and data that were loaded and checked together.
pub struct Policies {
    /// The files of the modules, in the same order.
    files: Vec<File>,
    modules: Vec<Module>,
    nodes: Vec<Node>,
    compiled: Compiled,
    data: Value,
    limits: Limits,
    warnings: Vec<Problem>,
}

/// A query that is ready to be evaluated.
#[derive(Debug, Clone)]
pub struct Query {
    evaluator: Evaluator,
    rule: RuleId,
}

impl Policies {
    /// Parses and checks files that are evaluated together: modules, and JSON or YAML for `data`.
    ///
    /// # Errors
    /// Returns all problems with their locations: what OPA refuses, and unsupported features.
    pub fn load(files: Vec<File>, limits: &Limits) -> Result<Self, LoadError> {
        let mut problems = Vec::new();
        let (files, data_files): (Vec<File>, Vec<File>) = files.into_iter().partition(|file| file.form == Form::Rego);
        let data = read_data(&data_files, &mut problems);
        let modules = read_modules(&files);
        let (readable, sources): (Vec<&File>, Vec<&Module>) =
            files.iter().zip(&modules).filter_map(|(file, module)| Some((file, module.as_ref().ok()?))).unzip();
        let missing = Missing::default();
        let resolved = compile::resolve(&sources, missing.rules());
        let nodes = resolved.nodes(&sources);
        let compiled = resolved.compile();
        let fault = |fault: &Fault| fault.problem(readable[fault.module]);
        problems.extend(compiled.as_ref().err().into_iter().flatten().map(fault));
        // If a module is refused, further checks would only report consequences.
        if problems.is_empty() || sources.len() < files.len() {
            let unreadable = files.iter().zip(&modules).filter_map(|(file, read)| Some((file, read.as_ref().err()?)));
            problems.extend(unreadable.map(|(file, error)| Problem::unreadable(file, error)));
        }
        let Ok(compiled) = compiled else { return Err(LoadError::new(problems)) };
        if !problems.is_empty() {
            return Err(LoadError::new(problems));
        }
        problems.extend(check(&readable, &sources, &nodes, (&data, &missing, limits)));
        let data = value::from_tree(data.document.into());
        let data = data.map_err(|why| LoadError::new(vec![Problem::refused(&"data".into(), why.to_string())]))?;
        if problems.iter().any(Problem::is_refusal) {
            return Err(LoadError::new(problems));
        }
        let modules = modules.into_iter().filter_map(Result::ok).collect();
        Ok(Self { files, modules, nodes, compiled, data, limits: *limits, warnings: problems })
    }

    /// Returns problems that do not prevent loading, for example a call of an unsupported builtin in an unused rule.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Prepares the rules at these paths below `data`, and all rules that they depend on: `["shop", "deny"]` is
    /// `data.shop.deny`. A path may also be that of a package.
    ///
    /// # Errors
    /// Returns the rules that cannot be evaluated, and the paths without a rule.
    pub fn prepare(&self, rules: &[Path]) -> Result<Evaluator, LoadError> {
        let packages: Vec<Path> = self.modules.iter().map(Module::package_path).collect();
        let exists = |path: &Path| {
            packages.iter().any(|package| package.starts_with(path))
                || self.nodes.iter().any(|node| node.path.starts_with(path) || path.starts_with(&node.path))
        };
        let unknown = rules.iter().filter(|path| !exists(path));
        let unknown: Vec<Problem> = unknown
            .map(|path| Problem::refused(&"query".into(), format!("unknown rule data.{}", path.join("."))))
            .collect();
        if !unknown.is_empty() {
            return Err(LoadError::new(unknown));
        }
        let names = self.files.iter().map(|file| file.shown.clone()).collect();
        let program = self.compiled.plan(rules.iter()).with_files(names);
        let problems = program.unsupported(&self.files.iter().collect::<Vec<_>>());
        if problems.is_empty() {
            Ok(Evaluator::new(program, self.data.clone(), &self.limits))
        } else {
            Err(LoadError::new(problems))
        }
    }

    /// Prepares a query in Rego v1, for example `data.shop.deny[message]; startswith(message, "image")`. Its solutions
    /// contain the values of the given variables, all of which the query must bind.
    ///
    /// # Errors
    /// Returns the problems of the query; their file is `query`.
    pub fn query(&self, text: &str, variables: &[&str]) -> Result<Query, LoadError> {
        let file = File::new("query".into(), Form::Rego, text.to_owned());
        let bindings: Vec<String> = variables.iter().map(|name| format!("\"{name}\": {name}")).collect();
        let bindings = bindings.join(", ");
        let module = format!("package {QUERY_PACKAGE}\n\nsolutions := [{{{bindings}}} |\n{text}\n]\n");
        let one = |problem| LoadError::new(vec![problem]);
        let module = syntax::read(&module, None).map_err(|error| {
            let problem = in_query(&file, error.at, &error.why);
            one(problem.help(error.help.unwrap_or_default()))
        })?;
        let modules: Vec<&Module> = self.modules.iter().chain([&module]).collect();
        let compiled = compile::compile(&modules, std::iter::empty());
        let compiled = compiled.map_err(|faults| {
            let own = faults.iter().filter(|fault| fault.module == self.modules.len());
            LoadError::new(own.map(|fault| in_query(&file, fault.at, &fault.message).help(fault.help)).collect())
        })?;
        let path = vec![QUERY_PACKAGE.to_owned(), "solutions".to_owned()];
        let names = self.files.iter().chain([&file]).map(|file| file.shown.clone()).collect();
        let program = compiled.plan_query(QUERY_PACKAGE, &path).with_files(names);
        let rule = match program.entries.get(&path) {
            Some(Ok(rule)) => *rule,
            Some(Err(why)) => return Err(one(in_query(&file, why.at.at, &why.reason))),
            None => return Err(one(Problem::refused(&file.shown, "the query was not planned"))),
        };
        Ok(Query { evaluator: Evaluator::new(program, self.data.clone(), &self.limits), rule })
    }

    /// Traces the definitions of the rule at a path below `data`: how far evaluation of each body gets for an input,
    /// and the intermediate values. Functions have no trace, as they cannot be evaluated by themselves.
    pub fn trace(&self, rule: &[String], input: &Value) -> Vec<TracedBranch> {
        let uses = ModuleUses::new(&self.modules.iter().collect::<Vec<_>>(), &self.nodes);
        let Ok(evaluator) = self.prepare(&[]) else { return Vec::new() };
        let tracer = Tracer { files: &self.files, modules: &self.modules, uses: &uses, evaluator: &evaluator, input };
        let at = |node: &Node| Position { line: node.line, column: node.column };
        let definitions = self.nodes.iter().filter(|node| node.path == rule);
        let places = definitions.map(|node| SourceLocation { module: node.module, at: at(node) });
        places.flat_map(|place| tracer.trace(place)).flatten().collect()
    }
}

impl Query {
    /// Evaluates the query; returns an object for each solution, with the values of the variables. Without an input,
    /// pass `Value::Undefined`.
    ///
    /// # Errors
    /// Returns the error that ended the evaluation, or the limit that it exceeded.
    pub fn solutions(&self, input: &Value) -> Result<Vec<Value>, Failure> {
        let answers = self.evaluator.run(input, std::iter::once(self.rule))?;
        let solutions = answers.iter().filter_map(|answer| value::array(&answer.value));
        Ok(solutions.flat_map(|solutions| solutions.iter().cloned()).collect())
    }
}

/// Parses data files into one document.
fn read_data(files: &[File], problems: &mut Vec<Problem>) -> Data {
    let mut data = Data::default();
    for file in files {
        match data::documents(file) {
            Ok(documents) => documents.into_iter().for_each(|document| data.insert(file, document, problems)),
            Err(problem) => problems.push(problem),
        }
    }
    data
}

fn read_modules(files: &[File]) -> Vec<Result<Module, syntax::SyntaxError>> {
    let mut long_bodies = LongBodies::default();
    let read = |file: &File| {
        let mut module = syntax::read(&file.text, file.version())?;
        long_bodies.add(&mut module)?;
        Ok(module)
    };
    files.iter().map(read).collect()
}

/// Returns the problems that OPA's compiler does not report.
fn check(
    files: &[&File],
    modules: &[&Module],
    nodes: &[Node],
    (data, missing, limits): (&Data, &Missing, &Limits),
) -> Vec<Problem> {
    let graph = &Graph::new(nodes);
    // A query may refer to every rule.
    let entries = &nodes.iter().map(|node| node.path.clone()).collect();
    let companion = |_: &Path, _: &str| None;
    Checked { files, modules, nodes, graph, data, missing, entries, tests: false, companion, limits }.problems()
}

/// Returns a problem of a query, whose module has additional lines before it.
fn in_query(file: &File, at: Position, message: &str) -> Problem {
    let problem = Problem::refused(&file.shown, message);
    match at.line.checked_sub(LINES_BEFORE_QUERY) {
        Some(line) if line > 0 => problem.at(&file.text, line, at.column),
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rules_are_named_in_the_error() {
        let modules = [("a.rego", "package a.b\n\np.q := 1\n"), ("empty.rego", "package empty\n")];
        let modules = modules.map(|(name, text)| File::new(name.into(), Form::Rego, text.to_owned()));
        let policies = Policies::load(modules.into(), &Limits::default()).unwrap();
        let prepared = |path: &str| {
            let path: Path = path.split('.').map(str::to_owned).collect();
            policies.prepare(&[path]).map(drop).map_err(|error| error.to_string())
        };
        for path in ["a", "a.b", "a.b.p", "a.b.p.q", "empty"] {
            assert_eq!(prepared(path), Ok(()), "{path}");
        }
        for path in ["b", "a.c", "a.b.q"] {
            assert!(prepared(path).unwrap_err().contains(&format!("unknown rule data.{path}")), "{path}");
        }
    }
}
