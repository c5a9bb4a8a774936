//! `.manifest`: what a bundle of OPA says of itself.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    judge::bundle::{contain, is_below},
    rego::{builtins::glob, limits::Version, missing::package_of},
};

/// The name of the file.
pub(super) const MANIFEST: &str = ".manifest";

/// The file, without what only its publisher reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Manifest {
    pub(super) revision: Option<String>,
    roots: Option<Vec<String>>,
    rego_version: Option<u8>,
    file_rego_versions: BTreeMap<String, u8>,
    pub(super) wasm: Option<Vec<serde_json::Value>>,
}

impl Manifest {
    /// Reads a file.
    ///
    /// # Errors
    /// When it is none, or contradicts itself.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        let mut manifest: Self = serde_json::from_slice(text).map_err(|error| format!("{MANIFEST}: {error}"))?;
        // Without any, all is its own.
        let roots = manifest.roots.get_or_insert_with(|| vec![String::new()]);
        for root in roots.iter_mut() {
            *root = root.trim_matches('/').to_owned();
        }
        for (index, root) in roots.iter().enumerate() {
            if let Some(other) = roots[..index].iter().find(|other| is_below(root, other) || is_below(other, root)) {
                return Err(format!("{MANIFEST}: the roots {other:?} and {root:?} overlap"));
            }
        }
        Ok(manifest)
    }

    /// Returns the paths below `data` that the bundle owns.
    pub(super) fn roots(&self) -> &[String] {
        self.roots.as_deref().unwrap_or_default()
    }

    /// Returns the version that a module is declared to be in.
    ///
    /// # Errors
    /// When there is no such version, or a pattern is none.
    pub(super) fn version(&self, path: &str) -> Result<Option<Version>, String> {
        let path = format!("/{path}");
        let mut version = self.rego_version;
        for (pattern, own) in &self.file_rego_versions {
            if glob(pattern, &path).map_err(|why| format!("{MANIFEST}: file_rego_versions: {pattern}: {why}"))? {
                version = Some(*own);
                break;
            }
        }
        match version {
            None => Ok(None),
            Some(0) => Ok(Some(Version::V0)),
            Some(1) => Ok(Some(Version::V1)),
            Some(other) => Err(format!("{MANIFEST}: there is no version {other} of Rego, as {path} is said to be in")),
        }
    }

    /// Makes sure that a module is in a package of the bundle's own.
    ///
    /// # Errors
    /// When it is not. What is no module is left to whoever parses it.
    pub(super) fn permit_module(&self, name: &str, text: &str) -> Result<(), String> {
        let names = package_of(text).filter(|names| names.iter().all(|name| !name.is_empty()));
        match names {
            Some(path) if !contain(self.roots(), &path.join("/")) => Err(format!(
                "{name}: the package {} is below none of the roots in {MANIFEST}: {}",
                path.join("."),
                self.shown_roots()
            )),
            _ => Ok(()),
        }
    }

    /// Makes sure that data is the bundle's own.
    ///
    /// # Errors
    /// When some is not.
    pub(super) fn permit_data(&self, name: &str, path: &str, value: &serde_json::Value) -> Result<(), String> {
        if contain(self.roots(), path) {
            return Ok(());
        }
        match value.as_object() {
            Some(values) if path.is_empty() || self.roots().iter().any(|root| is_below(root, path)) => {
                values.iter().try_for_each(|(key, value)| {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}/{key}") };
                    self.permit_data(name, &path, value)
                })
            }
            _ => Err(format!(
                "{name}: data.{} is below none of the roots in {MANIFEST}: {}",
                path.replace('/', "."),
                self.shown_roots()
            )),
        }
    }

    fn shown_roots(&self) -> String {
        let shown: Vec<String> = self.roots().iter().map(|root| format!("{root:?}")).collect();
        if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_are_found_behind_comments() {
        for (text, want) in [
            ("# METADATA\n\npackage a.b # c\n", Some("a/b")),
            ("package a[\"b-c\"].d", Some("a/b-c/d")),
            ("package\ta", Some("a")),
            ("deny := 1", None),
            ("", None),
        ] {
            assert_eq!(package_of(text).map(|names| names.join("/")).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn roots_permit_what_is_below_them() {
        let manifest = Manifest::read(br#"{"roots": ["/a/b/", "c"]}"#).unwrap();
        assert!(manifest.permit_module("m", "package a.b.d").is_ok());
        assert!(manifest.permit_module("m", "package a.bc").unwrap_err().contains(r#"roots in .manifest: "a/b", "c""#));
        for (data, permitted) in [
            (json!({"a": {"b": {"x": 1}}}), true),
            (json!({"a": {"b": 1}, "c": []}), true),
            (json!({"a": {"x": 1}}), false),
            (json!({"a": 1}), false),
            (json!({"d": {}}), false),
        ] {
            assert_eq!(manifest.permit_data("data.json", "", &data).is_ok(), permitted, "{data}");
        }
        assert!(Manifest::read(b"{}").unwrap().permit_module("m", "package a").is_ok());
        assert!(Manifest::read(br#"{"roots": []}"#).unwrap().permit_module("m", "package a").is_err());
        assert!(Manifest::read(br#"{"roots": ["a", "a/b"]}"#).unwrap_err().contains("overlap"));
        assert!(Manifest::read(br#"{"roots": "a"}"#).is_err());
    }

    #[test]
    fn versions_are_those_of_the_file_or_of_all() {
        let text = br#"{"rego_version": 1, "file_rego_versions": {"/old/*": 0, "/bad.rego": 7}}"#;
        let manifest = Manifest::read(text).unwrap();
        assert_eq!(manifest.version("a.rego"), Ok(Some(Version::V1)));
        assert_eq!(manifest.version("old/a/b.rego"), Ok(Some(Version::V0)));
        assert!(manifest.version("bad.rego").unwrap_err().contains("no version 7"));
        assert_eq!(Manifest::read(b"{}").unwrap().version("a.rego"), Ok(None));
    }
}
