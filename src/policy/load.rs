//! From paths to a [`PolicySet`], with every problem on the way.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use regorus::{
    Engine,
    unstable::{Module, Ref, Source},
};
use sha2::{Digest as _, Sha256};

use super::{
    Dialect, Limits, Policy, PolicySet, builtins,
    check::Checked,
    data::Data,
    entries::{Annotations, Reading},
    files::{self, File, Form},
    gatekeeper::{self, EnforcementPoint, Index, Library, Loaded},
    graph::Graph,
    guard, metadata, parse,
    problem::{LoadError, Problem},
    reads, references,
    unit::Unit,
    value,
};
use crate::verdict::Digest;

/// What modules are loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// All `.rego` files together; rules judge by their names.
    Directory,
    /// One Gatekeeper template; the first module has the rule that judges.
    Template,
}

pub(crate) fn load(paths: &[PathBuf], limits: &Limits, point: EnforcementPoint) -> Result<PolicySet, LoadError> {
    let (files, mut problems) = files::read(paths, limits);
    let files: Vec<File> = files.into_iter().filter(|file| !file.is_test()).collect();
    let suites = gatekeeper::suites(&files);
    let mut data = Data::default();
    let mut library = Library::default();
    for file in files.iter().filter(|file| file.form != Form::Rego) {
        let example = Path::new(&*file.shown).ancestors().any(|folder| suites.contains(folder));
        if !library.add(file, example, &mut problems) {
            data.add(file, example, &mut problems);
        }
    }
    let modules: Vec<&File> = files.iter().filter(|file| file.form == Form::Rego).collect();
    let mut found = Vec::new();
    let plain = if modules.is_empty() { None } else { unit(modules, &data, limits, &mut found, Purpose::Directory) };
    let (plain, found) = without_sources(plain, found, &files, library.has_templates());
    problems.extend(found);
    let Loaded { mut units, mut policies, unjudged, settings } = library.load(limits, point, &mut problems);
    if let Some((own, unit)) = plain {
        policies.extend(own);
        units.insert(0, unit);
    }
    // Stable: the Constraints of one kind stay in order.
    policies.sort_by(|a, b| a.name.cmp(&b.name));
    // A test may be about a Constraint that has nothing to say there.
    let nothing = policies.is_empty() && point == EnforcementPoint::Audit;
    if nothing && !problems.iter().any(gatekeeper::refused) {
        problems.push(nothing_to_judge_by(paths, &files));
    }
    problems.sort();
    problems.dedup();
    if problems.iter().any(gatekeeper::refused) {
        return Err(LoadError { problems });
    }
    let constraints = Arc::new(Index::new(&units));
    let reads = Arc::new(reads::Index::new(&units));
    let digest = digest(&files);
    Ok(PolicySet { digest, policies, problems, limits: *limits, unjudged, settings, units, constraints, reads })
}

/// Takes out the packages that are the source of a template: they only judge from inside of one.
fn without_sources(
    plain: Option<(Vec<Policy>, Unit)>,
    mut problems: Vec<Problem>,
    files: &[File],
    templates: bool,
) -> (Option<(Vec<Policy>, Unit)>, Vec<Problem>) {
    let Some((mut policies, mut unit)) = plain else { return (None, problems) };
    policies.retain(|policy| {
        let (Dialect::Gatekeeper, Some(rule)) = (policy.dialect, policy.rules.first()) else { return true };
        let text = files.iter().find(|file| file.shown == rule.source.file).map_or("", |file| &file.text);
        let reads = format!("package {} reads input.review or input.parameters", policy.name);
        let problem = if templates {
            let message = format!("{reads}: it is the source of a template and not judged by itself");
            Problem::warning(&rule.source.file, message)
        } else {
            let message = format!("{reads}, as a Gatekeeper template does");
            let help = "add its ConstraintTemplate and Constraints to the policy paths, or read the object as input \
                        (conftest) or input.request.object";
            Problem::refused(&rule.source.file, message).help(help)
        };
        problems.push(problem.at(text, rule.source.line, 1));
        false
    });
    unit.groups.retain(|group| group.dialect != Dialect::Gatekeeper);
    (Some((policies, unit)), problems)
}

/// Loads one unit; `None` if something was refused.
pub(crate) fn unit(
    mut files: Vec<&File>,
    data: &Data,
    limits: &Limits,
    problems: &mut Vec<Problem>,
    purpose: Purpose,
) -> Option<(Vec<Policy>, Unit)> {
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
        refused |= found.iter().any(gatekeeper::refused);
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
) -> (Vec<Policy>, Vec<super::unit::Group>, Vec<Problem>) {
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
    let read = Reading { files, modules, annotations: &annotations, nodes: &nodes, graph: &graph, purpose };
    let entries = read.entries().into_values().flatten().collect();
    let checked = Checked { files, modules, nodes: &nodes, graph: &graph, data, entries: &entries, limits };
    problems.extend(checked.problems());
    if purpose == Purpose::Template {
        problems.extend(gatekeeper::check(files, modules, &nodes));
    }
    let (mut policies, mut groups) = read.policies();
    if !problems.iter().any(gatekeeper::refused) {
        reads::find(&reads::Rules::new(modules, &graph), &mut policies, &mut groups);
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
