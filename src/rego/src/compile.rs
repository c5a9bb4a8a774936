//! The compiler: resolves syntax trees, refuses what OPA's compiler refuses, and plans programs.
//!
//! The stages are those of OPA: names, conflicts of rules, calls, safety of variables, types. Every problem has the
//! line in the source. A rule that calls a missing function is not checked further; `check` reports the function.

mod calls;
mod depth;
mod env;
pub(crate) mod fault;
mod flatten;
mod infer;
mod nodes;
mod order;
mod outputs;
mod plan;
mod replace;
mod resolve;
mod safety;
mod scope;
mod show;
pub mod term;
mod tree;
pub mod visit;

use std::collections::{BTreeMap, BTreeSet};

pub use self::fault::Fault;
use self::{
    order::Order,
    replace::Replacer,
    resolve::{Globals, Meanings},
    term::{DATA, Function, INPUT, ResolvedRule, ResolvedStatement, Variable, Variables},
    tree::{Packages, RuleTree},
};
use super::{
    builtins::declarations,
    constant::Constant,
    program::{Program, RuleId, SourceLocation, UnsupportedFeature},
    references::{Node, Path},
    syntax::{Expr, ExprKind, Key, Module, Name, Position},
};

/// Runs all stages on modules that are evaluated together. Rules in `missing` can be referenced by name.
///
/// # Errors
/// Returns the faults found up to the first stage that prevents all later ones.
pub fn compile<'a>(modules: &[&Module], missing: impl Iterator<Item = &'a Path>) -> Result<Compiled, Vec<Fault>> {
    resolve(modules, missing).compile()
}

/// Resolves the names of modules that are evaluated together. Rules in `missing` can be referenced by name.
pub fn resolve<'a>(modules: &[&Module], missing: impl Iterator<Item = &'a Path>) -> Resolved {
    let mut faults = Vec::new();
    let compiled = Compiled::new(modules, missing, &mut faults);
    Resolved { compiled, faults }
}

/// Modules whose names are resolved, as far as possible.
pub struct Resolved {
    compiled: Compiled,
    faults: Vec<Fault>,
}

impl Resolved {
    /// Returns the references of each definition; `modules` are the ones that were resolved.
    pub fn nodes(&self, modules: &[&Module]) -> Vec<Node> {
        nodes::nodes(modules, &self.compiled.rules)
    }

    /// Runs all further stages.
    ///
    /// # Errors
    /// Returns the faults found up to the first stage that prevents all later ones.
    pub fn compile(self) -> Result<Compiled, Vec<Fault>> {
        let Self { mut compiled, mut faults } = self;
        compiled.run(&mut faults);
        if faults.is_empty() {
            return Ok(compiled);
        }
        faults.sort_by(|a, b| (a.module, a.at, &a.message).cmp(&(b.module, b.at, &b.message)));
        faults.dedup_by(|a, b| (a.module, a.at, &a.message) == (b.module, b.at, &b.message));
        Err(faults)
    }
}

/// A definition, and the length of the path at which it is evaluated; the remaining keys of its path are keys in its
/// value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefinitionId {
    /// Where the definition is written.
    pub at: SourceLocation,
    /// The number of keys, including the package, of the path that is evaluated.
    pub depth: usize,
}

/// Modules that passed all checks, with names resolved and statements in evaluation order.
pub struct Compiled {
    rules: Vec<ResolvedRule>,
    variables: Variables,
    /// Paths and positions of the packages.
    packages: Vec<(Vec<Constant>, Position)>,
    /// The builtins that some `with` replaces.
    replaced: BTreeSet<Name>,
    /// By module, whether lookups in values that are always empty are accepted.
    lenient: Vec<bool>,
    /// By module, whether `print` is evaluated.
    keeps_prints: Vec<bool>,
}

impl Compiled {
    /// Resolves the names of all modules.
    fn new<'a>(modules: &[&Module], missing: impl Iterator<Item = &'a Path>, faults: &mut Vec<Fault>) -> Self {
        let packages: Vec<(Vec<Constant>, Position)> =
            modules.iter().map(|module| (package(module), module.at)).collect();
        let rules_of = |(package, names): (Vec<Constant>, Vec<Name>)| {
            let meanings = meanings(&package, &names);
            (package, meanings)
        };
        let rules_of: BTreeMap<_, _> = names(modules, missing, &packages).into_iter().map(rules_of).collect();
        let none = Meanings::new();
        let mut variables = Variables::new();
        let mut rules = Vec::new();
        for (index, module) in modules.iter().enumerate() {
            let package = &packages[index].0;
            let globals = Globals { package: rules_of.get(package).unwrap_or(&none), imports: imported(module) };
            rules.extend(resolve::module((index, module), package, &globals, &mut variables, faults));
        }
        let lenient = modules.iter().map(|module| module.may_look_up_nothing).collect();
        let keeps_prints = modules.iter().map(|module| module.keeps_prints).collect();
        Self { rules, variables, packages, replaced: BTreeSet::new(), lenient, keeps_prints }
    }

    /// Returns the definitions, those of each module in their order.
    pub fn rules(&self) -> &[ResolvedRule] {
        &self.rules
    }

    /// Whether a variable was written as `_`, so that its value is not used.
    pub fn is_wildcard(&self, variable: Variable) -> bool {
        self.variables.is_wildcard(variable)
    }

    /// Plans the rules at these paths, and all rules that they depend on.
    pub fn plan<'p>(&self, entries: impl Iterator<Item = &'p Path>) -> Program {
        plan::plan(self, entries, None)
    }

    /// Plans the rule at a path; the package of that name is not visible in `data`.
    pub(crate) fn plan_query(&self, package: &str, entry: &Path) -> Program {
        plan::plan(self, std::iter::once(entry), Some(package))
    }

    /// Plans the rule at a path with its statements in source order.
    pub(crate) fn plan_traced(&self, entry: &Path) -> Program {
        plan::plan_traced(self, entry)
    }

    /// Returns the start positions of the statements of a rule's first definition, in evaluation order. Notes, and the
    /// parts of statements that are evaluated before them, are left out.
    pub(crate) fn statement_order(&self, path: &[String]) -> Vec<Position> {
        let is_it = |rule: &&ResolvedRule| rule.ground_path().iter().map(Constant::plain).eq(path.iter().cloned());
        let body = self.rules.iter().find(is_it).map(|rule| rule.body.as_slice()).unwrap_or_default();
        let is_written = |statement: &&ResolvedStatement| !statement.generated && !calls::is_note_statement(statement);
        body.iter().filter(is_written).map(|statement| statement.at).collect()
    }

    /// Plans definitions individually, for coverage.
    pub fn plan_definitions(&self, definitions: &[DefinitionId]) -> (Program, Vec<Result<RuleId, UnsupportedFeature>>) {
        plan::plan_definitions(self, definitions)
    }

    fn run(&mut self, faults: &mut Vec<Fault>) {
        if stopped(faults) {
            return;
        }
        let arities = Arities::new(&self.rules);
        let arity = |function: &Function| arities.of(function);
        for rule in &self.rules {
            calls::without_value(rule, &arity, &self.variables, faults);
            calls::templates(rule, &self.variables, faults);
        }
        if stopped(faults) {
            return;
        }
        for rule in &mut self.rules {
            let keeps_prints = self.keeps_prints[rule.module];
            flatten::rule(rule, keeps_prints, &mut self.variables);
        }
        let tree = RuleTree::new(&self.rules);
        let parameters: Vec<usize> = self.rules.iter().map(ResolvedRule::arity).collect();
        let (variables, replaced) = (&mut self.variables, &mut self.replaced);
        let mut values = Replacer { tree: &tree, arities: &parameters, variables, replaced, faults };
        self.rules.iter_mut().for_each(|rule| values.rule(rule));
        if stopped(faults) {
            return;
        }
        let packages = self.packages.iter().enumerate().map(|(index, (path, at))| (index, path.as_slice(), *at));
        faults.extend(tree::conflicts(&tree, &self.rules, &Packages::new(packages)));
        if stopped(faults) {
            return;
        }
        let mut known = Vec::with_capacity(self.rules.len());
        for rule in &self.rules {
            let (functions, wrong) = calls::functions(rule, &arity);
            known.push(functions);
            faults.extend(wrong);
        }
        if stopped(faults) {
            return;
        }
        let checked = || known.iter().enumerate().filter(|(_, known)| **known).map(|(index, _)| index);
        checked().for_each(|index| safety::heads(&self.rules[index], &self.variables, faults));
        if stopped(faults) {
            return;
        }
        for index in checked() {
            safety::bodies(&mut self.rules[index], &arity, &self.variables, faults);
        }
        if stopped(faults) {
            return;
        }
        for index in checked() {
            flatten::dynamics(&mut self.rules[index], &mut self.variables);
        }
        let order = Order::new(tree, &self.rules);
        faults.extend(infer::check(&self.rules, (&known, &self.lenient), &order, &self.variables));
    }
}

/// Whether a fault was found that has to be fixed before other stages can run.
fn stopped(faults: &[Fault]) -> bool {
    faults.iter().any(|fault| !fault.recoverable)
}

/// The numbers of parameters of the rules.
struct Arities {
    rules: BTreeMap<Vec<Constant>, usize>,
}

impl Arities {
    fn new(rules: &[ResolvedRule]) -> Self {
        let mut arities = BTreeMap::new();
        for rule in rules {
            arities.entry(rule.ground_path()).or_insert_with(|| rule.arity());
        }
        Self { rules: arities }
    }

    /// Returns the arity of a function; for a variadic one, the largest number.
    fn of(&self, function: &Function) -> Option<usize> {
        match function {
            Function::Builtin(name) => {
                let declaration = declarations::declaration(name)?;
                Some(if declaration.is_variadic() { usize::MAX } else { declaration.arity })
            }
            Function::Rule(path) => self.rules.get(path).copied(),
            Function::Unknown(_) => None,
        }
    }
}

fn package(module: &Module) -> Vec<Constant> {
    constants(&module.package).unwrap_or_default()
}

/// Returns the name and the keys of a path; `None` if one of them is not constant.
fn constants(path: &Expr) -> Option<Vec<Constant>> {
    let name = |name: &Name| Constant::String(name.as_ref().into());
    let key = |key: &Key| match key {
        Key::Dot(key) => Some(name(key)),
        Key::Index(Expr { kind: ExprKind::Scalar(text), .. }) => Constant::scalar(text),
        Key::Index(_) => None,
    };
    match &path.kind {
        ExprKind::Name(first) => Some(vec![name(first)]),
        ExprKind::Ref(head, keys) => std::iter::once(head.as_name().map(name)).chain(keys.iter().map(key)).collect(),
        _ => None,
    }
}

/// Returns the names of the rules of each package.
fn names<'a>(
    modules: &[&Module],
    missing: impl Iterator<Item = &'a Path>,
    packages: &[(Vec<Constant>, Position)],
) -> BTreeMap<Vec<Constant>, Vec<Name>> {
    let mut names: BTreeMap<Vec<Constant>, Vec<Name>> = BTreeMap::new();
    for (module, (package, _)) in modules.iter().zip(packages) {
        let rules = module.rules.iter().filter_map(|rule| rule.first_name().cloned());
        names.entry(package.clone()).or_default().extend(rules);
    }
    for path in missing {
        let path: Vec<Constant> = path.iter().map(|key| Constant::String(key.as_str().into())).collect();
        for (length, name) in path.iter().enumerate() {
            if let (Some(names), Constant::String(name)) = (names.get_mut(&path[..length]), name) {
                names.push(name.as_ref().into());
            }
        }
    }
    names
}

/// Returns the documents that the names of a package's rules refer to.
fn meanings(package: &[Constant], names: &[Name]) -> Meanings {
    let path = |name: &Name| package.iter().cloned().chain([Constant::String(name.as_ref().into())]).collect();
    names.iter().map(|name| (name.clone(), (DATA, path(name)))).collect()
}

/// Returns the documents that the imports of a module refer to.
fn imported(module: &Module) -> Meanings {
    let mut imports = Meanings::new();
    for import in &module.imports {
        let (Some(name), Some(path)) = (import.name(), constants(&import.path)) else { continue };
        let document = if path.first().is_some_and(|first| first.plain() == "data") { DATA } else { INPUT };
        imports.insert(name, (document, path[1..].to_vec()));
    }
    imports
}
