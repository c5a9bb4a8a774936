//! A unit: modules that are evaluated together, with one engine, and the rules of them that judge.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use anyhow::{Context, Result};
use regorus::{
    Engine, LimitError, Value,
    unstable::{self, Module, Ref},
};

use super::{
    dependencies::{Dependencies, INVENTORIES},
    dialect::Dialect,
    gatekeeper::{Block, Constraint},
    metadata::Metadata,
    policy::Rule,
    reads::{Reads, Scopes},
};
use crate::{
    judge::inventory::Inventory,
    model::verdict::Source,
    rego::{
        builtins::budget,
        limits::Version,
        lost::Lost,
        parse::{Told, told},
        references::{self, Node, Path},
        rewrite, value,
    },
};

/// The package of the generated rules. Nobody's policy is called that.
pub(crate) const GENERATED: &str = "kaudit_generated";

/// The most that a rule may say of one object, in bytes.
pub(crate) const LARGEST_ANSWER: usize = 4 << 20;

/// How a rule's value says that something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `deny contains x`: each element is a result.
    Set,
    /// `deny[key] := x`: each value is a result.
    Object,
    /// `deny := x`: the value is the result, or several.
    Complete,
}

/// One rule that judges, with all its definitions.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The package, as results name it.
    pub(crate) policy: Arc<str>,
    pub(crate) rule: Rule,
    pub(crate) shape: Shape,
    /// Keys from `data` on.
    pub(crate) path: Path,
    /// Index of the exceptions that may apply; the name behind `deny_` is what they list.
    pub(crate) exception: Option<(usize, Value)>,
    pub(crate) definitions: Vec<Definition>,
    /// Whether it looks at how the object came to be as it is.
    pub(crate) transition: bool,
}

/// One definition of a rule that judges.
#[derive(Clone)]
pub(crate) struct Definition {
    pub(crate) module: Ref<Module>,
    pub(crate) rule: Ref<unstable::Rule>,
    pub(crate) source: Source,
    pub(crate) metadata: Arc<Metadata>,
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source.file, self.source.line)
    }
}

/// The `exception` rule of one package.
#[derive(Debug, Clone)]
pub(crate) struct Exception {
    pub(crate) policy: Arc<str>,
    pub(crate) path: Path,
    pub(crate) source: Source,
}

/// All rules of a unit that take the same input. They are asked for at once: the engine forgets everything between two
/// questions, so that rules which share helpers would compute them again and again.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) dialect: Dialect,
    pub(crate) entries: Vec<Entry>,
    pub(crate) exceptions: Vec<Exception>,
    /// What is asked about which kind.
    pub(crate) scopes: Scopes,
}

impl Group {
    /// The generated rule that asks for all of one question at once.
    pub(crate) fn all(&self, question: usize) -> String {
        format!("data.{GENERATED}.{}_all_{question}", self.dialect)
    }

    /// The generated rule that asks for one; exceptions are counted on behind the entries.
    pub(crate) fn one(&self, index: usize) -> String {
        format!("data.{GENERATED}.{}_{index}", self.dialect)
    }

    /// How many answers the question for all has.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() + self.exceptions.len()
    }

    fn paths(&self) -> Vec<&Path> {
        let exceptions = self.exceptions.iter().map(|exception| &exception.path);
        self.entries.iter().map(|entry| &entry.path).chain(exceptions).collect()
    }
}

/// Modules that are evaluated together.
#[derive(Clone)]
pub(crate) struct Unit {
    engine: Engine,
    tolerant: Tolerant,
    pub(crate) groups: Vec<Group>,
    /// Of a Gatekeeper template: the Constraints that ask its one rule.
    pub(crate) constraints: Vec<Constraint>,
    /// Of a Gatekeeper template: where its modules stand in the file.
    pub(crate) blocks: Vec<Block>,
    /// What its rules depend on.
    pub(crate) depends: Dependencies,
    /// Whether its rules look other objects up.
    looks_up: bool,
    /// Keys of the inventory's documents where rules stand.
    taken: BTreeSet<(String, String)>,
}

/// An engine for what the first one failed on; made when it is first needed, of the first one's modules and data.
struct Tolerant {
    /// An engine without modules.
    bare: Engine,
    engine: OnceLock<Option<Engine>>,
}

impl Clone for Tolerant {
    /// The clone makes its own engine: it may be given other data.
    fn clone(&self) -> Self {
        Self { bare: self.bare.clone(), engine: OnceLock::new() }
    }
}

impl Tolerant {
    fn of(&self, first: &Engine) -> Option<Engine> {
        self.engine.get_or_init(|| self.make(first).ok()).clone()
    }

    fn make(&self, first: &Engine) -> Result<Engine> {
        let mut engine = self.bare.clone();
        engine.clear_data();
        engine.add_data(first.get_data())?;
        for source in first.get_policies()? {
            let (text, version) = rewrite::tolerant(source.get_contents()).context("a module that was read before")?;
            engine.set_rego_v0(version == Version::V0);
            engine.add_policy(source.get_path().clone(), text)?;
        }
        prepare(&mut engine)?;
        Ok(engine)
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit").field("groups", &self.groups).finish_non_exhaustive()
    }
}

/// Why a question got no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The policy, or the evaluator, says why.
    Told(Told),
    /// The evaluator panicked.
    Panicked,
    /// It took longer than it may.
    TimedOut,
    /// It says more than [`LARGEST_ANSWER`].
    TooLarge,
    /// The rules before it used up the object's time.
    OutOfTime,
}

impl Failure {
    pub(crate) fn told(reason: String) -> Self {
        Self::Told(Told { place: None, reason })
    }
}

impl Unit {
    /// Completes an engine that holds all modules and data with the rules that ask for the results; `bare` is the same
    /// engine without modules.
    ///
    /// # Errors
    /// Returns regorus' error about the modules: until here it has parsed them one by one, now it prepares them together.
    pub(crate) fn new(mut engine: Engine, bare: Engine, groups: Vec<Group>) -> Result<Self> {
        engine.set_rego_v0(false);
        engine.add_policy(format!("{GENERATED}.rego"), generated(&groups))?;
        prepare(&mut engine)?;
        let nodes = references::read(engine.get_modules(), &Lost::default());
        let looks_up = groups.iter().any(|group| !group.scopes.inventory().is_empty());
        let (constraints, blocks, depends) = (Vec::new(), Vec::new(), Dependencies::default());
        let tolerant = Tolerant { bare, engine: OnceLock::new() };
        Ok(Self { engine, tolerant, groups, constraints, blocks, depends, looks_up, taken: taken(&nodes) })
    }

    /// Returns the unit with these objects to look up. Rules and data files stand before objects, where both would be.
    pub(crate) fn with_inventory(&self, inventory: &Inventory) -> Result<Self> {
        if !self.looks_up {
            return Ok(self.clone());
        }
        let own = self.engine.get_data();
        let mut data = BTreeMap::new();
        for name in INVENTORIES {
            let mut document = inventory.document(name).clone();
            let before = &own[name];
            if !matches!(before, Value::Object(_) | Value::Undefined) {
                continue;
            }
            let owned = before.as_object().ok().into_iter().flat_map(|fields| fields.keys().cloned());
            let ruled = self.taken.iter().filter(|(first, _)| first == name).map(|(_, key)| Value::from(key.as_str()));
            for key in owned.chain(ruled) {
                document.as_object_mut()?.remove(&key);
            }
            data.insert(Value::from(name), document);
        }
        let mut engine = self.engine.clone();
        engine.add_data(Value::from(data))?;
        prepare(&mut engine)?;
        Ok(Self { engine, ..self.clone() })
    }

    /// Whether its rules are asked about every object; those of a template are by its Constraints.
    pub(crate) fn asks_everything(&self) -> bool {
        self.constraints.is_empty() && !self.groups.is_empty()
    }

    /// An engine of its own, to be asked what no rule that judges asks.
    pub(crate) fn engine(&self) -> Engine {
        self.engine.clone()
    }

    /// Returns what its rules read of objects of a kind.
    pub(crate) fn reads(&self, kind: &str) -> Reads {
        let scopes = self.groups.iter().filter_map(|group| group.scopes.of(kind));
        scopes.flat_map(|scope| &scope.reads).fold(Reads::default(), |mut all, reads| {
            all.merge(reads);
            all
        })
    }

    /// Asks for one rule's value; after an error once more, so that only what is one to OPA remains.
    pub(crate) fn ask(&self, input: &Value, rule: &str) -> Result<Value, Failure> {
        self.twice(input, |engine| engine.eval_rule(rule.to_owned())).0
    }

    /// Returns the answer and the engine that gave it.
    fn twice(&self, input: &Value, ask: impl Fn(&mut Engine) -> Result<Value>) -> (Result<Value, Failure>, Engine) {
        let once = |mut engine: Engine| {
            engine.set_input(input.clone());
            (caught(|| ask(&mut engine)), engine)
        };
        let first = once(self.engine.clone());
        if !matches!(first.0, Err(Failure::Told(_))) {
            return first;
        }
        let Some(tolerant) = self.tolerant.of(&self.engine) else { return first };
        // All that the first one made goes before the second one begins.
        drop(first);
        once(tolerant)
    }

    /// Asks for what one definition alone adds to its rule.
    pub(crate) fn ask_definition(
        &self,
        input: &Value,
        entry: &Entry,
        definition: &Definition,
    ) -> Result<Value, Failure> {
        self.ask_alone(input, (&definition.module, &definition.rule), &entry.path, false).0
    }

    /// Asks for what one definition of a rule alone gives at a path. Returns also the engine that was asked, which knows
    /// what was printed and, if `covers`, what was evaluated.
    pub(crate) fn ask_alone(
        &self,
        input: &Value,
        (module, rule): (&Ref<Module>, &Ref<unstable::Rule>),
        path: &Path,
        covers: bool,
    ) -> (Result<Value, Failure>, Engine) {
        self.twice(input, |engine| {
            engine.set_enable_coverage(covers);
            let (module, rule) = same_rule(engine, rule).unwrap_or_else(|| (module.clone(), rule.clone()));
            let data = engine.eval_rule_in_module(&module, &rule, false)?;
            Ok(path.iter().fold(data, |value, key| value[key.as_str()].clone()))
        })
    }
}

/// Returns the keys right below the inventory's documents that rules take: `admission` of `package kubernetes.admission`.
fn taken(nodes: &[Node]) -> BTreeSet<(String, String)> {
    let in_document = |node: &&Node| node.path.first().is_some_and(|first| INVENTORIES.contains(&first.as_str()));
    let key = |node: &Node| Some((node.path.first()?.clone(), node.path.get(1)?.clone()));
    nodes.iter().filter(in_document).filter_map(key).collect()
}

/// Makes the engine look at all its modules together.
pub(crate) fn prepare(engine: &mut Engine) -> Result<()> {
    let prepared = catch_unwind(AssertUnwindSafe(|| engine.eval_rule(format!("data.{GENERATED}.ready"))));
    prepared.ok().context("the evaluator failed on these modules")?.map(drop)
}

/// Finds a rule among the modules of another engine.
fn same_rule(engine: &mut Engine, rule: &Ref<unstable::Rule>) -> Option<(Ref<Module>, Ref<unstable::Rule>)> {
    let wanted = rule.span();
    engine.get_modules().iter().find_map(|module| {
        let rule = module.policy.iter().find(|rule| {
            let span = rule.span();
            (span.line, span.col) == (wanted.line, wanted.col) && span.source.get_path() == wanted.source.get_path()
        })?;
        Some((module.clone(), rule.clone()))
    })
}

/// Asks an engine that is not needed any more if that fails.
pub(crate) fn caught(ask: impl FnOnce() -> Result<Value>) -> Result<Value, Failure> {
    budget::renew();
    // The engine is a clone that is dropped with whatever state the panic left in it.
    match catch_unwind(AssertUnwindSafe(ask)) {
        Ok(Ok(value)) if !value::fits(&value, LARGEST_ANSWER) => Err(Failure::TooLarge),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let text = format!("{error:#}");
            let limit = matches!(error.downcast_ref(), Some(LimitError::TimeLimitExceeded { .. }));
            // Inside functions regorus keeps only the text of an error.
            if limit || text.contains("execution exceeded time limit") {
                Err(Failure::TimedOut)
            } else {
                Err(Failure::Told(told(&text)))
            }
        }
        Err(_) => Err(Failure::Panicked),
    }
}

/// Returns the module that asks for the results of all groups.
fn generated(groups: &[Group]) -> String {
    let mut text = format!("package {GENERATED}\n\nready := true\n");
    for group in groups {
        let paths: Vec<String> = group.paths().into_iter().map(reference).collect();
        for (index, path) in paths.iter().enumerate() {
            let _ = writeln!(text, "\n{}_{index} := {path}", group.dialect);
        }
        for (question, asked) in group.scopes.questions.iter().enumerate() {
            let mut all = String::new();
            for index in asked {
                let path = &paths[*index];
                // A rule without a value must not take the others with it: its place stays empty. Sets always have one.
                let set = group.entries.get(*index).is_some_and(|entry| entry.shape == Shape::Set);
                let _ = if set { writeln!(all, "\t[{path}],") } else { writeln!(all, "\t[value | value := {path}],") };
            }
            let _ = writeln!(text, "\n{}_all_{question} := [\n{all}]", group.dialect);
        }
    }
    text
}

/// Writes a path below `data` as Rego.
fn reference(path: &Path) -> String {
    let mut text = String::from("data");
    for key in path {
        let plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let _ =
            if plain { write!(text, ".{key}") } else { write!(text, "[{}]", serde_json::Value::from(key.as_str())) };
    }
    text
}
