//! A unit: modules that are evaluated together, with one engine, and the rules of them that judge.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    sync::Arc,
};

use anyhow::Result;
use regorus::{
    Engine, Value,
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
        evaluator::{Evaluator, Failure, GENERATED},
        references::{self, Node, Path},
    },
};

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
    evaluator: Evaluator,
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

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit").field("groups", &self.groups).finish_non_exhaustive()
    }
}

impl Unit {
    /// Completes an engine that holds all modules and data with the rules that ask for the results; `bare` is the same
    /// engine without modules.
    ///
    /// # Errors
    /// Returns regorus' error about the modules: until here it has parsed them one by one, now it prepares them together.
    pub(crate) fn new(engine: Engine, bare: Engine, groups: Vec<Group>) -> Result<Self> {
        let evaluator = Evaluator::new(engine, bare, &generated(&groups))?;
        let nodes = references::read(evaluator.engine().get_modules(), std::iter::empty());
        let looks_up = groups.iter().any(|group| !group.scopes.inventory().is_empty());
        let (constraints, blocks, depends) = (Vec::new(), Vec::new(), Dependencies::default());
        Ok(Self { evaluator, groups, constraints, blocks, depends, looks_up, taken: taken(&nodes) })
    }

    /// Returns the unit with these objects to look up. Rules and data files stand before objects, where both would be.
    pub(crate) fn with_inventory(&self, inventory: &Inventory) -> Result<Self> {
        if !self.looks_up {
            return Ok(self.clone());
        }
        let own = self.evaluator.data();
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
        Ok(Self { evaluator: self.evaluator.with_data(Value::from(data))?, ..self.clone() })
    }

    /// Whether its rules are asked about every object; those of a template are by its Constraints.
    pub(crate) fn asks_everything(&self) -> bool {
        self.constraints.is_empty() && !self.groups.is_empty()
    }

    /// An engine of its own, to be asked what no rule that judges asks.
    pub(crate) fn engine(&self) -> Engine {
        self.evaluator.engine()
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
        self.evaluator.rule(input, rule)
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
        definition: (&Ref<Module>, &Ref<unstable::Rule>),
        path: &Path,
        covers: bool,
    ) -> (Result<Value, Failure>, Engine) {
        self.evaluator.definition(input, definition, path, covers)
    }
}

/// Returns the keys right below the inventory's documents that rules take: `admission` of `package kubernetes.admission`.
fn taken(nodes: &[Node]) -> BTreeSet<(String, String)> {
    let in_document = |node: &&Node| node.path.first().is_some_and(|first| INVENTORIES.contains(&first.as_str()));
    let key = |node: &Node| Some((node.path.first()?.clone(), node.path.get(1)?.clone()));
    nodes.iter().filter(in_document).filter_map(key).collect()
}

/// Returns the rules that ask for the results of all groups.
fn generated(groups: &[Group]) -> String {
    let mut text = String::new();
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
