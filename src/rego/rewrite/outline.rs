//! What the modules that are evaluated together define, over all files.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::rego::{
    builtins::{self, Arity},
    syntax::{Key, Kind, Module, Name, Rule, Version, path},
};

/// Every package, by its path.
#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) packages: BTreeMap<Vec<Name>, Package>,
}

/// Rules of one package by their first name.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) rules: HashMap<Name, Definitions>,
    /// What comes before the first variable in heads like `p.q[x]`.
    pub(super) before_variables: HashSet<Vec<Name>>,
}

/// The definitions of one name.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// How many parameters they have; `None` unless they are functions.
    pub(super) parameters: Option<usize>,
    /// How many there are, without the default.
    pub(super) count: usize,
}

impl Outline {
    pub(super) fn add(&mut self, module: &Module) {
        let package = self.packages.entry(module.package.path().unwrap_or_default()).or_default();
        for rule in &module.rules {
            package.before_variables.extend(before_variable(rule, module.version));
            let Some(name) = rule.first_name() else { continue };
            let definitions = package.rules.entry(name.clone()).or_default();
            definitions.parameters = definitions.parameters.or(rule.parameters.as_ref().map(Vec::len));
            definitions.count += usize::from(!rule.default);
        }
    }

    /// Returns how many parameters the function of a name has, that of a rule or a builtin.
    pub(super) fn arity(&self, package: &Package, path: &[Name]) -> Option<usize> {
        if let [name] = path
            && let Some(known) = package.rules.get(name)
        {
            return known.parameters;
        }
        if let [data, package @ .., name] = path
            && &**data == "data"
        {
            return self.packages.get(package)?.rules.get(name)?.parameters;
        }
        let name: Vec<&str> = path.iter().map(|name| &**name).collect();
        match builtins::find(&name.join("."))? {
            Arity::Exactly(arity) => Some(usize::from(arity)),
            Arity::Any => None,
        }
    }
}

/// Returns what comes before the first variable in the head of a rule, as `p` and `q` in `p.q[x] := 1`. Elements of sets have none.
fn before_variable(rule: &Rule, version: Version) -> Option<Vec<Name>> {
    let Kind::Ref(head, keys) = &rule.name.kind else { return None };
    let first = keys.iter().position(Key::is_variable)?;
    let element = version == Version::V0 && keys.len() == 1 && rule.first.value.is_none() && rule.contains.is_none();
    if rule.parameters.is_some() || element {
        return None;
    }
    path(head, &keys[..first])
}
