//! The types of OPA's builtins, including those that kaudit does not support.
//!
//! `declarations.txt` has one per line, in OPA's notation for types: `count (any<…>) => number`. It is generated from
//! `opa capabilities --current`; `tests/opa/declarations.rs` compares the two, and rewrites the file on request.

use std::{collections::HashMap, sync::LazyLock};

use crate::{
    constant::Constant,
    types::{FunctionType, InferredType, Type},
};

/// OPA's declaration of a builtin.
#[derive(Debug, Clone)]
pub struct Declaration {
    pub(crate) decl: Type,
    /// The number of its arguments.
    pub arity: usize,
    /// Whether a call has several values.
    pub(crate) relation: bool,
    /// Whether Rego v1 refuses it.
    pub(crate) deprecated: bool,
}

impl Declaration {
    /// Whether it takes more arguments than its arity.
    pub fn is_variadic(&self) -> bool {
        matches!(&self.decl, Type::Function(function) if function.variadic.is_some())
    }

    /// Whether it returns a value.
    pub(crate) fn has_result(&self) -> bool {
        matches!(&self.decl, Type::Function(function) if function.result.is_some())
    }
}

/// The builtins of Trivy's checks, in the same form.
const TRIVY: &str = "isManaged (any) => boolean\nresult.new (string, any) => any";

/// The builtin that a trace inserts into bodies; no module can use this name.
pub(crate) const NOTE: &str = "kaudit#note";
const OF_TRACES: &str = "kaudit#note (any...) => ???";

static DECLARATIONS: LazyLock<HashMap<&'static str, Declaration>> = LazyLock::new(|| {
    let lines = include_str!("declarations.txt").lines().chain(TRIVY.lines()).chain(OF_TRACES.lines());
    lines.filter_map(|line| line.split_once(' ')).filter_map(read).collect()
});

/// Returns OPA's declaration of a builtin.
pub fn declaration(name: &str) -> Option<&'static Declaration> {
    DECLARATIONS.get(name)
}

/// Whether Rego v1 refuses a builtin.
pub(crate) fn is_deprecated(name: &str) -> bool {
    declaration(name).is_some_and(|declaration| declaration.deprecated)
}

fn read((name, rest): (&'static str, &'static str)) -> Option<(&'static str, Declaration)> {
    let mut parser = TypeParser { rest };
    parser.take("(")?;
    let (mut parameters, mut variadic) = (Vec::new(), None);
    while parser.take(")").is_none() {
        let parameter = parser.parse();
        if parser.take("...").is_some() {
            variadic = parameter;
        } else {
            parameters.push(parameter);
        }
        let _ = parser.take(", ");
    }
    parser.take(" => ")?;
    let result = parser.parse();
    let declaration = Declaration {
        arity: parameters.len(),
        decl: Type::Function(FunctionType { parameters, variadic, result }.into()),
        relation: parser.rest.contains("relation"),
        deprecated: parser.rest.contains("deprecated"),
    };
    Some((name, declaration))
}

/// A parser for types as OPA writes them.
struct TypeParser {
    rest: &'static str,
}

impl TypeParser {
    fn take(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// Parses a type; `None` for an unknown one.
    fn parse(&mut self) -> InferredType {
        let end =
            self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '?').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(match word {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "number" => Type::Number,
            "string" => Type::String,
            "any" => {
                let mut of: Vec<Type> = self.list(Self::parse).into_iter().flatten().collect();
                of.sort();
                Type::Any(of.into())
            }
            "array" => {
                let items = self.list(Self::parse);
                Type::array(items, self.bracket(Self::parse).flatten())
            }
            "set" => Type::set(self.bracket(Self::parse).flatten()),
            "object" => {
                let fields = self.list(|parser| {
                    let (key, rest) = parser.rest.split_once(": ").unwrap_or_default();
                    parser.rest = rest;
                    (Constant::String(key.into()), parser.parse())
                });
                let rest = self.bracket(|parser| {
                    let keys = parser.parse();
                    let _ = parser.take(": ");
                    (keys, parser.parse())
                });
                Type::object(fields, rest)
            }
            _ => return None,
        })
    }

    /// Parses a list in `<` and `>`, separated by commas.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let mut items = Vec::new();
        if self.take("<").is_some() {
            while self.take(">").is_none() && !self.rest.is_empty() {
                items.push(read(self));
                let _ = self.take(", ");
            }
        }
        items
    }

    /// Parses with `read` between `[` and `]`.
    fn bracket<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.take("[")?;
        let inner = read(self);
        let _ = self.take("]");
        Some(inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_formatted_as_they_are_parsed() {
        let lines = include_str!("declarations.txt").lines();
        for line in lines {
            let (name, rest) = line.split_once(' ').unwrap();
            let rest = rest.trim_end_matches(" deprecated").trim_end_matches(" relation");
            assert_eq!(declaration(name).unwrap().decl.to_string(), rest, "{name}");
        }
        assert!(is_deprecated("any") && !is_deprecated("count"));
    }
}
