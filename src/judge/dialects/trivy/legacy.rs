//! Metadata in the form used before annotations: the rules `__rego_metadata__` and `__rego_input__`.

use serde_json::{Map, Value};

use crate::{
    judge::metadata::{self, Metadata},
    rego::analysis::syntax::Module,
};

const METADATA: &str = "__rego_metadata__";
const INPUT: &str = "__rego_input__";

/// Whether a text may define such rules.
pub(super) fn is_in(text: &str) -> bool {
    text.contains(METADATA) || text.contains(INPUT)
}

/// Returns the metadata that a module declares as rules, as far as it is literal; `None` if it has no such rules.
pub(super) fn metadata(module: &Module) -> Option<Metadata> {
    if !module.defines(METADATA) && !module.defines(INPUT) {
        return None;
    }
    let object = |name: &str| match module.literal_value(name) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let mut custom = object(METADATA);
    custom.insert("input".to_owned(), Value::Object(object(INPUT)));
    let mut annotation = Map::new();
    for key in ["title", "description"] {
        annotation.extend(custom.remove(key).map(|value| (key.to_owned(), value)));
    }
    let links = custom.remove("url").map(|url| Value::Array(vec![url]));
    annotation.extend(links.map(|links| ("related_resources".to_owned(), links)));
    annotation.insert("custom".to_owned(), Value::Object(custom));
    Some(metadata::of_annotation(&annotation).0)
}
