//! Parsed data files, and what other sources see of them.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    judge::dialects::trivy,
    rego::{
        File,
        analysis::{data::Data, references::Path},
    },
};

/// A parsed data file.
#[derive(Debug)]
pub(in crate::judge) struct ParsedData<'f> {
    pub(in crate::judge) file: &'f File,
    pub(in crate::judge) value: Value,
}

impl ParsedData<'_> {
    /// Adds the wanted keys to the data of another source, except for paths in packages of that source. Conflicts are
    /// reported by the source that contains the file.
    pub(super) fn add_to(&self, data: &mut Data, wanted: &WantedData, packages: &BTreeSet<&Path>) {
        let directory = self.file.directories.first();
        if directory.is_some_and(|key| !wanted.has(key)) {
            return;
        }
        let mut value = nested(&self.file.directories, self.value.clone());
        if let Value::Object(values) = &mut value {
            values.retain(|key, _| wanted.has(key));
            for package in packages {
                prune(values, package);
            }
        }
        let file = File::new(Arc::clone(&self.file.shown), self.file.form, String::new());
        data.insert(&file, value, &mut Vec::new());
    }
}

/// The top-level keys of `data` that modules refer to.
pub(super) struct WantedData(Option<BTreeSet<String>>);

impl WantedData {
    pub(super) fn of(modules: &[&File]) -> Self {
        let whole = modules.iter().any(|file| trivy::uses_all(&file.text));
        let keys =
            || modules.iter().flat_map(|file| trivy::uses(&file.text)).filter_map(|path| path.into_iter().next());
        Self((!whole).then(|| keys().collect()))
    }

    fn has(&self, key: &str) -> bool {
        self.0.as_ref().is_none_or(|keys| keys.contains(key))
    }
}

fn nested(directories: &[String], value: Value) -> Value {
    let below = |value, directory: &String| Value::Object(Map::from_iter([(directory.clone(), value)]));
    directories.iter().rev().fold(value, below)
}

/// Whether a value below directories defines a path, or conflicts with it.
pub(super) fn gives(directories: &[String], value: &Value, path: &[String]) -> bool {
    let Some((key, rest)) = path.split_first() else { return true };
    match (directories.split_first(), value) {
        (Some((directory, directories)), _) => directory == key && gives(directories, value, rest),
        (None, Value::Object(values)) => values.get(key).is_some_and(|value| gives(&[], value, rest)),
        (None, _) => true,
    }
}

/// Removes the value at a path.
fn prune(values: &mut Map<String, Value>, path: &[String]) {
    let Some((key, rest)) = path.split_first() else { return };
    match values.get_mut(key) {
        Some(Value::Object(inner)) if !rest.is_empty() => prune(inner, rest),
        Some(_) => drop(values.remove(key)),
        None => {}
    }
}
