//! Any query of any modules, as `opa eval` answers it: for the comparison with OPA's own cases, which read a module the
//! way that judging does.

use std::panic::{AssertUnwindSafe, catch_unwind};

use regorus::{
    Engine, Value,
    unstable::{Module, Ref},
};

use super::{
    builtins,
    check::Checked,
    data::Data,
    error::EngineError,
    file::{File, Form},
    graph::Graph,
    limits::Limits,
    lost::Lost,
    parse,
    problem::Problem,
    references, rewrite, value,
};

/// The package that a query is read in.
const PACKAGE: &str = "kaudit_query";

/// What is asked of what.
#[derive(Debug)]
pub struct Question<'a> {
    /// Texts of modules.
    pub modules: &'a [String],
    /// What stands below `data`.
    pub data: serde_json::Value,
    /// The input; `Undefined` for none.
    pub input: Value,
    /// The query, in Rego v1.
    pub query: &'a str,
    /// Whether a builtin that fails ends the evaluation.
    pub strict: bool,
}

/// Why a question got no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// A module was refused before anything ran.
    Refused(String),
    /// The evaluation ended with an error.
    Failed(String),
}

/// Answers a question: the variables of the query, once for each way to answer it.
///
/// # Errors
/// Returns the first problem of the modules, or why the evaluation failed.
pub fn ask(question: &Question) -> Result<Vec<Value>, Unanswered> {
    let limits = Limits::default();
    let failed = |error: anyhow::Error| Unanswered::Failed(EngineError::new(&error).reason);
    // The query is adapted as the only rule of a module would be.
    let query =
        rewrite::adapt([(format!("package {PACKAGE}\n\nholds if {{\n{}\n}}\n", question.query).as_str(), None)])
            .remove(0);
    let query = query.map_err(|unreadable| Unanswered::Refused(unreadable.why))?.text;
    let body = query.split_once('{').and_then(|(_, body)| body.rsplit_once('}')).map_or("", |(body, _)| body);
    let mut engine = load(question, &query, &limits)?;
    engine.set_strict_builtin_errors(question.strict);
    engine.set_rego_v0(false);
    engine.set_input(question.input.clone());
    builtins::budget::renew();
    let asked = catch_unwind(AssertUnwindSafe(|| engine.eval_query(body.to_owned(), false)));
    let results = asked.map_err(|_| Unanswered::Failed("the evaluator panicked".to_owned()))?.map_err(failed)?;
    let holds = |value: &Value| !matches!(value, Value::Undefined | Value::Bool(false));
    let true_ones = results.result.into_iter().filter(|result| result.expressions.iter().all(|e| holds(&e.value)));
    Ok(true_ones.map(|result| result.bindings).collect())
}

fn load(question: &Question, query: &str, limits: &Limits) -> Result<Engine, Unanswered> {
    let refused = |why: &dyn std::fmt::Display| Unanswered::Refused(why.to_string());
    let mut engine = parse::engine(limits);
    let data = value::from_tree(question.data.clone()).map_err(|error| refused(&error))?;
    engine.add_data(data).map_err(|error| refused(&error))?;
    let file = |(index, text): (usize, &String)| File::new(format!("{index}.rego").into(), Form::Rego, text.clone());
    let files: Vec<File> = question.modules.iter().enumerate().map(file).collect();
    let adapted = rewrite::adapt(files.iter().map(|file| (file.text.as_str(), file.version)));
    let texts = adapted.iter().flatten().map(|adapted| adapted.text.as_str()).chain([query]);
    builtins::install(&mut engine, question.strict, &texts.collect::<Vec<_>>()).map_err(|error| refused(&error))?;
    rewrite::support(&mut engine).map_err(|error| refused(&error))?;
    let mut modules: Vec<Ref<Module>> = Vec::new();
    for (file, adapted) in files.iter().zip(&adapted) {
        parse::add(&mut engine, file, adapted, limits).map_err(|problem| refused(&problem.message))?;
        modules.extend(parse::last_module(&mut engine));
    }
    let lost = Lost::default();
    let nodes = references::read(&modules, &lost);
    let graph = Graph::new(&nodes);
    let files: Vec<&File> = files.iter().collect();
    // Everything may be asked for.
    let entries = nodes.iter().map(|node| node.path.clone()).collect();
    let (data, modules) = (&Data::default(), modules.as_slice());
    let checked = Checked {
        files: &files,
        modules,
        imports: &[],
        nodes: &nodes,
        graph: &graph,
        data,
        lost: &lost,
        entries: &entries,
        tests: false,
        companion: |_, _| None,
        limits,
    };
    match checked.problems().into_iter().find(Problem::is_refusal) {
        Some(problem) => Err(refused(&problem.message)),
        None => Ok(engine),
    }
}
