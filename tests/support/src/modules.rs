//! Random modules and inputs.
//!
//! A rule refers only to earlier ones, so that none is recursive. Terms are chosen from what is in scope, so that most
//! modules are accepted; refused ones are compared as well.

mod builtins;
mod input;
mod module;
mod rules;
mod statements;
mod terms;

use fastrand::Rng;

pub use self::module::RandomModule;
use self::module::{ModuleSyntax, RandomDefinition, RandomText};

const LITERALS: [&str; 10] = ["1", "0", "2", "\"a\"", "\"web\"", "true", "false", "null", "1.5", "\"Pod\""];
/// METADATA of packages.
const PACKAGE_COMMENTS: [&str; 4] = [
    "# METADATA\n# title: A package\n# custom: {kinds: [Pod]}\n",
    "# METADATA\n# scope: subpackages\n# description: for all below\n",
    "# METADATA\n# scope: package\n# entrypoint: true\n",
    "# nothing but a comment\n",
];
/// Documents that a module may import, with their aliases.
const DOCUMENTS: [(&str, &str); 5] = [
    ("input.spec", "podspec"),
    ("input.metadata", "meta"),
    ("input", "object_in"),
    ("data.settings", "settings"),
    ("data.settings.limits", "limits"),
];

/// A rule or function that a reference may name.
#[derive(Clone)]
struct KnownRule {
    /// Its name in the current module.
    name: String,
    /// Its name as a target of `with`.
    target: String,
    /// The number of parameters; 0 for a rule.
    arity: usize,
}

impl KnownRule {
    fn rule(name: &str) -> Self {
        Self { name: name.to_owned(), target: name.to_owned(), arity: 0 }
    }
}

/// Generates modules and inputs.
pub struct ModuleGenerator {
    random: Rng,
    known: Vec<KnownRule>,
    /// The variables in scope.
    variables: Vec<String>,
    /// The number of variables so far.
    names: usize,
    /// Whether iteration is not allowed.
    is_closed: bool,
    /// The syntax of the current module.
    syntax: ModuleSyntax,
    /// Documents that may be referred to as a whole.
    documents: Vec<String>,
    /// Imported documents with their names.
    aliases: Vec<(&'static str, &'static str)>,
    /// Whether statements may have `with`.
    pub replaces: bool,
}

impl ModuleGenerator {
    /// Creates one that draws from these random numbers.
    pub fn new(random: Rng) -> Self {
        Self {
            random,
            known: Vec::new(),
            variables: Vec::new(),
            names: 0,
            is_closed: false,
            syntax: ModuleSyntax::V1,
            documents: vec!["data.settings".to_owned(), "input".to_owned()],
            aliases: Vec::new(),
            replaces: true,
        }
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.random.usize(..of.len())]
    }

    fn bool(&mut self) -> bool {
        self.random.bool()
    }

    /// Returns true in one of the given number of cases.
    fn rarely(&mut self, cases: u8) -> bool {
        self.random.u8(..cases) == 0
    }

    /// Returns a random module with its library.
    pub fn module(&mut self) -> RandomModule {
        let is_v0 = self.rarely(3);
        self.syntax = self.syntax_of(is_v0);
        let package = if self.rarely(4) { "lib.tools" } else { "lib" };
        let library = self.text(package, "l", 3, Vec::new());
        self.syntax = self.syntax_of(is_v0);
        let imports = self.import_library(package);
        let rules = self.text("p", "p", 6, imports);
        RandomModule { modules: vec![rules, library] }
    }

    /// Returns the syntax of a module, for a set that is parsed in one version or the other.
    fn syntax_of(&mut self, is_v0: bool) -> ModuleSyntax {
        match self.random.u8(..6) {
            0 => ModuleSyntax::V1ByImport,
            1 | 2 if is_v0 => ModuleSyntax::V0WithKeywords,
            _ if is_v0 => ModuleSyntax::V0,
            _ => ModuleSyntax::V1,
        }
    }

    /// Returns a module with at most the given number of rules, named by a letter and a number.
    fn text(&mut self, package: &'static str, letter: &str, most: usize, mut imports: Vec<String>) -> RandomText {
        self.aliases.clear();
        for document in DOCUMENTS {
            if self.rarely(10) {
                imports.push(format!("{} as {}", document.0, document.1));
                self.aliases.push(document);
            }
        }
        let comment = if self.rarely(10) { self.one(&PACKAGE_COMMENTS).to_owned() } else { String::new() };
        let definitions = self.definitions(letter, most);
        RandomText { package, syntax: self.syntax, comment, imports, definitions }
    }

    fn definitions(&mut self, letter: &str, most: usize) -> Vec<RandomDefinition> {
        let mut definitions = Vec::new();
        for number in 0..self.random.usize(1..=most) {
            let known = self.rule(&format!("{letter}{number}"), &mut definitions);
            self.known.extend(known);
        }
        definitions
    }

    /// Renames the known rules of a library to their names in another module; returns its imports.
    fn import_library(&mut self, package: &str) -> Vec<String> {
        let last = package.rsplit('.').next().unwrap_or(package);
        let (base, import) = match self.random.u8(..8) {
            0 => (format!("data.{package}"), None),
            1 => ("library".to_owned(), Some(format!("data.{package} as library"))),
            2 => return self.import_rules(package),
            _ => (last.to_owned(), Some(format!("data.{package}"))),
        };
        for known in &mut self.known {
            known.target = format!("data.{package}.{}", known.name);
            known.name = format!("{base}.{}", known.name);
        }
        self.documents.extend(["data.lib".to_owned(), base]);
        import.into_iter().collect()
    }

    /// Imports each rule and function individually, some with an alias.
    fn import_rules(&mut self, package: &str) -> Vec<String> {
        let mut imports: Vec<String> = Vec::new();
        for known in &mut self.known {
            known.target = format!("data.{package}.{}", known.name);
            let (rule, below) = known.name.split_at(known.name.find('.').unwrap_or(known.name.len()));
            let alias = self.random.bool().then(|| format!("imported_{rule}")).filter(|_| below.is_empty());
            let import = match &alias {
                Some(alias) => format!("data.{package}.{rule} as {alias}"),
                None => format!("data.{package}.{rule}"),
            };
            known.name = alias.unwrap_or_else(|| rule.to_owned()) + below;
            imports.push(import);
        }
        imports.sort();
        imports.dedup();
        self.documents.push("data.lib".to_owned());
        imports
    }
}
