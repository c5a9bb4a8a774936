//! Random modules as text, and smaller ones.

use kaudit_rego::Version;

/// The keywords of a module, and the syntax of its rules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ModuleSyntax {
    /// Version 1 of the language.
    V1,
    /// Version 1 by `import rego.v1`.
    V1ByImport,
    /// Version 0 with `import future.keywords`.
    V0WithKeywords,
    /// Version 0: `p[x] { … }`.
    V0,
}

impl ModuleSyntax {
    /// Whether `in`, `every`, `if` and `contains` are available.
    pub(super) fn has_keywords(self) -> bool {
        self != Self::V0
    }

    /// Whether builtins that version 1 refuses can be called.
    pub(super) fn is_v0(self) -> bool {
        matches!(self, Self::V0 | Self::V0WithKeywords)
    }

    fn import(self) -> Option<&'static str> {
        match self {
            Self::V1ByImport => Some("rego.v1"),
            Self::V0WithKeywords => Some("future.keywords"),
            Self::V1 | Self::V0 => None,
        }
    }
}

/// The head of a definition.
#[derive(Clone)]
pub(super) enum RandomHead {
    /// An element of a set.
    Element { rule: String, element: String },
    /// A value; `rule` may have keys or parameters.
    Value { rule: String, operator: &'static str, value: String },
    /// The value if no other definition has one.
    Default { rule: String, value: String },
}

impl RandomHead {
    /// Returns the source text of the head, with or without `contains`.
    fn text(&self, syntax: ModuleSyntax) -> String {
        match self {
            Self::Element { rule, element } if syntax.has_keywords() => format!("{rule} contains {element}"),
            Self::Element { rule, element } => format!("{rule}[{element}]"),
            Self::Value { rule, operator, value } => format!("{rule} {operator} {value}"),
            Self::Default { rule, value } => format!("default {rule} := {value}"),
        }
    }
}

/// The value and condition of an `else`.
#[derive(Clone)]
pub(super) struct RandomElse {
    pub(super) value: String,
    pub(super) body: Vec<String>,
}

/// One definition of a rule or of a function.
#[derive(Clone)]
pub(super) struct RandomDefinition {
    /// The path of the rule below the package; `None` for a function.
    pub(super) path: Option<Vec<String>>,
    /// Lines of METADATA or another comment.
    pub(super) comment: String,
    pub(super) head: RandomHead,
    pub(super) body: Vec<String>,
    pub(super) others: Vec<RandomElse>,
}

impl RandomDefinition {
    fn text(&self, syntax: ModuleSyntax) -> String {
        let keyword = if syntax.has_keywords() { "if " } else { "" };
        let block = |body: &[String]| match body {
            [] => String::new(),
            body => format!(" {keyword}{{\n\t{}\n}}", body.join("\n\t")),
        };
        let others = self.others.iter().map(|other| format!(" else := {}{}", other.value, block(&other.body)));
        let others: String = others.collect();
        format!("{}{}{}{others}\n", self.comment, self.head.text(syntax), block(&self.body))
    }

    fn smaller(&self) -> Vec<Self> {
        let without = |index: usize| {
            let mut fewer = self.clone();
            fewer.body.remove(index);
            fewer
        };
        let plain = (!self.others.is_empty()).then(|| Self { others: Vec::new(), ..self.clone() });
        let silent = (!self.comment.is_empty()).then(|| Self { comment: String::new(), ..self.clone() });
        plain.into_iter().chain(silent).chain((0..self.body.len()).map(without)).collect()
    }
}

/// One of the modules that are evaluated together.
#[derive(Clone)]
pub(super) struct RandomText {
    pub(super) package: &'static str,
    pub(super) syntax: ModuleSyntax,
    /// The lines of METADATA before the package.
    pub(super) comment: String,
    /// Paths, some with an alias.
    pub(super) imports: Vec<String>,
    pub(super) definitions: Vec<RandomDefinition>,
}

impl RandomText {
    fn text(&self) -> String {
        let imports = self.syntax.import().into_iter().chain(self.imports.iter().map(String::as_str));
        let imports: Vec<String> = imports.map(|path| format!("import {path}")).collect();
        let definitions: Vec<String> = self.definitions.iter().map(|definition| definition.text(self.syntax)).collect();
        let (comment, package) = (&self.comment, self.package);
        format!("{comment}package {package}\n\n{}\n\n{}", imports.join("\n"), definitions.join("\n"))
    }

    /// Returns the paths of the rules, and that of the package.
    fn rules(&self) -> Vec<Vec<String>> {
        let package: Vec<String> = self.package.split('.').map(str::to_owned).collect();
        let own = self.definitions.iter().filter_map(|definition| definition.path.clone());
        let mut paths: Vec<Vec<String>> = own.map(|path| [package.clone(), path].concat()).collect();
        paths.sort();
        paths.dedup();
        paths.push(package);
        paths
    }

    /// Returns modules without a definition, an import or a comment, and modules with a smaller definition.
    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for index in (0..self.definitions.len()).rev() {
            let mut fewer = self.clone();
            fewer.definitions.remove(index);
            all.push(fewer);
        }
        for index in 0..self.imports.len() {
            let mut fewer = self.clone();
            fewer.imports.remove(index);
            all.push(fewer);
        }
        if !self.comment.is_empty() {
            all.push(Self { comment: String::new(), ..self.clone() });
        }
        for (index, definition) in self.definitions.iter().enumerate() {
            all.extend(definition.smaller().into_iter().map(|smaller| {
                let mut fewer = self.clone();
                fewer.definitions[index] = smaller;
                fewer
            }));
        }
        all
    }
}

/// Modules that are evaluated together: a package `p` and its library.
#[derive(Clone)]
pub struct RandomModule {
    pub(super) modules: Vec<RandomText>,
}

impl RandomModule {
    /// Returns the texts of the modules.
    pub fn texts(&self) -> Vec<String> {
        self.modules.iter().map(RandomText::text).collect()
    }

    /// Returns the version in which modules are parsed unless they declare one.
    pub fn version(&self) -> Version {
        let is_v1 = self.modules.iter().any(|module| module.syntax == ModuleSyntax::V1);
        if is_v1 { Version::V1 } else { Version::V0 }
    }

    /// Returns the paths of the rules, and those of the packages.
    pub fn rules(&self) -> Vec<Vec<String>> {
        self.modules.iter().flat_map(RandomText::rules).collect()
    }

    /// Returns smaller modules.
    pub fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for (index, module) in self.modules.iter().enumerate() {
            all.extend(module.smaller().into_iter().map(|smaller| {
                let mut fewer = self.clone();
                fewer.modules[index] = smaller;
                fewer
            }));
        }
        all
    }
}
