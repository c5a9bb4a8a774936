//! Compiles files into a unit: parses, checks and prepares modules together, and leaves out those that are refused.
//!
//! Modules that use a refused module are refused as well. The remaining modules are compiled again, until all are valid
//! or none is left.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regorus::Value;

use super::{
    dialect::Annotations,
    dialects::{self, KnownPackages},
    entrypoints::{CompilePurpose, ParsedModules, companion, find_reads},
    lint,
    metadata::{self, AnnotationScope},
    modules,
    policy::Policy,
    reads::UnitRules,
    unit::{Group, Unit},
};
use crate::rego::{
    Evaluator, File, Limits, Problem,
    analysis::{
        check::Checked,
        compile::{self, Fault, Resolved},
        data::Data,
        graph::Graph,
        missing::{LoadedRules, Missing},
        program::Program,
        references::{Node, Path},
        syntax::Module,
    },
    value,
};

/// A file and its module.
#[derive(Clone, Copy)]
struct SourceFile<'a> {
    file: &'a File,
    module: &'a Module,
}

/// The modules of a unit.
pub(crate) struct UnitModules<'f> {
    /// The modules of the unit's own source.
    pub(crate) own: Vec<&'f File>,
    /// Modules of other sources that these use. Their rules are not evaluated in this unit, and their problems are
    /// reported by their own unit.
    pub(crate) imported: Vec<&'f File>,
}

impl<'f> From<Vec<&'f File>> for UnitModules<'f> {
    fn from(own: Vec<&'f File>) -> Self {
        Self { own, imported: Vec::new() }
    }
}

/// Compiles the valid files into one unit. Returns `None` if there are none, or if a file of a template or of a rule in
/// Kubescape's layout is refused.
pub(crate) fn compile<'f>(
    modules: impl Into<UnitModules<'f>>,
    data: &Data,
    limits: &Limits,
    missing: Missing,
    problems: &mut Vec<Problem>,
    purpose: CompilePurpose<'_>,
) -> Option<(Vec<Policy>, Unit)> {
    let UnitModules { own: mut files, imported } = modules.into();
    let names = imported.iter().map(|file| Arc::clone(&file.shown)).collect();
    files.extend(imported);
    let is_one = matches!(purpose, CompilePurpose::Single(_));
    let written = modules::read(&files);
    let value = match value::from_tree(data.document.clone().into()) {
        Ok(value) => value,
        Err(why) => {
            problems.push(Problem::refused(&"data".into(), format!("{why:#}")));
            return None;
        }
    };
    let mut compiler =
        Compiler { files: Vec::new(), data, value, limits, missing, purpose, imported: names, first: true };
    for (file, written) in files.into_iter().zip(&written) {
        match written {
            Ok(module) => compiler.files.push(SourceFile { file, module }),
            Err(error) => {
                let problem = Some(Problem::unreadable(file, error));
                problems.extend(problem.filter(|problem| !compiler.imported.contains(&problem.file)));
                compiler.missing.unparsed(file);
            }
        }
    }
    if is_one && compiler.files.len() < written.len() {
        return None;
    }
    while !compiler.files.is_empty() {
        let modules = compiler.modules();
        let resolved = compile::resolve(&modules, compiler.missing.rules());
        let nodes = resolved.nodes(&modules);
        let refused = match compiler.prepare((resolved, &nodes), problems) {
            Ok(unit) => return Some(unit),
            Err(refused) => refused,
        };
        // If no file is to blame, none can be left out; and a single policy needs all of its modules.
        if refused.is_empty() || is_one {
            break;
        }
        compiler.leave_out(&refused, &nodes, problems);
    }
    None
}

/// The state of compiling the modules of one unit.
struct Compiler<'a> {
    /// The files that have not been refused.
    files: Vec<SourceFile<'a>>,
    data: &'a Data,
    /// The data that the modules are evaluated with.
    value: Value,
    limits: &'a Limits,
    /// The definitions of refused files.
    missing: Missing,
    purpose: CompilePurpose<'a>,
    /// The file names of modules of other sources.
    imported: BTreeSet<Arc<str>>,
    /// Whether no file has been left out yet.
    first: bool,
}

impl<'a> Compiler<'a> {
    /// Checks the modules and compiles them together, or returns the refused files.
    fn prepare(
        &mut self,
        (resolved, nodes): (Resolved, &[Node]),
        problems: &mut Vec<Problem>,
    ) -> Result<(Vec<Policy>, Unit), BTreeSet<Arc<str>>> {
        let (compiled, faults) = self.compiled(resolved);
        let graph = &Graph::new(nodes);
        let (mut policies, mut groups, mut found) = self.check((nodes, graph), faults);
        // Warnings are about the files as written, not about the remainder after files were left out.
        found.retain(|problem| self.first || problem.is_refusal());
        self.first = false;
        let refused: BTreeSet<Arc<str>> =
            found.iter().filter(|problem| problem.is_refusal()).map(|problem| Arc::clone(&problem.file)).collect();
        problems.extend(found.into_iter().filter(|problem| !self.imported.contains(&problem.file)));
        if !refused.is_empty() {
            return Err(refused);
        }
        let program = compiled.map(|compiled| {
            find_reads(&UnitRules::new(&compiled, graph, self.limits.strict), &mut policies, &mut groups);
            self.program(&compiled, &groups)
        });
        let program = program.unwrap_or_default();
        let files: Vec<&File> = self.files.iter().map(|source| source.file).collect();
        let unsupported = program.unsupported(&files);
        if !unsupported.is_empty() {
            let files = unsupported.iter().map(|problem| Arc::clone(&problem.file)).collect();
            problems.extend(unsupported.into_iter().filter(|problem| !self.imported.contains(&problem.file)));
            return Err(files);
        }
        let limits =
            if groups.iter().any(|group| group.queries.relates) { &self.limits.of_array() } else { self.limits };
        let evaluator = Evaluator::new(program, self.value.clone(), limits);
        let files = self.files.iter().map(|source| source.file.clone()).collect();
        Ok((policies, Unit::new(files, groups, evaluator, nodes)))
    }

    /// Plans the entrypoint rules.
    fn program(&self, compiled: &compile::Compiled, groups: &[Group]) -> Program {
        let files = self.files.iter().map(|source| Arc::clone(&source.file.shown)).collect();
        compiled.plan(groups.iter().flat_map(Group::paths)).with_files(files)
    }

    /// Checks the modules and reads their policies; `faults` are problems found by the compiler.
    fn check(
        &self,
        (nodes, graph): (&[Node], &Graph<'_>),
        faults: Vec<Problem>,
    ) -> (Vec<Policy>, Vec<Group>, Vec<Problem>) {
        let mut problems = Vec::new();
        let modules: &[&Module] = &self.modules();
        let files: &[&File] = &self.files.iter().map(|source| source.file).collect::<Vec<_>>();
        let annotations = self.annotations(&mut problems);
        let known = &match self.purpose {
            CompilePurpose::Directory(_) | CompilePurpose::Test => dialects::packages(modules, &annotations, graph),
            CompilePurpose::Single(_) => KnownPackages::new(),
        };
        let mut packages: BTreeMap<Path, Vec<usize>> = BTreeMap::new();
        for (index, module) in modules.iter().enumerate() {
            packages.entry(module.package_path()).or_default().push(index);
        }
        let packages = &packages;
        let lines: &[Vec<&str>] = &files.iter().map(|file| file.text.lines().collect()).collect::<Vec<_>>();
        let parsed = ParsedModules {
            files,
            lines,
            modules,
            packages,
            annotations: &annotations,
            nodes,
            graph,
            known,
            purpose: self.purpose,
            imported: &self.imported,
        };
        let mut entrypoints: BTreeSet<_> = parsed.entrypoints().into_values().flatten().collect();
        if self.purpose == CompilePurpose::Test {
            entrypoints.extend(nodes.iter().filter(|node| node.is_test()).map(|node| node.path.clone()));
        }
        let checked = Checked {
            files,
            modules,
            nodes,
            graph,
            data: self.data,
            missing: &self.missing,
            entries: &entrypoints,
            tests: self.purpose == CompilePurpose::Test,
            companion,
            limits: self.limits,
        };
        problems.extend(faults);
        problems.extend(checked.problems());
        match self.purpose {
            CompilePurpose::Directory(_) => problems.extend(lint::warnings(&checked)),
            CompilePurpose::Test => return (Vec::new(), Vec::new(), problems),
            CompilePurpose::Single(dialect) => problems.extend((dialect.check)(files, modules, nodes)),
        }
        let (policies, groups) = parsed.policies();
        (policies, groups, problems)
    }

    /// Reads the METADATA of each module, except for modules of other sources.
    fn annotations(&self, problems: &mut Vec<Problem>) -> Vec<Annotations> {
        let read = |source: &SourceFile<'_>| {
            if self.imported.contains(&source.file.shown) {
                return Annotations::new();
            }
            with_rules(metadata::read(source.file, source.module, problems), source)
        };
        self.files.iter().map(read).collect()
    }

    /// Returns the modules of the files.
    fn modules(&self) -> Vec<&'a Module> {
        self.files.iter().map(|source| source.module).collect()
    }

    /// Runs the stages of OPA's compiler; returns the faults that it would refuse.
    fn compiled(&self, resolved: Resolved) -> (Option<compile::Compiled>, Vec<Problem>) {
        let problem = |fault: &Fault| fault.problem(self.files[fault.module].file);
        match resolved.compile() {
            Ok(compiled) => (Some(compiled), Vec::new()),
            Err(faults) => (None, faults.iter().map(problem).collect()),
        }
    }

    /// Removes the refused files and those that use them.
    fn leave_out(&mut self, refused: &BTreeSet<Arc<str>>, nodes: &[Node], problems: &mut Vec<Problem>) {
        let files: &[&File] = &self.files.iter().map(|source| source.file).collect::<Vec<_>>();
        let refused = (0..files.len()).filter(|index| refused.contains(&files[*index].shown)).collect();
        let graph = &Graph::new(nodes);
        let loaded = LoadedRules { files, nodes, graph, data: self.data, companion };
        let (left_out, found) = self.missing.leave_out(refused, &loaded);
        problems.extend(found.into_iter().filter(|problem| !self.imported.contains(&problem.file)));
        let mut index = 0..;
        self.files.retain(|_| index.next().is_some_and(|index| !left_out.contains(&index)));
    }
}

/// Adds the METADATA that a module declares as rules, unless its package is annotated.
fn with_rules(mut annotations: Annotations, source: &SourceFile<'_>) -> Annotations {
    let annotated = annotations.iter().any(|(scope, _)| *scope == AnnotationScope::Package);
    let in_rules = if annotated { None } else { dialects::metadata_in_rules(source.module) };
    annotations.extend(in_rules.map(|metadata| (AnnotationScope::Package, metadata)));
    annotations
}
