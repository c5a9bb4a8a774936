//! The references of each definition: other rules, builtins, and parts of the input.

use std::{collections::BTreeSet, fmt::Write as _};

/// Constant keys below `data` or `input`.
pub type Path = Vec<String>;

/// A call by name.
#[derive(Debug)]
pub struct Call {
    /// The name of a builtin, or a path that starts with `data`.
    pub name: String,
    /// The rule that it refers to, if the name starts with a rule, an import or `data`.
    pub rule: Option<Path>,
    /// The line of the call, from 1.
    pub line: u32,
    /// The column of the call, from 1.
    pub column: u32,
}

/// The kind of value that a definition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DefinitionForm {
    /// A value, or a part of one.
    #[default]
    Value,
    /// An element of a set.
    Element,
    /// The value if no other definition has one.
    Default,
}

/// One definition with its references.
#[derive(Debug, Default)]
pub struct Node {
    /// Index of its module.
    pub module: usize,
    /// Index in its module.
    pub rule: usize,
    /// The constant prefix of the path of its value, below `data`.
    pub path: Path,
    /// The number of keys in the path that belong to the package.
    pub package: usize,
    /// Whether all keys of its head are constant.
    pub is_whole: bool,
    /// The kind of value.
    pub form: DefinitionForm,
    /// The number of parameters; `None` unless it is a function.
    pub parameters: Option<usize>,
    /// The line on which it begins, from 1.
    pub line: u32,
    /// The column at which it begins, from 1.
    pub column: u32,
    /// The line on which it ends, from 1.
    pub last_line: u32,
    /// Bytes of stack that it needs by itself.
    pub stack: usize,
    /// The number of collections that it builds.
    pub collections: usize,
    /// Whether its value may be a collection.
    pub(crate) gives_collections: bool,
    /// The paths below `data` that it refers to.
    pub uses: BTreeSet<Path>,
    /// The definitions that these may refer to, and those that it calls or replaces, by their index in all nodes.
    pub(crate) targets: BTreeSet<usize>,
    /// The paths below `data` that it replaces by `with`.
    pub replaces: BTreeSet<Path>,
    /// The calls: functions of the policies, and builtins.
    pub calls: Vec<Call>,
    /// The paths of the input that it reads.
    pub inputs: BTreeSet<Path>,
    /// Whether the whole input is bound to another name, so that later reads are not tracked.
    pub whole_input: bool,
}

/// Prefix of the rules that are tests.
pub(crate) const TEST_PREFIX: &str = "test_";
/// Prefix of tests that do not run yet.
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

/// Appends a key to a reference as Rego writes it: `.key`, or `["a key"]` if it is not an identifier.
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
