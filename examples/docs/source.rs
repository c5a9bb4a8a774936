//! Reads documentation from the source of kaudit: doc comments, fields and constants.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result};
use syn::{Attribute, Expr, ExprLit, Field, Item, Lit, Meta, Type};

/// Parses a source file, named by its path below the root.
pub(crate) fn read(root: &Path, path: &str) -> Result<syn::File> {
    let text = fs::read_to_string(root.join(path)).with_context(|| format!("reading {path}"))?;
    syn::parse_file(&text).with_context(|| format!("parsing {path}"))
}

/// Returns a doc comment as Markdown without links to items.
pub(crate) fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let lines = lines.filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) => literal(&pair.value),
        _ => None,
    });
    let lines: Vec<String> = lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned()).collect();
    without_links(lines.join("\n").trim())
}

/// Returns the value of a string literal.
pub(crate) fn literal(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// A constant that is a string.
pub(crate) struct TextConstant {
    pub(crate) value: String,
    pub(crate) doc: String,
}

/// Returns the constants of a file that are strings.
pub(crate) fn constants(file: &syn::File) -> Vec<TextConstant> {
    let constants = file.items.iter().filter_map(|item| match item {
        Item::Const(item) => Some(TextConstant { value: literal(&item.expr)?, doc: doc(&item.attrs) }),
        _ => None,
    });
    constants.collect()
}

/// Returns the name of a type without its path and parameters: `Vec` for `Vec<u8>`.
pub(crate) fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// Returns the type parameters of a type.
pub(crate) fn parameters(of: &Type) -> Vec<&Type> {
    let Type::Path(path) = of else { return Vec::new() };
    let Some(segment) = path.path.segments.last() else { return Vec::new() };
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return Vec::new() };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        syn::GenericArgument::Type(parameter) => Some(parameter),
        _ => None,
    });
    types.collect()
}

/// Returns the name of a field.
pub(crate) fn field_name(field: &Field) -> String {
    field.ident.as_ref().map_or_else(String::new, ToString::to_string)
}

/// Turns ``[`Item`]``, ``[`Item`](path)`` and ``[`Item`][path]`` into `` `Item` ``.
fn without_links(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else { break };
        // Writing to a string cannot fail.
        let _infallible = write!(kept, "{before}`{name}`");
        let target = ["()", "[]"].into_iter().find_map(|pair| {
            let (open, close) = pair.split_at(1);
            Some(after.strip_prefix(open)?.split_once(close)?.1)
        });
        rest = target.unwrap_or(after);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_items_become_code() {
        let text = "[`A`]; see [`b`](crate::b) and [`c`][crate::c], but [page](https://example.com) and `x[`";
        assert_eq!(without_links("[`A`] or [`b`](crate::b), [`c`][d]"), "`A` or `b`, `c`");
        assert!(without_links(text).starts_with("`A`; see `b`"));
        assert!(without_links(text).ends_with("but [page](https://example.com) and `x[`"));
    }
}
