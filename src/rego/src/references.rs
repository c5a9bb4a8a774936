//! What each definition refers to: other rules, builtins, and parts of the input.

use std::{collections::BTreeSet, fmt::Write as _};

/// Keys from `data` or `input` on, as far as they are constant.
pub type Path = Vec<String>;

/// A call by name.
#[derive(Debug)]
pub struct Call {
    /// The name of a builtin, or a path as it is written from `data` on.
    pub name: String,
    /// The rule that it names, if the name begins with a rule, an import or `data`.
    pub rule: Option<Path>,
    /// The line of the call, from 1.
    pub line: u32,
    /// The column of the call, from 1.
    pub column: u32,
}

/// What a definition gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DefinitionForm {
    /// A value, or a part of one.
    #[default]
    Value,
    /// An element of a set.
    Element,
    /// A value where no other definition gives one.
    Default,
}

/// One definition and what it refers to.
#[derive(Debug, Default)]
pub struct Node {
    /// Index of its module.
    pub module: usize,
    /// Index in its module.
    pub rule: usize,
    /// Where its value is found below `data`, as far as that is constant.
    pub path: Path,
    /// How many keys of the path are those of the package.
    pub package: usize,
    /// Whether all keys of its head are constant.
    pub is_whole: bool,
    /// What the definition gives.
    pub form: DefinitionForm,
    /// Parameters; `None` unless it is a function.
    pub parameters: Option<usize>,
    /// The line on which it begins, from 1.
    pub line: u32,
    /// The column at which it begins, from 1.
    pub column: u32,
    /// The line on which it ends, from 1.
    pub last_line: u32,
    /// Bytes of stack that it needs by itself.
    pub stack: usize,
    /// Collections that it writes.
    pub collections: usize,
    /// Whether its value may hold others.
    pub(crate) gives_collections: bool,
    /// What it refers to below `data`.
    pub uses: BTreeSet<Path>,
    /// The definitions that these may mean, and those that it calls or replaces, by their index in all nodes.
    pub(crate) targets: BTreeSet<usize>,
    /// What it replaces below `data`, by `with`.
    pub replaces: BTreeSet<Path>,
    /// What it calls: functions of the policies, and builtins.
    pub calls: Vec<Call>,
    /// What it reads of the input.
    pub inputs: BTreeSet<Path>,
    /// Whether the whole input becomes a value of its own, so that later reads of it are not seen.
    pub whole_input: bool,
}

/// Prefix of the rules that are tests.
pub(crate) const TEST_PREFIX: &str = "test_";
/// Prefix of the rules that are tests which are not to be run yet.
pub(crate) const TODO_PREFIX: &str = "todo_test_";

/// Whether a rule of this name is a test.
pub(crate) fn is_test_name(name: &str) -> bool {
    name.starts_with(TEST_PREFIX) || name.starts_with(TODO_PREFIX)
}

impl Node {
    /// Returns the path of its package.
    pub fn package(&self) -> &[String] {
        &self.path[..self.package]
    }

    /// Returns its name in its package.
    pub fn name(&self) -> Option<&String> {
        self.path.get(self.package)
    }

    /// Whether it is a test: `test_x` or `todo_test_x`.
    pub fn is_test(&self) -> bool {
        self.name().is_some_and(|name| is_test_name(name))
    }
}

/// Adds a key to a reference as Rego writes it: `.key`, or `["a key"]` if it is no identifier.
pub fn push_key(reference: &mut String, key: &str) {
    let is_identifier = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_identifier {
        if !reference.is_empty() {
            reference.push('.');
        }
        reference.push_str(key);
    } else {
        let _ = write!(reference, "[{}]", serde_json::Value::from(key));
    }
}
