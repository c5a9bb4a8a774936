//! Loads the policy sources for `kaudit test`: all modules including tests, prepared, and the text of every file.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    compile::compile,
    data,
    dialects::{
        gatekeeper::TemplateLibrary,
        kubescape,
        trivy::{self, Sorted},
    },
    entrypoints::CompilePurpose,
    files, modules,
    sources::FileSource,
    unit::Unit,
};
use crate::rego::{
    self, Evaluator, File, Form, Limits, LoadError, Problem, RuleId, SourceLocation,
    analysis::{
        compile::DefinitionId,
        missing::Missing,
        syntax::Module,
        test_rules::{self, TestRule, TestShape},
    },
    trace::ModuleUses,
};

/// The modules of some sources, including tests.
#[derive(Debug)]
pub(crate) struct Tested {
    /// The file of each module.
    pub(crate) sources: Vec<File>,
    /// The modules, in the same order.
    pub(crate) modules: Vec<Module>,
    pub(crate) uses: ModuleUses,
    /// The tests of all modules, by file and line.
    pub(crate) tests: Vec<PlannedTest>,
    /// All other files, including test suites.
    pub(crate) others: Vec<File>,
    /// Evaluates each test separately.
    pub(crate) evaluator: Evaluator,
    /// The warnings about the files.
    pub(crate) problems: Vec<Problem>,
}

/// A test, and the rule of the program that evaluates it.
#[derive(Debug)]
pub(crate) struct PlannedTest {
    /// Index of its module.
    pub(crate) module: usize,
    pub(crate) rule: TestRule,
    /// The rule of the program; `None` if the test cannot be evaluated separately.
    pub(crate) planned: Option<RuleId>,
}

/// Loads everything in `sources` for its tests. Modules with tests are checked like entrypoint modules.
///
/// # Errors
/// Returns every problem of every file if one of them is refused.
pub(crate) fn load(sources: &[FileSource], limits: &Limits) -> Result<Tested, LoadError> {
    let (mut files, mut problems) = files::read(sources, limits);
    // Each rule in Kubescape's layout is its own unit; the test cases next to it are for Kubescape's own runner.
    let library = kubescape::ControlLibrary::read(&files, &[], &mut Vec::new());
    let own: Vec<bool> = files.iter().map(|file| library.has(file)).collect();
    let mut own = own.into_iter();
    files.retain(|_| !own.next().unwrap_or_default());
    let (mut sources, mut others): (Vec<File>, Vec<File>) = files.into_iter().partition(|file| file.form == Form::Rego);
    let Sorted { kept, examples, .. } = trivy::sort_out(sources.iter().collect(), true);
    let kept: BTreeSet<Arc<str>> = kept.into_iter().map(|file| Arc::clone(&file.shown)).collect();
    let (own, left_out): (Vec<File>, Vec<File>) = sources.into_iter().partition(|file| kept.contains(&file.shown));
    sources = own;
    problems.extend(without_tests(&left_out));
    others.retain(|file| !examples.contain(file));
    let mut data = data::document();
    // Without modules no rule reads data, and there may be thousands of examples.
    if !sources.is_empty() {
        let mut library = TemplateLibrary::default();
        for file in &others {
            // Problems of templates are reported by the tests of suites that use them.
            if !library.add(file, true, &mut Vec::new()) {
                data::add(&mut data, file, true, &mut problems);
            }
        }
    }
    let unit = if sources.is_empty() {
        // Suites load their own templates.
        None
    } else {
        let (sources, problems) = (sources.iter().collect::<Vec<_>>(), &mut problems);
        compile(sources, &data, limits, Missing::default(), problems, CompilePurpose::Test).map(|(_, unit)| unit)
    };
    problems.sort();
    problems.dedup();
    let is_refused = unit.is_none() && !sources.is_empty() || problems.iter().any(Problem::is_refusal);
    let planned = if is_refused { None } else { plan(&sources, unit.as_ref(), limits) };
    match planned {
        Some(PlannedTests { modules, uses, tests, evaluator }) => {
            Ok(Tested { sources, modules, uses, tests, others, evaluator, problems })
        }
        None => Err(LoadError::new(problems)),
    }
}

/// The tests of modules, and their evaluator.
struct PlannedTests {
    modules: Vec<Module>,
    uses: ModuleUses,
    tests: Vec<PlannedTest>,
    evaluator: Evaluator,
}

/// Plans each test of valid modules separately.
fn plan(sources: &[File], unit: Option<&Unit>, limits: &Limits) -> Option<PlannedTests> {
    let mut modules =
        modules::read(&sources.iter().collect::<Vec<_>>()).into_iter().collect::<Result<Vec<_>, _>>().ok()?;
    for module in &mut modules {
        module.keeps_prints = true;
    }
    let all: Vec<&Module> = modules.iter().collect();
    let resolved = rego::analysis::compile::resolve(&all, std::iter::empty());
    let uses = ModuleUses::new(&all, &resolved.nodes(&all));
    let compiled = resolved.compile().ok()?;
    let own = |(module, own): (usize, &Module)| {
        let rules = test_rules::tests(own).into_iter();
        rules.map(|rule| PlannedTest { module, rule, planned: None }).collect::<Vec<_>>()
    };
    let mut tests: Vec<PlannedTest> = modules.iter().enumerate().flat_map(own).collect();
    let id = |test: &PlannedTest| DefinitionId {
        at: SourceLocation { module: test.module, at: test.rule.at },
        depth: modules[test.module].package_path().len() + test.rule.name.len(),
    };
    let (program, planned) = compiled.plan_definitions(&tests.iter().map(id).collect::<Vec<_>>());
    for (test, planned) in tests.iter_mut().zip(planned) {
        let can_run = !matches!(test.rule.shape, TestShape::Function | TestShape::Default(_));
        test.planned = planned.ok().filter(|_| can_run);
    }
    let files = sources.iter().map(|file| Arc::clone(&file.shown)).collect();
    let data = unit.map_or_else(|| BTreeMap::new().into(), |unit| unit.evaluator.data().clone());
    let evaluator = Evaluator::new(program.with_files(files), data, limits);
    Some(PlannedTests { modules, uses, tests, evaluator })
}

/// Returns a warning that test files are not run because their checks are not for Kubernetes.
fn without_tests(left_out: &[File]) -> Option<Problem> {
    let mut tests = left_out.iter().filter(|file| file.is_test());
    let first = tests.next()?;
    let others = match tests.count() {
        0 => String::new(),
        1 => ", nor is 1 more file".to_owned(),
        more => format!(", nor are {more} more files"),
    };
    let message = format!("not run{others}: it tests Trivy checks that are not for Kubernetes");
    Some(Problem::warning(&first.shown, message))
}
