//! The policy sources as `kaudit test` needs them: all modules with their tests, prepared, and the text of every file.

use std::{collections::BTreeSet, sync::Arc};

use regorus::unstable::{Module, Ref};

use super::{
    compile::compile,
    data,
    entrypoints::Purpose,
    files,
    gatekeeper::Library,
    kubescape,
    sources::PolicySource,
    trivy::{self, Sorted},
};
use crate::rego::{
    engine,
    evaluator::Evaluator,
    file::{File, Form},
    limits::Limits,
    missing::Missing,
    problem::{LoadError, Problem},
};

/// The modules of some sources, tests included.
#[derive(Debug)]
pub(crate) struct Tested {
    /// The file of each module.
    pub(crate) sources: Vec<File>,
    /// The modules, as the evaluator has them.
    pub(crate) modules: Vec<Ref<Module>>,
    /// All other files, test suites among them.
    pub(crate) others: Vec<File>,
    /// All modules together.
    pub(crate) evaluator: Evaluator,
    /// Warnings.
    pub(crate) problems: Vec<Problem>,
}

/// Loads everything of `sources` for its tests. Modules with tests are checked as those that judge are.
///
/// # Errors
/// Returns every problem of every file if one of them is refused.
pub(crate) fn load(sources: &[PolicySource], limits: &Limits) -> Result<Tested, LoadError> {
    let (mut files, mut problems) = files::read(sources, limits);
    // Each rule in Kubescape's layout is a unit by itself; the cases beside it are for Kubescape's own runner.
    let library = kubescape::Library::read(&files, &[], &mut Vec::new());
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
        let mut library = Library::default();
        for file in &others {
            // Problems of templates are reported by the tests of suites that name them.
            if !library.add(file, true, &mut Vec::new()) {
                data::add(&mut data, file, true, &mut problems);
            }
        }
    }
    let loaded = if sources.is_empty() {
        // Suites load their own templates.
        Evaluator::new(engine::empty(limits), engine::empty(limits), limits).ok()
    } else {
        let (sources, problems) = (sources.iter().collect::<Vec<_>>(), &mut problems);
        compile(sources, &data, limits, Missing::default(), problems, Purpose::Test).map(|(_, unit)| unit.evaluator)
    };
    problems.sort();
    problems.dedup();
    match loaded {
        Some(evaluator) if !problems.iter().any(Problem::is_refusal) => {
            let modules = evaluator.engine().get_modules().iter().take(sources.len()).cloned().collect();
            Ok(Tested { sources, modules, others, evaluator, problems })
        }
        _ => Err(LoadError::new(problems)),
    }
}

/// Returns the warning that files of tests are not run, because they are about checks that are not for Kubernetes.
fn without_tests(left_out: &[File]) -> Option<Problem> {
    let mut tests = left_out.iter().filter(|file| file.is_test());
    let first = tests.next()?;
    let others = match tests.count() {
        0 => String::new(),
        1 => ", nor is 1 more file".to_owned(),
        more => format!(", nor are {more} more files"),
    };
    let message = format!("not run{others}: it is about checks of Trivy's that are not for Kubernetes");
    Some(Problem::warning(&first.shown, message))
}
