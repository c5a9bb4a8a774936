//! The functions of the environment, in the order in which the API server tries their overloads.
//!
//! `declarations.txt` is the output of `tests/tools/cel` for its argument `declarations`. `kyverno.txt` has the functions
//! and overloads that policies of Kyverno have besides.

use std::{collections::HashMap, sync::LazyLock};

use crate::{error::EvalError, library, types::CelType, value::CelValue};

/// The implementation of an overload, or of a function for all its overloads.
pub(crate) type Implementation = for<'v> fn(&[CelValue<'v>]) -> Result<CelValue<'v>, EvalError>;

/// A function with its overloads.
pub(crate) struct DeclaredFunction {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<FunctionOverload>,
    /// The implementation of functions that dispatch on their arguments themselves.
    pub(crate) shared: Option<Implementation>,
}

/// A function for certain types of arguments.
pub(crate) struct FunctionOverload {
    pub(crate) id: &'static str,
    /// Whether it is called as `target.function()`.
    pub(crate) is_member: bool,
    pub(crate) arguments: Vec<CelType>,
    pub(crate) result: CelType,
    pub(crate) implementation: Option<Implementation>,
    /// Whether only policies of Kyverno have it.
    pub(crate) is_of_kyverno: bool,
}

impl FunctionOverload {
    /// Whether it looks up other objects.
    pub(crate) fn is_lookup(&self) -> bool {
        // Those of policies for one namespace have no argument for it, and are not supported.
        let ids = ["resource_get_string_string_string_string_", "resource_list_string_string_string_"];
        self.is_of_kyverno && ids.iter().any(|id| self.id.starts_with(id))
    }

    /// Whether it is declared, but cannot be evaluated.
    pub(crate) fn is_unsupported(&self) -> bool {
        self.is_of_kyverno && self.implementation.is_none() && !self.is_lookup() && self.id != OR_VALUE
    }
}

/// Kyverno's overload of `orValue` for values that are not optional, which the machine evaluates.
const OR_VALUE: &str = "__orValueCompat___dyn_dyn";

/// Whose functions an environment has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionLibrary {
    Kubernetes,
    /// Those of Kubernetes and Kyverno's own.
    Kyverno,
}

type Functions = HashMap<&'static str, DeclaredFunction>;

static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| functions(&[(KUBERNETES, false)]));
static KYVERNO_FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| functions(&[(KUBERNETES, false), (KYVERNO, true)]));
const KUBERNETES: &str = include_str!("declarations.txt");
const KYVERNO: &str = include_str!("kyverno.txt");

fn functions(tables: &[(&'static str, bool)]) -> Functions {
    let implementations = library::overloads();
    let mut functions = HashMap::new();
    for (table, is_of_kyverno) in tables {
        for line in table.lines() {
            let Some((name, overload)) = parse(line, &implementations) else { continue };
            let new = || DeclaredFunction { name, overloads: Vec::new(), shared: library::shared(name) };
            let overload = FunctionOverload { is_of_kyverno: *is_of_kyverno, ..overload };
            functions.entry(name).or_insert_with(new).overloads.push(overload);
        }
    }
    functions
}

/// Returns a function by its name; internal ones are included.
pub(crate) fn function(library: FunctionLibrary, name: &str) -> Option<&'static DeclaredFunction> {
    match library {
        FunctionLibrary::Kubernetes => FUNCTIONS.get(name),
        FunctionLibrary::Kyverno => KYVERNO_FUNCTIONS.get(name),
    }
}

/// Parses a line: the function, the overload, `member` or `global`, the arguments in parentheses, and the result.
fn parse(
    line: &'static str,
    implementations: &HashMap<&'static str, Implementation>,
) -> Option<(&'static str, FunctionOverload)> {
    let (name, rest) = line.split_once(' ')?;
    let (id, rest) = rest.split_once(' ')?;
    let (style, rest) = rest.split_once(" (")?;
    let end = closing(rest)?;
    let arguments = split(&rest[..end]).into_iter().map(CelType::parse).collect();
    let result = CelType::parse(rest[end + 1..].trim());
    let implementation = implementations.get(id).copied();
    let is_member = style == "member";
    Some((name, FunctionOverload { id, is_member, arguments, result, implementation, is_of_kyverno: false }))
}

/// Returns the position of the parenthesis that closes an open one.
fn closing(text: &str) -> Option<usize> {
    let mut level = 1;
    text.char_indices().find_map(|(at, c)| {
        level += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        (level == 0).then_some(at)
    })
}

/// Splits a list of types at the commas that are in no parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut level, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => level += 1,
            ')' => level -= 1,
            ',' if level == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    if !text.is_empty() {
        parts.push(text[begin..].trim());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overloads_have_their_types_and_implementations() {
        let join = function(FunctionLibrary::Kubernetes, "join").unwrap();
        assert_eq!(join.overloads[1].arguments, [CelType::list(CelType::String), CelType::String]);
        assert!(join.overloads[1].is_member && join.overloads[1].result == CelType::String);
        let without = |function: &&DeclaredFunction| function.shared.is_none();
        let mut missing: Vec<_> = FUNCTIONS
            .values()
            .filter(without)
            .flat_map(|function| &function.overloads)
            .filter(|overload| overload.implementation.is_none())
            .map(|overload| overload.id)
            // Without a requester there is nothing to authorize; operators and optional ones are part of the machine.
            .filter(|id| !["authorizer", "check", "decision"].iter().any(|part| id.contains(part)))
            .collect();
        missing.sort_unstable();
        assert_eq!(missing, ["optional_orValue_value", "optional_or_optional"]);
    }
}
