//! Paths of fields in an object, as the API server's messages show them and as results have them.

use std::fmt::{self, Write as _};

use kaudit_cel::schema::{CelSchema, SchemaStep};

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldStep {
    Property(String),
    /// The key of a map.
    Key(String),
    Index(usize),
}

/// The path of a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldPath {
    pub(super) steps: Vec<FieldStep>,
}

impl FieldPath {
    /// Returns the path of a part.
    pub(super) fn with(&self, step: FieldStep) -> Self {
        Self { steps: self.steps.iter().cloned().chain([step]).collect() }
    }

    /// Reads `fieldPath` of a rule, which is relative to the value of the schema; `None` if it is invalid.
    pub(super) fn parse(text: &str, schema: &CelSchema) -> Option<Self> {
        let (mut steps, mut schema, mut rest) = (Vec::new(), schema, text);
        while !rest.is_empty() {
            let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
                let (name, after) = quoted_name(quoted)?;
                (name, after.strip_prefix(']')?)
            } else {
                let plain = rest.strip_prefix('.')?;
                let (name, after) = plain.split_at(plain.find(['.', '[', ']']).unwrap_or(plain.len()));
                (name.to_owned(), after)
            };
            let is_property = schema.has_properties();
            let step = if is_property { SchemaStep::Property(&name) } else { SchemaStep::Values };
            schema = schema.part(step)?;
            steps.push(if is_property { FieldStep::Property(name) } else { FieldStep::Key(name) });
            rest = after;
        }
        (!steps.is_empty()).then_some(Self { steps })
    }

    /// Returns the path as results have it: names with other characters than letters and digits are in quotes.
    pub(super) fn shown(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let _ = match step {
                FieldStep::Index(index) => write!(text, "[{index}]"),
                FieldStep::Property(name) | FieldStep::Key(name) if is_plain(name) => {
                    write!(text, "{}{name}", if text.is_empty() { "" } else { "." })
                }
                FieldStep::Property(name) | FieldStep::Key(name) => write!(text, "[\"{name}\"]"),
            };
        }
        text
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// Returns the name that ends with a quote, with its escape sequences replaced, and the text behind the quote.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let (mut name, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((name, &text[at + 1..])),
            '\\' => name.push(match chars.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                same @ ('\'' | '\\') => same,
                _ => return None,
            }),
            c => name.push(c),
        }
    }
    None
}

/// As the API server shows it: `spec.limits[cpu].max`, `spec.items[0]`.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                FieldStep::Property(name) if index == 0 => f.write_str(name)?,
                FieldStep::Property(name) => write!(f, ".{name}")?,
                FieldStep::Key(key) => write!(f, "[{key}]")?,
                FieldStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn field_paths_are_read_with_the_schema() {
        let schema = CelSchema::new(
            &json!({"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"a.b": {"type": "string"},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}}}}}}),
            false,
        );
        for (text, server, own) in [
            (".spec", Some("spec"), "spec"),
            (".spec['a.b']", Some("spec.a.b"), "spec[\"a.b\"]"),
            (".spec.map.x", Some("spec.map[x]"), "spec.map.x"),
            (".spec.map['it\\'s']", Some("spec.map[it's]"), "spec.map[\"it's\"]"),
            (".spec.none", None, ""),
            ("spec", None, ""),
            (".spec[0]", None, ""),
            ("", None, ""),
        ] {
            let path = FieldPath::parse(text, &schema);
            assert_eq!(path.as_ref().map(ToString::to_string).as_deref(), server, "{text}");
            assert_eq!(path.map(|path| path.shown()).unwrap_or_default(), own, "{text}");
        }
    }
}
