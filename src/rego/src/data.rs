//! Builds the `data` document from data files, as `opa -d` does: the directories below the given path are the keys; the
//! name of the file does not matter.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Map, Value, map::Entry};

use super::{
    file::{File, Form},
    problem::{Problem, number},
};
use crate::yaml::{self, YamlDialect, YamlError, YamlNode};

/// The data of all files, merged.
#[derive(Debug, Default)]
pub struct Data {
    /// The merged document.
    pub document: Map<String, Value>,
    /// The file of each value, by path, to name both sides of a conflict.
    origins: HashMap<Vec<String>, Arc<str>>,
    /// Top-level keys whose values are only known when a rule is evaluated.
    external: &'static [&'static str],
}

impl Data {
    /// Returns an empty document. The caller adds the values below the keys `external` before a rule is evaluated.
    pub fn new(external: &'static [&'static str]) -> Self {
        Self { external, ..Self::default() }
    }

    /// Adds the value of one file below the keys given by its directories.
    pub fn insert(&mut self, file: &File, value: Value, problems: &mut Vec<Problem>) {
        if file.directories.is_empty() && !value.is_object() {
            let help = "put it into a directory, whose name becomes its key, or make it an object";
            problems.push(Problem::refused(&file.shown, "data at the top must be an object").help(help));
            return;
        }
        let value = file
            .directories
            .iter()
            .rev()
            .fold(value, |value, directory| Value::Object(Map::from_iter([(directory.clone(), value)])));
        let Value::Object(values) = value else { return };
        let mut path = Vec::new();
        merge(&mut self.document, values, &mut path, file, &mut self.origins, problems);
    }

    /// Whether the value at a path may be added before a rule is evaluated.
    pub fn is_external(&self, path: &[String]) -> bool {
        path.first().is_some_and(|key| self.external.contains(&key.as_str()))
    }

    /// Returns the file that defines a value at this path or at a prefix of it, if the value conflicts with a rule
    /// there.
    pub(crate) fn conflicting_file(&self, path: &[String]) -> Option<&Arc<str>> {
        let mut values = &self.document;
        for (index, key) in path.iter().enumerate() {
            match values.get(key)? {
                Value::Object(inner) if index + 1 < path.len() => values = inner,
                _ => {
                    return (0..=index)
                        .rev()
                        .find_map(|last| self.origins.get(&path[..=last]))
                        .or_else(|| self.below(path));
                }
            }
        }
        None
    }

    /// Whether there is a value at a path.
    pub fn has(&self, path: &[String]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let first = self.document.get(first);
        rest.iter().fold(first, |value, key| value?.get(key)).is_some()
    }

    /// Returns a file with a value below a path.
    fn below(&self, path: &[String]) -> Option<&Arc<str>> {
        self.origins.iter().filter(|(origin, _)| origin.starts_with(path)).map(|(_, file)| file).min()
    }
}

/// Merges objects key by key; any other two values at one path are a conflict.
fn merge(
    into: &mut Map<String, Value>,
    values: Map<String, Value>,
    path: &mut Vec<String>,
    file: &File,
    origins: &mut HashMap<Vec<String>, Arc<str>>,
    problems: &mut Vec<Problem>,
) {
    for (key, value) in values {
        path.push(key.clone());
        match (into.entry(key), value) {
            (Entry::Occupied(mut old), Value::Object(new)) if old.get().is_object() => {
                if let Value::Object(old) = old.get_mut() {
                    merge(old, new, path, file, origins, problems);
                }
            }
            (Entry::Occupied(_), _) => {
                let other = (0..path.len()).rev().find_map(|last| origins.get(&path[..=last]));
                let other = other.map_or("another file", |file| file);
                let message = format!("data.{} is also defined in {other}", path.join("."));
                problems.push(Problem::refused(&file.shown, message).help("keep it in one of the two files"));
            }
            (Entry::Vacant(free), Value::Object(new)) => {
                origins.insert(path.clone(), Arc::clone(&file.shown));
                let Value::Object(empty) = free.insert(Value::Object(Map::new())) else { continue };
                merge(empty, new, path, file, origins, problems);
            }
            (Entry::Vacant(free), value) => {
                origins.insert(path.clone(), Arc::clone(&file.shown));
                free.insert(value);
            }
        }
        path.pop();
    }
}

/// Parses the documents of a JSON or YAML file, without empty ones.
///
/// # Errors
/// Returns the syntax error with its location.
pub fn documents(file: &File) -> Result<Vec<Value>, Problem> {
    let mut documents = if file.form == Form::Json {
        vec![serde_json::from_str::<Value>(&file.text).map_err(|why| {
            let (line, column) = (why.line(), why.column());
            let message = why.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            Problem::refused(&file.shown, format!("not valid JSON: {message}")).at(
                &file.text,
                number(line),
                number(column),
            )
        })?]
    } else {
        let documents = yaml::documents(&file.text, YamlDialect::Opa).map_err(|why| yaml_problem(file, &why))?;
        documents.iter().map(YamlNode::json).collect()
    };
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

/// Converts an error of the YAML parser into a problem with its location.
pub fn yaml_problem(file: &File, error: &YamlError) -> Problem {
    let problem = Problem::refused(&file.shown, format!("not valid YAML: {}", error.why));
    problem.at(&file.text, error.at.line, error.at.column)
}
