//! From paths to a [`PolicySet`], with every problem on the way.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use regorus::{
    Engine,
    unstable::{Module, Ref, Source},
};
use sha2::{Digest as _, Sha256};

use super::{
    Dialect, Limits, PolicySet, builtins,
    check::Checked,
    data::Data,
    entries::{Annotations, Reading},
    files::{self, File, Form},
    graph::Graph,
    guard, metadata, parse,
    problem::{LoadError, Problem, ProblemSeverity},
    references::{self, Node, package},
    unit::Unit,
    value,
};
use crate::verdict::Digest;

/// What modules are loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// All `.rego` files together; rules judge by their names.
    Directory,
    /// The same with their tests, to run these.
    Test,
}

pub(crate) fn load(paths: &[PathBuf], limits: &Limits) -> Result<PolicySet, LoadError> {
    let (files, mut problems) = files::read(paths, limits);
    let files: Vec<File> = files.into_iter().filter(|file| !file.is_test()).collect();
    let mut data = Data::default();
    for file in files.iter().filter(|file| file.form != Form::Rego) {
        data.add(file, false, &mut problems);
    }
    let modules: Vec<&File> = files.iter().filter(|file| file.form == Form::Rego).collect();
    let loaded = unit(modules, &data, limits, &mut problems, Purpose::Directory);
    let refused = |problem: &Problem| problem.severity == ProblemSeverity::Refused;
    if !problems.iter().any(refused) && loaded.as_ref().is_none_or(|(policies, _)| policies.is_empty()) {
        problems.push(nothing_to_judge_by(paths, &files));
    }
    problems.sort();
    problems.dedup();
    match loaded {
        Some((policies, unit)) if !problems.iter().any(refused) => {
            Ok(PolicySet { digest: digest(&files), policies, problems, limits: *limits, units: vec![unit] })
        }
        _ => Err(LoadError { problems }),
    }
}

/// Loads one unit; `None` if something was refused.
pub(crate) fn unit(
    mut files: Vec<&File>,
    data: &Data,
    limits: &Limits,
    problems: &mut Vec<Problem>,
    purpose: Purpose,
) -> Option<(Vec<super::Policy>, Unit)> {
    let mut refused = false;
    let mut unprepared = false;
    loop {
        let mut engine = match engine(data, limits) {
            Ok(engine) => engine,
            Err(why) => {
                problems.push(Problem::refused(&"data".into(), format!("{why:#}")));
                return None;
            }
        };
        let mut modules = Vec::new();
        files.retain(|file| match parse::add(&mut engine, file, limits) {
            Ok(()) => {
                modules.extend(parse::last_module(&mut engine));
                true
            }
            Err(problem) => {
                problems.push(problem);
                refused = true;
                false
            }
        });
        let (policies, groups, mut found) = read(&files, &modules, data, limits, purpose);
        // Once a module was left out, the others would be blamed for missing it.
        if unprepared {
            found.clear();
        }
        refused |= found.iter().any(|problem| problem.severity == ProblemSeverity::Refused);
        problems.extend(found);
        if refused {
            return None;
        }
        let why = match Unit::new(engine, groups) {
            Ok(unit) => return (!unprepared).then_some((policies, unit)),
            Err(why) => why,
        };
        // The evaluator stops at the first module that it cannot prepare; the others may have something to say too.
        let named = parse::told(&format!("{why:#}")).place.map(|(file, ..)| file);
        let blamed = files.iter().position(|file| named.as_deref() == Some(&*file.shown));
        problems.push(parse::problem(blamed.map(|index| files[index]).or(files.first().copied())?, &why));
        unprepared = true;
        files.remove(blamed?);
        if files.is_empty() {
            return None;
        }
    }
}

fn engine(data: &Data, limits: &Limits) -> anyhow::Result<Engine> {
    let mut engine = parse::engine(limits);
    builtins::guard(&mut engine)?;
    engine.add_data(value::from_tree(serde_json::Value::Object(data.document.clone()))?)?;
    Ok(engine)
}

/// Reads and checks modules that all parse.
fn read(
    files: &[&File],
    modules: &[Ref<Module>],
    data: &Data,
    limits: &Limits,
    purpose: Purpose,
) -> (Vec<super::Policy>, Vec<super::unit::Group>, Vec<Problem>) {
    let mut problems = Vec::new();
    let annotations: Vec<Annotations> = files
        .iter()
        .zip(modules)
        .map(|(file, module)| {
            let source = Source::from_contents(file.shown.to_string(), file.text.clone());
            let tokens = source.map(|source| guard::tokens(&source, limits)).unwrap_or_default();
            metadata::read(file, module, &tokens, &mut problems)
        })
        .collect();
    let nodes = references::read(modules);
    let graph = Graph::new(&nodes);
    let read = Reading { files, modules, annotations: &annotations, nodes: &nodes, graph: &graph };
    let mut entries: BTreeSet<_> = read.entries().into_values().flatten().collect();
    if purpose == Purpose::Test {
        let is_test = |node: &&Node| node.is_test(package(&modules[node.module]).len());
        entries.extend(nodes.iter().filter(is_test).map(|node| node.path.clone()));
    }
    let checked = Checked { files, modules, nodes: &nodes, graph: &graph, data, entries: &entries, purpose, limits };
    problems.extend(checked.problems());
    if purpose == Purpose::Test {
        return (Vec::new(), Vec::new(), problems);
    }
    let (policies, groups) = read.policies();
    for policy in policies.iter().filter(|policy| policy.dialect == Dialect::Gatekeeper) {
        let Some(rule) = policy.rules.first() else { continue };
        let message =
            format!("package {} reads input.review or input.parameters, as a Gatekeeper template does", policy.name);
        let help =
            "Gatekeeper policies are not supported yet; read the object as input (conftest) or input.request.object";
        let problem = Problem::refused(&rule.source.file, message).help(help);
        let text = files.iter().find(|file| file.shown == rule.source.file).map_or("", |file| &file.text);
        problems.push(problem.at(text, rule.source.line, 1));
    }
    (policies, groups, problems)
}

/// Returns what to say when all is well but nothing judges.
fn nothing_to_judge_by(paths: &[PathBuf], files: &[File]) -> Problem {
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let modules = files.iter().filter(|file| file.form == Form::Rego).count();
    let shown: Arc<str> = if shown.is_empty() { "no path".into() } else { shown.join(", ").into() };
    let message = format!("no rule to judge by in {modules} .rego files");
    let help = "looked for rules named deny, violation or warn (also deny_x, violation_x, warn_x) in every package that is \
                no library (lib) and no test (*_test)";
    Problem::refused(&shown, message).help(help)
}

fn digest(files: &[File]) -> Digest {
    let mut names: Vec<(String, &str)> = files.iter().map(|file| (file.relative(), file.text.as_str())).collect();
    names.sort();
    let mut digest = Sha256::new();
    for (name, text) in names {
        // Lengths keep apart what would otherwise run together.
        for part in [name.as_str(), text] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
    }
    Digest(digest.finalize().into())
}
