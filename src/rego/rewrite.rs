//! The source adapter: Rego as OPA reads it to Rego that the evaluator takes for the same.
//!
//! The evaluator (regorus) parses some legal Rego not at all, and gives some of it another meaning than OPA. Each module
//! is read into a tree by OPA's grammar, every difference is rewritten by a pass of its own, and the tree is written
//! again: line by line, so that errors and results name the right place. A module that this reader cannot read goes to the
//! evaluator as it is, for its error; should the evaluator take it, it is refused all the same.

mod growth;
mod heads;
mod lexer;
mod negation;
mod parser;
mod print;
mod scopes;
mod statements;
mod syntax;
mod terms;
#[cfg(test)]
mod tests;
mod tolerant;

use std::collections::{BTreeMap, HashMap, HashSet};

pub(crate) use self::{
    growth::BOUNDED,
    lexer::Unreadable,
    syntax::Place,
    tolerant::{introduces, support, tolerant},
};
use self::{
    scopes::Fresh,
    syntax::{Import, Module, Name},
};
use super::{
    builtins::{self, Arity},
    limits::Version,
};

/// A module as the evaluator should get it.
#[derive(Debug, Clone)]
pub(crate) struct Adapted {
    pub(crate) text: String,
    pub(crate) version: Version,
    /// What it imports of `data`, which the text says no more, and where.
    pub(crate) imports: Vec<(Vec<String>, Place)>,
}

/// What the modules of a unit define, over all files.
#[derive(Debug, Default)]
struct Outline {
    packages: BTreeMap<Vec<Name>, Package>,
}

/// Rules of one package by their first name.
#[derive(Debug, Default)]
struct Package {
    rules: HashMap<Name, Known>,
    /// What stands before the first variable in heads like `p.q[x]`.
    before_variables: HashSet<Vec<Name>>,
}

/// What is known of the rules of one name.
#[derive(Debug, Default)]
struct Known {
    /// How many parameters they have, if they are functions.
    parameters: Option<usize>,
    /// How many there are beside the default.
    definitions: usize,
}

impl Outline {
    fn add(&mut self, module: &Module) {
        let package = self.packages.entry(module.package.path().unwrap_or_default()).or_default();
        for rule in &module.rules {
            package.before_variables.extend(heads::before_variable(rule, module.version));
            let Some(name) = (match &rule.name.kind {
                syntax::Kind::Ref(head, _) => head.as_name(),
                _ => rule.name.as_name(),
            }) else {
                continue;
            };
            let known = package.rules.entry(name.clone()).or_default();
            known.parameters = known.parameters.or(rule.parameters.as_ref().map(Vec::len));
            known.definitions += usize::from(!rule.default);
        }
    }

    /// Returns how many parameters the function of a name has, that of a rule or a builtin.
    fn arity(&self, package: &Package, path: &[Name]) -> Option<usize> {
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

/// Adapts the modules of one unit, each in its version; where none is given, as version 1 if it is, else as version 0.
///
/// # Errors
/// For each module that cannot be read: why, by the version that it was read further in.
pub(crate) fn adapt<'a>(
    texts: impl IntoIterator<Item = (&'a str, Option<Version>)>,
) -> Vec<Result<Adapted, Unreadable>> {
    let modules: Vec<Result<Module, Unreadable>> =
        texts.into_iter().map(|(text, version)| read(text, version)).collect();
    let mut outline = Outline::default();
    for module in modules.iter().flatten() {
        outline.add(module);
    }
    modules.into_iter().map(|module| rewritten(module?, &outline)).collect()
}

fn read(text: &str, version: Option<Version>) -> Result<Module, Unreadable> {
    if let Some(version) = version {
        return parser::module(text, version);
    }
    let first = match parser::module(text, Version::V1) {
        Ok(module) => return Ok(module),
        Err(why) => why,
    };
    match parser::module(text, Version::V0) {
        Ok(module) => Ok(module),
        Err(second) if first.help.is_none() && second.at > first.at => Err(second),
        Err(_) => Err(first),
    }
}

/// All passes; what one of them takes for granted, those before it have done.
///
/// # Errors
/// For what the evaluator would answer in another way, in whatever words.
fn rewritten(mut module: Module, outline: &Outline) -> Result<Adapted, Unreadable> {
    let none = Package::default();
    let package = outline.packages.get(&module.package.path().unwrap_or_default()).unwrap_or(&none);
    let fresh = &mut Fresh::new(&mut module, package);
    let imports = module.imports.iter().filter_map(of_data).collect();
    scopes::resolve(&mut module, package, fresh);
    statements::templates(&mut module, fresh);
    growth::products(&mut module);
    negation::rewrite(&mut module, package, fresh);
    statements::walks(&mut module, fresh);
    statements::memberships(&mut module);
    statements::replacements(&mut module, package, outline, fresh);
    growth::whole_values(&mut module);
    statements::self_references(&mut module);
    statements::outputs(&mut module, package, outline);
    statements::minus(&mut module);
    heads::bare_functions(&mut module);
    heads::values_before_else(&mut module, fresh);
    heads::keys(&mut module, fresh);
    heads::terms(&mut module, fresh);
    heads::beside_variables(&mut module, package, fresh)?;
    heads::empty_documents(&mut module, fresh);
    tolerant::functions(&mut module, package);
    Ok(Adapted { text: print::module(&module), version: module.version, imports })
}

/// Returns the path below `data` that an import names, and where.
fn of_data(import: &Import) -> Option<(Vec<String>, Place)> {
    let path = import.path.path()?;
    let (first, below) = path.split_first()?;
    let names = below.iter().map(ToString::to_string).collect();
    (&**first == "data" && !below.is_empty()).then_some((names, import.at))
}
