//! Structural schemas: validates a Constraint and fills in its defaults.
//!
//! Schemas are interpreted as the API server does for custom resources (`apiextensions-apiserver`, packages
//! `schema/defaulting`, `schema/pruning` and `validation`). Formats and CEL rules are ignored, as in Gatekeeper.

use std::{fmt::Write as _, sync::LazyLock};

use regex::Regex;

use crate::rego::{
    Position,
    analysis::yaml::{self, YamlContent, YamlDialect, YamlField, YamlNode},
};

/// The schema of every Constraint; the schema of `parameters` comes from its template.
static CONSTRAINT: LazyLock<YamlNode> = LazyLock::new(|| {
    // An unreadable schema would accept everything; a test parses it.
    yaml::single(include_str!("constraint.yaml"), YamlDialect::Kubectl)
        .unwrap_or_else(|_| serde_json::Value::Null.into())
});

/// One violation of a schema.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SchemaError {
    pub(crate) at: Position,
    pub(crate) message: String,
    pub(crate) help: String,
}

/// The schema of the Constraints of one template.
#[derive(Debug)]
pub(crate) struct Schema {
    root: YamlNode,
}

impl Schema {
    /// Creates the schema from `spec.crd.spec.validation` of a template. `legacy` is the default of `legacySchema`:
    /// true in templates before v1.
    pub(crate) fn new(validation: &YamlNode, legacy: bool) -> Self {
        let legacy = match validation.get("legacySchema").content {
            YamlContent::Bool(legacy) => legacy,
            _ => legacy,
        };
        let mut root = CONSTRAINT.clone();
        let mut parameters = validation.get("openAPIV3Schema").clone();
        if parameters.is_null() && legacy {
            parameters.content = YamlContent::Map(Vec::new());
        }
        if !parameters.is_null() {
            if legacy {
                preserve(&mut parameters);
            }
            if let Some(YamlNode { content: YamlContent::Map(properties), .. }) = field(&mut root, "properties")
                .and_then(|node| field(node, "spec"))
                .and_then(|node| field(node, "properties"))
            {
                let at = parameters.at;
                properties.push(YamlField { key: "parameters".to_owned(), at, value: parameters });
            }
        }
        Self { root }
    }

    /// Returns every violation of the schema by a Constraint.
    pub(crate) fn check(&self, constraint: &YamlNode) -> Vec<SchemaError> {
        violations(&self.root, constraint, "")
    }

    /// Whether a Constraint gets no defaults for its parameters because it has no `parameters`.
    pub(crate) fn loses_defaults(&self, constraint: &YamlNode) -> bool {
        let parameters = self.root.at(&["properties", "spec", "properties", "parameters"]);
        let defaults = parameters.get("properties").fields().iter().any(|field| !field.value.get("default").is_null());
        constraint.at(&["spec", "parameters"]).is_null() && defaults
    }

    /// Fills the defaults into a Constraint.
    pub(crate) fn fill(&self, constraint: &mut YamlNode) {
        fill(&self.root, constraint);
    }
}

/// Returns every violation of a schema by a value; `path` is the path of the value in messages.
pub(crate) fn violations(schema: &YamlNode, value: &YamlNode, path: &str) -> Vec<SchemaError> {
    let mut errors = Vec::new();
    Validation { errors: &mut errors, quiet: false }.value(schema, value, path);
    errors
}

fn field<'a>(node: &'a mut YamlNode, key: &str) -> Option<&'a mut YamlNode> {
    match &mut node.content {
        YamlContent::Map(fields) => fields.iter_mut().find(|field| field.key == key).map(|field| &mut field.value),
        _ => None,
    }
}

/// Accepts unknown fields at each level of a schema, which is the meaning of `legacySchema: true`.
fn preserve(schema: &mut YamlNode) {
    let kind = schema.get("type").text().unwrap_or_default().to_owned();
    let at = schema.at;
    let new = |key: &str, content| YamlField { key: key.to_owned(), at, value: YamlNode::new(content, at) };
    let YamlContent::Map(fields) = &mut schema.content else { return };
    match kind.as_str() {
        "" | "object" => fields.push(new(PRESERVE, YamlContent::Bool(true))),
        "array" if !fields.iter().any(|field| field.key == "items") => {
            fields.push(new("items", YamlContent::Map(Vec::new())));
        }
        _ => {}
    }
    for YamlField { key, value, .. } in fields {
        match (key.as_str(), &mut value.content) {
            ("properties", YamlContent::Map(properties)) => {
                for field in properties {
                    preserve(&mut field.value);
                }
            }
            ("items" | "additionalProperties", _) => preserve(value),
            _ => {}
        }
    }
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Whether a null counts as missing and is replaced by the default.
fn replaceable(schema: &YamlNode, value: &YamlNode) -> bool {
    value.is_null() && !schema.get("nullable").is_true()
}

fn fill(schema: &YamlNode, value: &mut YamlNode) {
    let at = value.at;
    match &mut value.content {
        YamlContent::Map(fields) => {
            let properties = schema.get("properties");
            for YamlField { key, value: property, .. } in properties.fields() {
                let default = property.get("default");
                if default.is_null() {
                    continue;
                }
                let default = YamlNode { at, ..default.clone() };
                match fields.iter_mut().find(|field| field.key == *key) {
                    Some(field) if replaceable(property, &field.value) => field.value = default,
                    Some(_) => {}
                    None => fields.push(YamlField { key: key.clone(), at, value: default }),
                }
            }
            let others = schema.get("additionalProperties");
            for YamlField { key, value, .. } in fields {
                let inner = properties.get(key);
                fill_inner(if inner.is_null() { others } else { inner }, value);
            }
        }
        YamlContent::List(items) => items.iter_mut().for_each(|item| fill_inner(schema.get("items"), item)),
        _ => {}
    }
}

fn fill_inner(schema: &YamlNode, value: &mut YamlNode) {
    let default = schema.get("default");
    if !default.is_null() && replaceable(schema, value) {
        *value = YamlNode { at: value.at, ..default.clone() };
    }
    fill(schema, value);
}

/// Validates a value against a schema.
struct Validation<'a> {
    errors: &'a mut Vec<SchemaError>,
    /// Inside `anyOf` and the like, unknown fields are checked by the enclosing schema.
    quiet: bool,
}

impl Validation<'_> {
    fn say(&mut self, value: &YamlNode, path: &str, message: &str) {
        self.errors.push(SchemaError { at: value.at, message: format!("{path} {message}"), help: String::new() });
    }

    fn value(&mut self, schema: &YamlNode, value: &YamlNode, path: &str) {
        if schema.get("x-kubernetes-int-or-string").is_true() {
            if !matches!(value.kind(), "integer" | "string") {
                self.say(value, path, &format!("must be an integer or a string, not {}", name(value)));
            }
        } else if let Some(kind) = schema.get("type").text() {
            let same = value.kind() == kind || (kind == "number" && value.kind() == "integer");
            let absent = value.is_null() && schema.get("nullable").is_true();
            if !same && !absent {
                return self.say(value, path, &format!("must be {}, not {}", article(kind), name(value)));
            }
        }
        let allowed = schema.get("enum").items();
        if !allowed.is_empty() && !allowed.contains(value) {
            let allowed: Vec<String> = allowed.iter().map(|one| one.json().to_string()).collect();
            self.say(value, path, &format!("must be one of {}, not {}", allowed.join(", "), value.json()));
        }
        self.combined(schema, value, path);
        match &value.content {
            YamlContent::Text(text) => self.text(schema, value, text, path),
            YamlContent::Number(_) => self.number(schema, value, path),
            YamlContent::List(items) => self.list(schema, value, items, path),
            YamlContent::Map(fields) => self.object(schema, value, fields, path),
            YamlContent::Null | YamlContent::Bool(_) => {}
        }
    }

    /// Whether a value matches a schema nested in another one.
    fn fits(schema: &YamlNode, value: &YamlNode) -> bool {
        let mut errors = Vec::new();
        Validation { errors: &mut errors, quiet: true }.value(schema, value, "");
        errors.is_empty()
    }

    fn combined(&mut self, schema: &YamlNode, value: &YamlNode, path: &str) {
        let count = |key| {
            let schemas = schema.get(key).items();
            (schemas.len(), schemas.iter().filter(|inner| Self::fits(inner, value)).count())
        };
        let quiet = std::mem::replace(&mut self.quiet, true);
        for inner in schema.get("allOf").items() {
            self.value(inner, value, path);
        }
        self.quiet = quiet;
        if let (1.., 0) = count("anyOf") {
            self.say(value, path, "must match at least one schema of anyOf");
        }
        match count("oneOf") {
            (0, _) | (_, 1) => {}
            (_, fits) => self.say(value, path, &format!("must match exactly one schema of oneOf, but matches {fits}")),
        }
        let not = schema.get("not");
        if !not.is_null() && Self::fits(not, value) {
            self.say(value, path, "must not match the schema of `not`");
        }
    }

    fn text(&mut self, schema: &YamlNode, value: &YamlNode, text: &str, path: &str) {
        self.count(schema, value, path, text.chars().count(), ["minLength", "maxLength"], "characters");
        if let Some(pattern) = schema.get("pattern").text() {
            match Regex::new(pattern) {
                Ok(regex) if regex.is_match(text) => {}
                Ok(_) => self.say(value, path, &format!("is {text:?}, which does not match {pattern}")),
                Err(_) => self.say(value, path, &format!("cannot be checked: invalid pattern {pattern}")),
            }
        }
    }

    fn number(&mut self, schema: &YamlNode, value: &YamlNode, path: &str) {
        let number = |node: &YamlNode| node.number().and_then(serde_json::Number::as_f64);
        let Some(own) = number(value) else { return };
        let exclusive = |key| schema.get(key).is_true();
        if let Some(least) = number(schema.get("minimum"))
            && (own < least || (own <= least && exclusive("exclusiveMinimum")))
        {
            self.say(value, path, &format!("is {own}, but must be at least {least}"));
        }
        if let Some(most) = number(schema.get("maximum"))
            && (own > most || (own >= most && exclusive("exclusiveMaximum")))
        {
            self.say(value, path, &format!("is {own}, but must be at most {most}"));
        }
        if let Some(step) = number(schema.get("multipleOf")).filter(|step| *step != 0.0)
            && (own / step).fract().abs() > 1e-9
        {
            self.say(value, path, &format!("is {own}, but must be a multiple of {step}"));
        }
    }

    fn list(&mut self, schema: &YamlNode, value: &YamlNode, items: &[YamlNode], path: &str) {
        self.count(schema, value, path, items.len(), ["minItems", "maxItems"], "items");
        if schema.get("uniqueItems").is_true()
            && let Some(index) = (1..items.len()).find(|index| items[..*index].contains(&items[*index]))
        {
            self.say(&items[index], &format!("{path}[{index}]"), "is a duplicate");
        }
        let inner = schema.get("items");
        for (index, item) in items.iter().enumerate() {
            self.value(inner, item, &format!("{path}[{index}]"));
        }
    }

    fn object(&mut self, schema: &YamlNode, value: &YamlNode, fields: &[YamlField], path: &str) {
        self.count(schema, value, path, fields.len(), ["minProperties", "maxProperties"], "fields");
        for required in schema.get("required").texts() {
            if !fields.iter().any(|field| field.key == required) {
                self.say(value, &join(path, required), "is missing");
            }
        }
        let properties = schema.get("properties");
        let others = schema.get("additionalProperties");
        for YamlField { key, value: field, .. } in fields {
            let inner = properties.get(key);
            let path = join(path, key);
            if !inner.is_null() {
                self.value(inner, field, &path);
            } else if matches!(others.content, YamlContent::Map(_)) {
                self.value(others, field, &path);
            } else if !others.is_true() && !schema.get(PRESERVE).is_true() && !self.quiet {
                let known = properties.fields().iter().map(|field| field.key.as_str());
                self.errors.push(SchemaError {
                    at: field.at,
                    message: format!("unknown field {path}"),
                    help: nearest(key, known),
                });
            }
        }
    }

    fn count(&mut self, schema: &YamlNode, value: &YamlNode, path: &str, count: usize, bounds: [&str; 2], what: &str) {
        let bound = |key| schema.get(key).number().and_then(serde_json::Number::as_u64);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        if let Some(least) = bound(bounds[0]).filter(|least| count < *least) {
            self.say(value, path, &format!("has {count} {what}, but must have at least {least}"));
        }
        if let Some(most) = bound(bounds[1]).filter(|most| count > *most) {
            self.say(value, path, &format!("has {count} {what}, but must have at most {most}"));
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn article(kind: &str) -> String {
    match kind {
        "integer" | "array" | "object" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

/// Returns the type of a value, and the value itself if it is short.
fn name(value: &YamlNode) -> String {
    let mut text = if value.is_null() { "null".to_owned() } else { article(value.kind()) };
    if matches!(value.content, YamlContent::Bool(_) | YamlContent::Number(_) | YamlContent::Text(_)) {
        let json = value.json().to_string();
        if json.len() <= 40 {
            let _ = write!(text, " ({json})");
        }
    }
    text
}

/// Returns a hint with the nearest key, or with all known keys.
fn nearest<'k>(key: &str, known: impl Iterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.collect();
    let likeness = |name: &&str| strsim::jaro_winkler(&name.to_lowercase(), &key.to_lowercase());
    let near = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match near.filter(|near| likeness(near) > 0.85) {
        Some(near) => format!("did you mean {near}?"),
        None if known.is_empty() => "the schema of the template has no fields here".to_owned(),
        None => format!("valid fields: {}", known.join(", ")),
    }
}
