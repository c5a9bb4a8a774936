//! From paths to a [`PolicySet`], with every problem on the way.

use std::{
    collections::BTreeSet,
    ops::BitOr,
    path::{Path, PathBuf},
    sync::Arc,
};

use regorus::unstable::{Module, Ref, Source};
use sha2::{Digest as _, Sha256};

use super::{
    data,
    dialect::Dialect,
    entries::{Annotations, Reading, companion},
    files,
    gatekeeper::{self, EnforcementPoint, Index, Library, Loaded},
    lint, metadata,
    policy::Policy,
    reads,
    set::PolicySet,
    unit::Unit,
};
use crate::{
    model::verdict::Digest,
    rego::{
        check::Checked,
        data::Data,
        engine,
        error::EngineError,
        file::{File, Form},
        graph::Graph,
        limits::Limits,
        missing::Missing,
        parse,
        problem::{LoadError, Problem},
        references::{self, Node, package},
        rewrite::{self, Position, Rewritten, SyntaxError},
        tokens,
    },
};

/// What modules are loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// All `.rego` files together; rules judge by their names.
    Directory,
    /// The same with their tests, to run these.
    Test,
    /// One Gatekeeper template; the first module has the rule that judges.
    Template,
}

/// Loads what can be loaded; the set's problems tell what was refused.
pub(crate) fn load(paths: &[PathBuf], limits: &Limits, point: EnforcementPoint) -> Result<PolicySet, LoadError> {
    let (files, mut problems) = files::read(paths, limits);
    if problems.iter().any(|problem| paths.iter().any(|path| files::shown(path) == problem.file)) {
        return Err(LoadError { problems });
    }
    let mut missing = Missing::default();
    for unread in &problems {
        missing.unread(&unread.file);
    }
    let (tests, files): (Vec<File>, Vec<File>) = files.into_iter().partition(File::is_test);
    problems.extend(tests.iter().filter_map(lint::test_file));
    let suites = gatekeeper::suites(&files);
    let mut data = data::document();
    let mut library = Library::default();
    for file in files.iter().filter(|file| file.form != Form::Rego) {
        let example = Path::new(&*file.shown).ancestors().any(|folder| suites.contains(folder));
        let before = problems.len();
        if !library.add(file, example, &mut problems) {
            data::add(&mut data, file, example, &mut problems);
            if problems[before..].iter().any(Problem::is_refusal) {
                missing.unparsed(file);
            }
        }
    }
    let modules: Vec<&File> = files.iter().filter(|file| file.form == Form::Rego).collect();
    let mut found = Vec::new();
    let plain = unit(modules, &data, limits, missing, &mut found, Purpose::Directory);
    let (plain, found) = without_sources(plain, found, &files, library.has_templates());
    problems.extend(found);
    let Loaded { mut units, mut policies, unjudged, settings } = library.load(limits, point, &mut problems);
    if let Some((own, mut unit)) = plain {
        unit.depends = own.iter().map(|policy| policy.depends).fold(unit.depends, BitOr::bitor);
        policies.extend(own);
        units.insert(0, unit);
    }
    // Stable: the Constraints of one kind stay in order.
    policies.sort_by(|a, b| a.name.cmp(&b.name));
    let refused = problems.iter().any(Problem::is_refusal);
    // A test may be about a Constraint that has nothing to say there.
    let nothing = policies.is_empty() && (refused || point == EnforcementPoint::Audit);
    if nothing && !refused {
        problems.push(nothing_to_judge_by(paths, &files));
    }
    problems.extend(lint::speechless(&policies, &files));
    problems.sort();
    problems.dedup();
    if nothing {
        return Err(LoadError::new(problems));
    }
    let constraints = Arc::new(Index::new(&units));
    let reads = Arc::new(reads::Index::new(&units));
    let digest = digest(&files);
    let files = files.into_iter().map(|file| file.shown).collect();
    Ok(PolicySet { digest, files, policies, problems, limits: *limits, unjudged, settings, units, constraints, reads })
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

/// Loads one unit of the files that are in order; `None` if there are none, or if a template is not.
///
/// What is refused is left out with all that uses it, and the rest is looked at again, until all of it is in order.
pub(crate) fn unit(
    files: Vec<&File>,
    data: &Data,
    limits: &Limits,
    mut missing: Missing,
    problems: &mut Vec<Problem>,
    purpose: Purpose,
) -> Option<(Vec<Policy>, Unit)> {
    let rewritten = rewrite::rewrite(files.iter().map(|file| (file.text.as_str(), file.version())));
    let mut files: Vec<(&File, &Result<Rewritten, SyntaxError>)> = files.into_iter().zip(&rewritten).collect();
    let texts: Vec<&str> = rewritten.iter().flatten().map(|rewritten| rewritten.text.as_str()).collect();
    let mut first = true;
    while !files.is_empty() {
        let mut engine = match engine::with_data(data.document.clone().into(), limits, &texts) {
            Ok(engine) => engine,
            Err(why) => {
                problems.push(Problem::refused(&"data".into(), format!("{why:#}")));
                return None;
            }
        };
        let bare = engine.clone();
        let mut modules = Vec::new();
        files.retain(|(file, rewritten)| match parse::add(&mut engine, file, rewritten, limits) {
            Ok(()) => {
                modules.extend(parse::last_module(&mut engine));
                true
            }
            Err(problem) => {
                problems.push(problem);
                missing.unparsed(file);
                false
            }
        });
        if files.is_empty() || (purpose == Purpose::Template && files.len() < rewritten.len()) {
            break;
        }
        let sources: Vec<&File> = files.iter().map(|(file, _)| *file).collect();
        let nodes = references::read(&modules, missing.rules());
        let (policies, groups, mut found) = read(&files, &modules, &nodes, data, &missing, limits, purpose);
        // Warnings are about the files as they were written, not about what is left of them.
        found.retain(|problem| first || problem.is_refusal());
        first = false;
        let mut refused: BTreeSet<Arc<str>> =
            found.iter().filter(|problem| problem.is_refusal()).map(|problem| Arc::clone(&problem.file)).collect();
        problems.extend(found);
        if refused.is_empty() {
            let why = match Unit::new(engine, bare, groups) {
                Ok(unit) => return Some((policies, unit)),
                Err(why) => why,
            };
            // The evaluator stops at the first module that it cannot prepare; the others may have something to say too.
            let named = EngineError::new(&why).place.map(|(file, ..)| file);
            let blamed = sources.iter().copied().find(|file| named.as_deref() == Some(&*file.shown));
            problems.push(parse::problem(blamed.or(sources.first().copied())?, &why));
            refused.insert(Arc::clone(&blamed?.shown));
        }
        for (index, file) in sources.iter().enumerate().filter(|(_, file)| refused.contains(&file.shown)) {
            missing.module(file, nodes.iter().filter(|node| node.module == index));
        }
        if purpose == Purpose::Template {
            return None;
        }
        files.retain(|(file, _)| !refused.contains(&file.shown));
    }
    None
}

/// Reads and checks modules that all parse.
fn read(
    files: &[(&File, &Result<Rewritten, SyntaxError>)],
    modules: &[Ref<Module>],
    nodes: &[Node],
    data: &Data,
    missing: &Missing,
    limits: &Limits,
    purpose: Purpose,
) -> (Vec<Policy>, Vec<super::unit::Group>, Vec<Problem>) {
    let mut problems = Vec::new();
    let imports: Vec<&[(references::Path, Position)]> =
        files.iter().map(|(_, rewritten)| rewritten.as_ref().map_or(&[][..], |rewritten| &rewritten.imports)).collect();
    let files: &[&File] = &files.iter().map(|(file, _)| *file).collect::<Vec<_>>();
    let annotations: Vec<Annotations> = files
        .iter()
        .zip(modules)
        .map(|(file, module)| {
            let source = Source::from_contents(file.shown.to_string(), file.text.clone());
            let tokens = source.map(|source| tokens::read(&source, limits)).unwrap_or_default();
            metadata::read(file, module, &tokens, &mut problems)
        })
        .collect();
    let graph = Graph::new(nodes);
    let read = Reading { files, modules, annotations: &annotations, nodes, graph: &graph, purpose };
    let mut entries: BTreeSet<_> = read.entries().into_values().flatten().collect();
    if purpose == Purpose::Test {
        let is_test = |node: &&Node| node.is_test(package(&modules[node.module]).len());
        entries.extend(nodes.iter().filter(is_test).map(|node| node.path.clone()));
    }
    let (graph, entries, imports) = (&graph, &entries, imports.as_slice());
    let checked = Checked {
        files,
        modules,
        imports,
        nodes,
        graph,
        data,
        missing,
        entries,
        tests: purpose == Purpose::Test,
        companion,
        limits,
    };
    problems.extend(checked.problems());
    match purpose {
        Purpose::Directory => problems.extend(lint::warnings(&checked)),
        Purpose::Test => return (Vec::new(), Vec::new(), problems),
        Purpose::Template => problems.extend(gatekeeper::check(files, modules, nodes, limits)),
    }
    let (mut policies, mut groups) = read.policies();
    if !problems.iter().any(Problem::is_refusal) {
        reads::find(&reads::Rules::new(modules, graph), &mut policies, &mut groups);
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
