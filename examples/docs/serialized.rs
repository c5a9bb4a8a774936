//! Reads the types of kaudit that serde writes as JSON: their fields, names and doc comments.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use syn::{Attribute, Field, Fields, Item, LitStr, Type};

use super::source;

/// A type that is written as JSON.
pub(crate) enum JsonType {
    Struct {
        doc: String,
        fields: Vec<JsonField>,
    },
    /// Names, each with what it means.
    Enum {
        doc: String,
        variants: Vec<[String; 2]>,
    },
}

/// A field that is written.
pub(crate) struct JsonField {
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) of: Type,
    pub(crate) is_optional: bool,
    /// Whether the fields of its type take its place.
    pub(crate) is_flat: bool,
}

/// The types that are written, by name.
pub(crate) type Types = BTreeMap<String, JsonType>;

/// Reads all types of kaudit that implement `Serialize` by derivation.
pub(crate) fn types(root: &Path) -> Result<Types> {
    let mut types = Types::new();
    let mut open = vec![root.join("src")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                read(&path, &mut types).with_context(|| format!("reading {}", path.display()))?;
            }
        }
    }
    Ok(types)
}

/// Adds the types of a file.
fn read(path: &Path, types: &mut Types) -> Result<()> {
    let text = fs::read_to_string(path)?;
    if !text.contains("Serialize") {
        return Ok(());
    }
    for item in syn::parse_file(&text)?.items {
        let (name, of) = match item {
            Item::Struct(item) if is_serialized(&item.attrs) => {
                let Fields::Named(fields) = &item.fields else { continue };
                let case = SerdeOptions::of(&item.attrs)?.rename_all;
                let fields = fields.named.iter().map(|field| json_field(field, case.as_deref()));
                let fields = fields.filter_map(Result::transpose).collect::<Result<_>>()?;
                (item.ident, JsonType::Struct { doc: source::doc(&item.attrs), fields })
            }
            Item::Enum(item) if is_serialized(&item.attrs) => {
                let case = SerdeOptions::of(&item.attrs)?.rename_all;
                let variant = |variant: &syn::Variant| {
                    let name = SerdeOptions::of(&variant.attrs)?.rename;
                    let name = name.unwrap_or_else(|| cased(&snake(&variant.ident.to_string()), case.as_deref()));
                    Ok([name, source::doc(&variant.attrs)])
                };
                let variants = item.variants.iter().map(variant).collect::<Result<_>>()?;
                (item.ident, JsonType::Enum { doc: source::doc(&item.attrs), variants })
            }
            _ => continue,
        };
        let before = types.insert(name.to_string(), of);
        ensure!(before.is_none(), "another type is named {name}, too");
    }
    Ok(())
}

fn is_serialized(attributes: &[Attribute]) -> bool {
    let mut found = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        // A derivation with arguments is an error, and none of those that matter.
        let _ended = attribute.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("Serialize");
            Ok(())
        });
    }
    found
}

/// Describes a field; `None` if it is not written.
fn json_field(field: &Field, case: Option<&str>) -> Result<Option<JsonField>> {
    let options = SerdeOptions::of(&field.attrs)?;
    if options.skip {
        return Ok(None);
    }
    let name = source::field_name(field);
    let name = options.rename.unwrap_or_else(|| if case.is_some() { cased(&name, case) } else { name });
    let (doc, of) = (source::doc(&field.attrs), field.ty.clone());
    Ok(Some(JsonField { name, doc, of, is_optional: options.is_optional, is_flat: options.flatten }))
}

/// The options of serde on a type, a field or a variant.
#[derive(Default)]
struct SerdeOptions {
    rename: Option<String>,
    rename_all: Option<String>,
    skip: bool,
    flatten: bool,
    is_optional: bool,
}

impl SerdeOptions {
    fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut options = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| {
                let mut value = None;
                if meta.input.peek(syn::Token![=]) {
                    value = Some(meta.value()?.parse::<LitStr>()?.value());
                }
                match meta.path.get_ident().map(ToString::to_string).as_deref() {
                    Some("rename") => options.rename = value,
                    Some("rename_all") => options.rename_all = value,
                    Some("skip" | "skip_serializing") => options.skip = true,
                    Some("flatten") => options.flatten = true,
                    Some("skip_serializing_if") => options.is_optional = true,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// Returns `timed_out` for `TimedOut`.
fn snake(name: &str) -> String {
    name.char_indices().fold(String::new(), |mut snake, (index, letter)| {
        snake.extend((index > 0 && letter.is_uppercase()).then_some('_'));
        snake.extend(letter.to_lowercase());
        snake
    })
}

/// Returns a name in snake case in one of serde's cases; without one, as a variant is named.
fn cased(snake: &str, case: Option<&str>) -> String {
    let word =
        |word: &str| word.split_at_checked(1).map_or_else(String::new, |(first, rest)| first.to_uppercase() + rest);
    match case {
        Some("lowercase") => snake.replace('_', ""),
        Some("snake_case") => snake.to_owned(),
        Some("kebab-case") => snake.replace('_', "-"),
        Some("camelCase") => {
            let (first, rest) = snake.split_once('_').unwrap_or((snake, ""));
            first.to_owned() + &rest.split('_').map(word).collect::<String>()
        }
        _ => snake.split('_').map(word).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for (case, want) in [
            (Some("camelCase"), "timedOutAgain"),
            (Some("kebab-case"), "timed-out-again"),
            (Some("lowercase"), "timedoutagain"),
            (None, "TimedOutAgain"),
        ] {
            assert_eq!(cased(&snake("TimedOutAgain"), case), want);
        }
    }
}
