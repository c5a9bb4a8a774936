//! The reference of JSON output, from the types that are written and their doc comments.

use std::{
    collections::{BTreeSet, VecDeque},
    path::Path,
};

use anyhow::{Context as _, Result, bail};
use kaudit::cluster::identity::API_VERSION;
use syn::Type;

use super::{
    markdown::{Page, anchor, capitalised, code, codes, table},
    serialized::{JsonType, Types, types},
    source,
};

/// The documents: what writes them, and their types.
const DOCUMENTS: [(&str, &str); 7] = [
    ("`kaudit check -o json`, and `/status`", "AuditResult"),
    (
        "The last line of `kaudit check -o ndjson` with `--once` or `--filename`; each line before it is an [Entry](#entry)",
        "LastLine",
    ),
    ("Each line of `kaudit check -o ndjson` that watches a cluster", "Streamed"),
    ("`kaudit diff -o json`", "AuditDiff"),
    ("`kaudit explain -o json`, for a result or for a rule and an object", "Explained"),
    ("`kaudit policies -o json`, and `/policies`", "PolicyList"),
    ("`kaudit test -o json`", "TestReport"),
];
/// Types with a serialisation of their own, and what they are written as.
const SCALARS: [(&str, &str); 14] = [
    ("bool", "boolean"),
    ("f64", "number"),
    ("str", "string"),
    ("u32", "number"),
    ("u64", "number"),
    ("usize", "number"),
    ("Digest", "string"),
    ("Fingerprint", "string"),
    ("Shard", "string, `I/N`"),
    ("String", "string"),
    ("Timestamp", "string, a time in RFC 3339"),
    ("Version", "string"),
    ("Value", "any value"),
    ("Map", "object"),
];

/// Returns the reference of all documents.
pub(crate) fn reference(root: &Path) -> Result<String> {
    let types = types(root)?;
    let mut page = Page::new("JSON");
    page.add(&format!(
        "The `apiVersion` of each document is {}. Fields may be added in any version. A field marked *optional* is left out \
         where it does not apply.",
        code(API_VERSION)
    ));
    page.add(&table(["output", "document"], DOCUMENTS.map(|(output, name)| [output.to_owned(), link(name)])));
    let mut open: VecDeque<String> = DOCUMENTS.iter().map(|(_, name)| (*name).to_owned()).collect();
    let mut listed = BTreeSet::new();
    while let Some(name) = open.pop_front() {
        if !listed.insert(name.clone()) {
            continue;
        }
        page.add(&format!("## {name}"));
        match types.get(&name).with_context(|| format!("no type {name} is written as JSON"))? {
            JsonType::Enum { doc, variants } => {
                page.add(doc);
                if variants.iter().all(|[_, doc]| doc.is_empty()) {
                    page.add(&format!("One of {}.", codes(variants.iter().map(|[name, _]| &**name))));
                } else {
                    page.add(&table(
                        ["value", "meaning"],
                        variants.iter().map(|[name, doc]| [code(name), doc.clone()]),
                    ));
                }
            }
            JsonType::Struct { doc, .. } => {
                page.add(doc);
                let mut rows = Vec::new();
                add(&name, &types, &mut rows, &mut open)?;
                page.add(&table(["field", "type", "meaning"], rows));
            }
        }
    }
    Ok(page.finish())
}

/// Adds rows for the fields of a type, and the types that they name to those to be listed.
fn add(name: &str, types: &Types, rows: &mut Vec<[String; 3]>, open: &mut VecDeque<String>) -> Result<()> {
    let Some(JsonType::Struct { fields, .. }) = types.get(name) else { bail!("{name} has no fields") };
    for field in fields {
        let mut named = Vec::new();
        let shown = shown(&field.of, name, &mut named).with_context(|| format!("field {} of {name}", field.name))?;
        match &named[..] {
            [inner] if field.is_flat => add(inner, types, rows, open)?,
            _ => {
                let optional = if field.is_optional { ", *optional*" } else { "" };
                let absent = if field.is_optional { "left out" } else { "`null`" };
                let doc = capitalised(&field.doc.replace("`None`", absent));
                rows.push([code(&field.name), format!("{shown}{optional}"), doc]);
                open.extend(named);
            }
        }
    }
    Ok(())
}

/// Returns how values of a type in the type `own` are written, and adds the types with a section of their own to `named`.
fn shown(of: &Type, own: &str, named: &mut Vec<String>) -> Result<String> {
    match of {
        Type::Reference(reference) => return shown(&reference.elem, own, named),
        Type::Slice(slice) => return Ok(format!("array of {}", shown(&slice.elem, own, named)?)),
        _ => {}
    }
    let name = source::type_name(of).context("its type has no name")?;
    if let Some((_, written)) = SCALARS.iter().find(|(scalar, _)| *scalar == name) {
        return Ok((*written).to_owned());
    }
    Ok(match (&*name, &source::parameters(of)[..]) {
        ("Arc" | "Box" | "Cow" | "Option", [inner]) => shown(inner, own, named)?,
        ("Vec" | "BTreeSet", [item]) => format!("array of {}", shown(item, own, named)?),
        ("BTreeMap", [_, value]) => format!("object, by name: {}", shown(value, own, named)?),
        _ => {
            let name = if name == "Self" { own } else { &name };
            named.push(name.to_owned());
            link(name)
        }
    })
}

fn link(name: &str) -> String {
    format!("[{name}](#{})", anchor(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_an_empty_result_are_listed() {
        let reference = reference(crate::root()).unwrap();
        for row in ["| `apiVersion` | string |", "| `ruleId` | string, *optional* |", "| `timedOut` |", "## Entry\n"] {
            assert!(reference.contains(row), "{row} is not in\n{reference}");
        }
        assert!(!reference.contains("`repeated`"), "a field is listed that is not written");
    }
}
