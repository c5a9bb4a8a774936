//! Mutation testing of policies: finds the changes of rules that no test notices.
//!
//! In: directories with modules, their tests and data files. Out: a [`MutationReport`]. The tests that evaluate the
//! changed lines of a mutant run, some at a time and compiled with only the rules that they need, until the value of one
//! differs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    hash::{DefaultHasher, Hash, Hasher},
    panic::resume_unwind,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use kaudit_rego::{
    Evaluator, File, Form, Limits, Policies, SourceLocation, Value,
    analysis::{
        compile::{self, Compiled, DefinitionId, Fault},
        data,
        graph::Graph,
        mutants::Mutant,
        references::{Node, Path},
        syntax::{self, Module, Position},
        test_rules::{self, TestRule, TestShape},
    },
};

/// The stack of a thread that compiles and evaluates policies.
const STACK_BYTES: usize = 64 << 20;
/// The number of tests that are compiled together: most mutants are noticed by one of the first.
const TESTS: usize = 3;

/// Definitions, each with the index of its module.
type Definitions = BTreeSet<(usize, Position)>;

/// The outcome of all mutants.
#[derive(Debug)]
pub struct MutationReport {
    /// By file: the number of mutants that compile, and of those that no test notices.
    pub files: BTreeMap<String, (usize, usize)>,
    /// The mutants that no test notices, by file and position.
    pub unnoticed: Vec<UnnoticedMutant>,
}

/// A mutant that no test notices.
#[derive(Debug)]
pub struct UnnoticedMutant {
    /// The path of the file.
    pub file: String,
    /// The change.
    pub mutant: Mutant,
    /// Whether a test evaluates the changed lines.
    pub evaluated: bool,
}

/// Formats without the position, which changes with other lines of the file.
impl fmt::Display for UnnoticedMutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.file, self.mutant.expression, self.mutant.change)
    }
}

/// Tests the policies in these directories with their mutants, or with a number of them. Which ones does not depend on
/// changes of other rules.
///
/// # Errors
/// If the policies cannot be loaded, or if one of their tests fails.
pub fn test(paths: &[PathBuf], sample: Option<usize>) -> Result<MutationReport, String> {
    let tested = TestedModules::load(paths)?;
    let mut mutants = tested.mutants();
    if let Some(count) = sample {
        mutants.sort_by_cached_key(|(module, mutant)| {
            let mut hasher = DefaultHasher::new();
            (&tested.files[*module].shown, &mutant.expression, &mutant.change).hash(&mut hasher);
            hasher.finish()
        });
        mutants.truncate(count);
    }
    let outcomes = in_parallel(&mutants, |(module, mutant)| tested.outcome(*module, mutant));
    let mut report = MutationReport { files: BTreeMap::new(), unnoticed: Vec::new() };
    for ((module, mutant), outcome) in mutants.into_iter().zip(outcomes) {
        let file = tested.files[module].shown.to_string();
        if outcome == MutantOutcome::Refused {
            continue;
        }
        let (all, unnoticed) = report.files.entry(file.clone()).or_default();
        *all += 1;
        if let MutantOutcome::Unnoticed { evaluated } = outcome {
            *unnoticed += 1;
            report.unnoticed.push(UnnoticedMutant { file, mutant, evaluated });
        }
    }
    report.unnoticed.sort_by(|a, b| (&a.file, a.mutant.at).cmp(&(&b.file, b.mutant.at)));
    Ok(report)
}

#[derive(Debug, PartialEq, Eq)]
enum MutantOutcome {
    /// It does not compile.
    Refused,
    Noticed,
    Unnoticed {
        evaluated: bool,
    },
}

/// A test that passes without a change.
struct PassedTest {
    definition: DefinitionId,
    value: Value,
    /// The evaluated lines, each with the index of its module.
    lines: BTreeSet<(usize, u32)>,
    /// The definitions that it needs, including its own.
    needs: Definitions,
    /// Whether it passes in strict evaluation. It then notices also the removal of a condition that only prevents a
    /// builtin from failing.
    strict: bool,
    took: Duration,
}

/// Modules with their tests.
struct TestedModules {
    files: Vec<File>,
    modules: Vec<Module>,
    data: Value,
    /// The fastest first.
    tests: Vec<PassedTest>,
}

impl TestedModules {
    fn load(paths: &[PathBuf]) -> Result<Self, String> {
        let mut files = Vec::new();
        for path in paths {
            read(path, &[], &mut files).map_err(|why| format!("{}: {why}", path.display()))?;
        }
        let policies = Policies::load(files.clone(), &Limits::default()).map_err(|error| error.to_string())?;
        let data = policies.prepare(&[]).map_err(|error| error.to_string())?.data().clone();
        files.retain(|file| file.form == Form::Rego);
        let modules = files.iter().map(|file| syntax::read(&file.text, file.version()));
        let modules = modules.collect::<Result<Vec<_>, _>>().map_err(|error| format!("{error:?}"))?;
        let mut tested = Self { files, modules, data, tests: Vec::new() };
        tested.tests = tested.passed()?;
        Ok(tested)
    }

    /// Runs all tests; returns them with the fastest first.
    fn passed(&self) -> Result<Vec<PassedTest>, String> {
        let modules: Vec<&Module> = self.modules.iter().collect();
        let resolved = compile::resolve(&modules, std::iter::empty());
        let nodes = resolved.nodes(&modules);
        let graph = Graph::new(&nodes);
        let compiled = resolved.compile().map_err(|_| "the modules do not compile")?;
        let mut tests = Vec::new();
        for (module, own) in modules.into_iter().enumerate() {
            let runs = |test: &TestRule| matches!(test.shape, TestShape::Complete | TestShape::Table) && !test.todo;
            for test in test_rules::tests(own).into_iter().filter(runs) {
                let path: Path = own.package_path().into_iter().chain(test.name).collect();
                let needed = graph.reachable([path.as_slice()]).into_iter().flat_map(|path| graph.at(path));
                let position = |node: &Node| Position { line: node.line, column: node.column };
                let needs = needed.map(|node| (node.module, position(node))).collect();
                let at = SourceLocation { module, at: test.at };
                let definition = DefinitionId { at, depth: path.len() };
                let began = Instant::now();
                let run = |strict| Some((self.values(&compiled, &[definition], strict).next()??, strict));
                let Some(((value, lines), strict)) = run(true).or_else(|| run(false)) else {
                    return Err(format!("{}:{}: the test fails", self.files[module].shown, test.at.line));
                };
                tests.push(PassedTest { definition, value, lines, needs, strict, took: began.elapsed() });
            }
        }
        tests.sort_by_key(|test| test.took);
        if tests.is_empty() { Err("there are no tests".to_owned()) } else { Ok(tests) }
    }

    /// Compiles the modules with a changed one, or only the definitions that are needed.
    fn compile(&self, changed: (usize, &Module), needs: Option<&Definitions>) -> Result<Compiled, Vec<Fault>> {
        let reduced = |(index, module): (usize, &Module)| {
            let module = if index == changed.0 { changed.1 } else { module };
            module.with_rules(|at| needs.is_none_or(|needs| needs.contains(&(index, at))))
        };
        let modules: Vec<Module> = self.modules.iter().enumerate().map(reduced).collect();
        compile::resolve(&modules.iter().collect::<Vec<_>>(), std::iter::empty()).compile()
    }

    /// Evaluates tests one after the other; returns the value of each that passes, and the lines that it evaluates.
    fn values(
        &self,
        compiled: &Compiled,
        tests: &[DefinitionId],
        strict: bool,
    ) -> impl Iterator<Item = Option<(Value, BTreeSet<(usize, u32)>)>> + use<> {
        let (program, planned) = compiled.plan_definitions(tests);
        let evaluator = Evaluator::new(program, self.data.clone(), &Limits { strict, ..Limits::default() });
        planned.into_iter().map(move |rule| {
            let (answer, trace) = evaluator.run_traced(&Value::Undefined, rule.ok()?);
            let value = answer.ok()?.value;
            let is_true = |value: &Value| *value == Value::from(true);
            let passes = match &value {
                Value::Object(cases) => cases.values().all(is_true),
                value => is_true(value),
            };
            let lines = trace.reached.iter().map(|place| (place.module, place.at.line)).collect();
            passes.then_some((value, lines))
        })
    }

    /// Returns the mutants of all modules that are not tests, each with the index of its module.
    fn mutants(&self) -> Vec<(usize, Mutant)> {
        let modules = self.files.iter().zip(&self.modules).enumerate().filter(|(_, (file, _))| !file.is_test());
        let own = |(index, (file, module)): (usize, (&File, &Module))| {
            Mutant::all(module, &file.text).into_iter().map(move |mutant| (index, mutant))
        };
        modules.flat_map(own).collect()
    }

    fn outcome(&self, module: usize, mutant: &Mutant) -> MutantOutcome {
        let changed = mutant.apply(&self.modules[module]);
        let (first, last) = mutant.lines.clone().into_inner();
        let evaluates = |test: &&PassedTest| test.lines.range((module, first)..=(module, last)).next().is_some();
        let (strict, others): (Vec<_>, Vec<_>) = self.tests.iter().filter(evaluates).partition(|test| test.strict);
        if strict.is_empty() && others.is_empty() {
            let compiles = self.compile((module, &changed), None).is_ok();
            return if compiles { MutantOutcome::Unnoticed { evaluated: false } } else { MutantOutcome::Refused };
        }
        for some in strict.chunks(TESTS).chain(others.chunks(TESTS)) {
            let needs: Definitions = some.iter().flat_map(|test| &test.needs).copied().collect();
            let compiled = match self.compile((module, &changed), Some(&needs)) {
                Ok(compiled) => compiled,
                // A test can refuse it as well, for example if it compares the value with one of another type.
                Err(faults) if faults.iter().all(|fault| self.files[fault.module].is_test()) => {
                    return MutantOutcome::Noticed;
                }
                Err(_) => return MutantOutcome::Refused,
            };
            let definitions: Vec<DefinitionId> = some.iter().map(|test| test.definition).collect();
            let values = self.values(&compiled, &definitions, some[0].strict);
            if some.iter().zip(values).any(|(test, now)| now.is_none_or(|(value, _)| value != test.value)) {
                return MutantOutcome::Noticed;
            }
        }
        MutantOutcome::Unnoticed { evaluated: true }
    }
}

/// Reads the modules and the data files below a path, in the order of their names. Kubernetes objects are no data.
fn read(path: &std::path::Path, directories: &[String], files: &mut Vec<File>) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() {
        let mut entries =
            fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
        entries.sort();
        for entry in entries {
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_directory = entry.is_dir() && !name.starts_with('.');
            let below: Vec<String> = directories.iter().cloned().chain(is_directory.then_some(name)).collect();
            if is_directory || entry.is_file() {
                read(&entry, &below, files)?;
            }
        }
    } else if let Some(form) = Form::of(path).filter(|_| !name.starts_with('.')) {
        let mut file = File::new(path.display().to_string().into(), form, fs::read_to_string(path)?);
        file.directories = directories.to_vec();
        let is_object = |value: &serde_json::Value| value.get("kind").is_some() && value.get("apiVersion").is_some();
        let is_data =
            || data::documents(&file).is_ok_and(|documents| documents.len() == 1 && !is_object(&documents[0]));
        if form == Form::Rego || is_data() {
            files.push(file);
        }
    }
    Ok(())
}

/// Runs `work` on all items, on one thread for each core; returns the results in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let indices = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let mine = indices.map_while(|index| Some((index, items.get(index)?)));
        mine.map(|(index, item)| (index, work(item))).collect::<Vec<_>>()
    };
    let mut results = thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, usize::from);
        let start = |_| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).unwrap();
        let threads: Vec<_> = (0..count).map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        threads.into_iter().flat_map(join).collect::<Vec<_>>()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
