//! Any query of any modules, as `opa eval` evaluates it: for the comparison with OPA's own cases.

use std::time::Duration;

use regorus::Value;

use super::{
    builtins::budget,
    check::Checked,
    compile,
    data::Data,
    file::{File, Form},
    graph::Graph,
    limits::Limits,
    machine::{self, Bounds, Halt},
    missing::Missing,
    problem::Problem,
    program::{Program, RuleId},
    references::Path,
    syntax, value,
};

/// The package that a query is read in.
const PACKAGE: &str = "kaudit_query";

/// A query with the modules, data and input that it is evaluated on.
#[derive(Debug)]
pub struct Query<'a> {
    /// Texts of modules.
    pub modules: &'a [String],
    /// The `data` document.
    pub data: serde_json::Value,
    /// The input; `Undefined` for none.
    pub input: Value,
    /// The query, in Rego v1.
    pub text: &'a str,
    /// Whether a builtin that fails ends the evaluation.
    pub strict: bool,
}

/// Why a query has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryError {
    /// A module was refused before anything ran.
    Refused(String),
    /// The evaluation ended with an error.
    Failed(String),
}

/// Evaluates a query; returns the values of these variables, once for each solution. The outer error says why no program was
/// made.
///
/// # Errors
/// Returns why the evaluation failed.
pub fn evaluate(query: &Query, variables: &[&str]) -> Result<Result<Vec<Value>, QueryError>, String> {
    let bindings: Vec<String> = variables.iter().map(|name| format!("\"{name}\": {name}")).collect();
    let module = format!("package {PACKAGE}\n\nsolutions := [{{{}}} |\n{}\n]\n", bindings.join(", "), query.text);
    let texts = query.modules.iter().chain([&module]);
    let modules: Vec<_> =
        texts.map(|text| syntax::read(text, None)).collect::<Result<_, _>>().map_err(|why| why.why)?;
    let path = vec![PACKAGE.to_owned(), "solutions".to_owned()];
    let compiled = compile::compile(&modules.iter().collect::<Vec<_>>(), std::iter::empty());
    let program = compiled.map_err(|_| "the modules are refused".to_owned())?.plan_query(PACKAGE, &path);
    let rule = match program.entries.get(&path) {
        Some(Ok(rule)) => *rule,
        Some(Err(why)) => return Err(why.reason.clone()),
        None => return Err("there is no such rule".to_owned()),
    };
    let data = value::from_tree(query.data.clone()).map_err(|why| why.to_string())?;
    let bounds = bounds(&limits(query.strict));
    budget::renew();
    let answers = machine::evaluate(&program, &query.input, &data, bounds, [rule].into_iter());
    Ok(match answers {
        Ok(answers) => Ok(answers
            .iter()
            .filter_map(|answer| value::array(&answer.value))
            .flat_map(|all| all.iter().cloned())
            .collect()),
        Err(halt) => Err(QueryError::Failed(reason(halt))),
    })
}

/// Rules of modules, compiled to a program.
#[derive(Debug)]
pub struct CompiledRules {
    program: Program,
    rules: Vec<RuleId>,
    data: Value,
    bounds: Bounds,
}

impl CompiledRules {
    /// Compiles the rules at these paths below `data`.
    ///
    /// # Errors
    /// Returns the first reason why a module is refused, or a rule has no program.
    pub fn new(
        modules: &[String],
        paths: &[Vec<String>],
        data: serde_json::Value,
        strict: bool,
    ) -> Result<Self, String> {
        let read: Result<Vec<_>, _> = modules.iter().map(|text| syntax::read(text, None)).collect();
        let read = read.map_err(|why| why.why)?;
        let compiled = compile::compile(&read.iter().collect::<Vec<_>>(), std::iter::empty());
        let first =
            |faults: Vec<compile::Fault>| faults.first().map_or_else(String::new, |fault| fault.message.clone());
        let program = compiled.map_err(first)?.plan(paths.iter());
        let rule = |path: &Path| match program.entries.get(path) {
            Some(Ok(rule)) => Ok(*rule),
            Some(Err(why)) => Err(why.reason.clone()),
            None => Err(format!("there is no rule {}", path.join("."))),
        };
        let rules = paths.iter().map(rule).collect::<Result<_, _>>()?;
        let data = value::from_tree(data).map_err(|why| why.to_string())?;
        let bounds = bounds(&limits(strict));
        Ok(Self { program, rules, data, bounds })
    }

    /// Evaluates each rule by itself; `Undefined` for one without a value.
    pub fn values(&self, input: &Value) -> Vec<Result<Value, String>> {
        let value = |rule: &RuleId| {
            budget::renew();
            match machine::evaluate(&self.program, input, &self.data, self.bounds, std::iter::once(*rule)) {
                Ok(mut answers) => Ok(answers.pop().map_or(Value::Undefined, |answer| answer.value)),
                Err(halt) => Err(reason(halt)),
            }
        };
        self.rules.iter().map(value).collect()
    }
}

/// What is compared has the time that it takes, also on a busy machine.
fn limits(strict: bool) -> Limits {
    Limits { strict, evaluation: Duration::from_mins(1), ..Limits::default() }
}

fn bounds(limits: &Limits) -> Bounds {
    Bounds { time: limits.evaluation, stack: limits.stack, strict: limits.strict }
}

fn reason(halt: Halt) -> String {
    match halt {
        Halt::Failed(error) => error.reason,
        Halt::TimedOut | Halt::TooMuch => "took too long or made too much".to_owned(),
    }
}

/// Returns what is refused of modules that are loaded together, by name and text.
pub fn refusals(modules: &[(String, String)]) -> Vec<Problem> {
    let file = |(name, text): &(String, String)| File::new(name.as_str().into(), Form::Rego, text.clone());
    let files: Vec<File> = modules.iter().map(file).collect();
    let problems = checked(&files, &Limits::default());
    problems.into_iter().filter(Problem::is_refusal).collect()
}

/// Returns all that is wrong with modules that are loaded together.
fn checked(files: &[File], limits: &Limits) -> Vec<Problem> {
    let read: Vec<_> = files.iter().map(|file| syntax::read(&file.text, file.version())).collect();
    let missing = Missing::default();
    let (readable, sources): (Vec<&File>, Vec<&syntax::Module>) =
        files.iter().zip(&read).filter_map(|(file, read)| Some((file, read.as_ref().ok()?))).unzip();
    let problem = |fault: compile::Fault| {
        let file = readable[fault.module];
        Problem::refused(&file.shown, fault.message).at(&file.text, fault.at.line, fault.at.column)
    };
    let faults = compile::compile(&sources, missing.rules()).err().unwrap_or_default();
    let mut problems: Vec<Problem> = faults.into_iter().map(problem).collect();
    if sources.len() == files.len() && !problems.is_empty() {
        return problems;
    }
    let unreadable = files.iter().zip(&read).filter_map(|(file, read)| Some((file, read.as_ref().err()?)));
    problems.extend(unreadable.map(|(file, error)| Problem::unreadable(file, error)));
    if !problems.is_empty() {
        return problems;
    }
    let nodes = compile::resolve(&sources, missing.rules()).nodes(&sources);
    let graph = Graph::new(&nodes);
    let files: Vec<&File> = files.iter().collect();
    // Whatever is asked later may refer to every rule.
    let entries = nodes.iter().map(|node| node.path.clone()).collect();
    let data = &Data::default();
    let checked = Checked {
        files: &files,
        modules: &sources,
        nodes: &nodes,
        graph: &graph,
        data,
        missing: &missing,
        entries: &entries,
        tests: false,
        companion: |_, _| None,
        limits,
    };
    problems.extend(checked.problems());
    problems
}
