//! `.manifest`: the metadata of an OPA bundle.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;

use crate::{
    judge::bundle::is_below,
    model::text::shortened,
    rego::{
        Limits, Version,
        analysis::{builtins::glob, missing::package_of},
    },
};

/// The name of the file.
pub(super) const MANIFEST: &str = ".manifest";
/// The maximum number of roots.
const ROOTS: usize = 10_000;
/// The maximum number of roots that an error shows.
const SHOWN_ROOTS: usize = 10;
/// The maximum number of patterns with wildcards in `file_rego_versions`; plain file names are compared much faster.
const GLOBS: usize = 100;
/// The maximum number of comparisons of such patterns with the names of modules.
const COMPARISONS: usize = 100_000;

/// The fields of the file that matter to a reader of the bundle.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Manifest {
    pub(super) revision: Option<String>,
    /// Sorted by path segments, so that a root is followed by the paths below it.
    roots: Option<Vec<String>>,
    rego_version: Option<u8>,
    file_rego_versions: BTreeMap<String, u8>,
    #[serde(skip)]
    globs: BTreeMap<String, Regex>,
    pub(super) wasm: Option<Vec<serde_json::Value>>,
}

impl Manifest {
    /// Parses the file.
    ///
    /// # Errors
    /// If it is invalid or exceeds a limit, or its roots overlap.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        let limit = Limits::default().file_bytes;
        if text.len() as u64 > limit {
            return Err(format!("{MANIFEST} has {} bytes, more than the limit of {limit}", text.len()));
        }
        let mut manifest: Self = serde_json::from_slice(text).map_err(|error| format!("{MANIFEST}: {error}"))?;
        // Without roots, the bundle owns everything.
        let roots = manifest.roots.get_or_insert_with(|| vec![String::new()]);
        for root in roots.iter_mut() {
            *root = root.trim_matches('/').to_owned();
        }
        if roots.len() > ROOTS {
            return Err(format!("{MANIFEST} has more than {ROOTS} roots"));
        }
        roots.sort_by(|one, other| one.split('/').cmp(other.split('/')));
        let mut neighbors = roots.iter().zip(roots.iter().skip(1));
        if let Some((above, root)) = neighbors.find(|(above, root)| is_below(root, above)) {
            return Err(format!("{MANIFEST}: the roots {above:?} and {root:?} overlap"));
        }
        manifest.compile()?;
        Ok(manifest)
    }

    /// Compiles the patterns of `file_rego_versions` that have wildcards.
    fn compile(&mut self) -> Result<(), String> {
        let has_wildcards = |pattern: &&String| pattern.contains(['*', '?', '[', ']', '{', '}', '\\']);
        for pattern in self.file_rego_versions.keys().filter(has_wildcards) {
            if self.globs.len() >= GLOBS {
                return Err(format!("{MANIFEST}: file_rego_versions has more than {GLOBS} patterns with wildcards"));
            }
            let shown = shortened(pattern, 100);
            let unusable = |why: String| format!("{MANIFEST}: file_rego_versions: {shown}: {}", shortened(&why, 100));
            let regex = glob(pattern).map_err(unusable)?;
            self.globs.insert(pattern.clone(), regex);
        }
        Ok(())
    }

    /// Checks that finding the versions of `count` modules takes a short time.
    ///
    /// # Errors
    /// If there are too many patterns for so many modules.
    pub(super) fn permit_modules(&self, count: usize) -> Result<(), String> {
        if self.globs.len().saturating_mul(count) > COMPARISONS {
            let globs = self.globs.len();
            return Err(format!(
                "{MANIFEST}: file_rego_versions has {globs} patterns with wildcards for {count} modules; name the files"
            ));
        }
        Ok(())
    }

    /// Whether a path below `data` is one of the roots or below one.
    fn owns(&self, path: &str) -> bool {
        self.neighbors(path).0.is_some_and(|root| is_below(path, root))
    }

    /// Returns the last root that is not after a path in sort order, and the first that is.
    fn neighbors(&self, path: &str) -> (Option<&String>, Option<&String>) {
        let (before, behind) =
            self.roots().split_at(self.roots().partition_point(|root| root.split('/').le(path.split('/'))));
        (before.last(), behind.first())
    }

    /// Returns the paths below `data` that the bundle owns.
    pub(super) fn roots(&self) -> &[String] {
        self.roots.as_deref().unwrap_or_default()
    }

    /// Returns the declared Rego version of a module.
    ///
    /// # Errors
    /// If there is no such version of Rego.
    pub(super) fn version(&self, path: &str) -> Result<Option<Version>, String> {
        let path = format!("/{path}");
        let mut version = self.rego_version;
        // The first pattern in sort order counts.
        let glob = self.globs.iter().find(|(_, regex)| regex.is_match(&path)).map(|(pattern, _)| &**pattern);
        let named = self.file_rego_versions.contains_key(&path).then_some(&*path);
        let pattern = glob.into_iter().chain(named).min();
        if let Some(own) = pattern.and_then(|pattern| self.file_rego_versions.get(pattern)) {
            version = Some(*own);
        }
        match version {
            None => Ok(None),
            Some(0) => Ok(Some(Version::V0)),
            Some(1) => Ok(Some(Version::V1)),
            Some(other) => {
                Err(format!("{MANIFEST}: there is no version {other} of Rego, which is declared for {path}"))
            }
        }
    }

    /// Checks that a module is in a package owned by the bundle.
    ///
    /// # Errors
    /// If it is not. An invalid module is left to the parser.
    pub(super) fn permit_module(&self, name: &str, text: &str) -> Result<(), String> {
        let names = package_of(text).filter(|names| names.iter().all(|name| !name.is_empty()));
        match names {
            Some(path) if !self.owns(&path.join("/")) => Err(format!(
                "{name}: the package {} is below none of the roots in {MANIFEST}: {}",
                path.join("."),
                self.shown_roots()
            )),
            _ => Ok(()),
        }
    }

    /// Checks that data is owned by the bundle.
    ///
    /// # Errors
    /// If some of it is not.
    pub(super) fn permit_data(&self, name: &str, path: &str, value: &serde_json::Value) -> Result<(), String> {
        if self.owns(path) {
            return Ok(());
        }
        match value.as_object() {
            Some(values) if path.is_empty() || self.neighbors(path).1.is_some_and(|root| is_below(root, path)) => {
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
        let shown: Vec<String> = self.roots().iter().take(SHOWN_ROOTS).map(|root| format!("{root:?}")).collect();
        let more = if self.roots().len() > shown.len() { ", …" } else { "" };
        if shown.is_empty() { "none".to_owned() } else { format!("{}{more}", shown.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_are_found_after_comments() {
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
    fn roots_permit_the_paths_below_them() {
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
    fn a_module_has_the_version_of_its_file_or_of_the_bundle() {
        let text = br#"{"rego_version": 1, "file_rego_versions": {"/old/*": 0, "/bad.rego": 7}}"#;
        let manifest = Manifest::read(text).unwrap();
        assert_eq!(manifest.version("a.rego"), Ok(Some(Version::V1)));
        assert_eq!(manifest.version("old/a/b.rego"), Ok(Some(Version::V0)));
        assert!(manifest.version("bad.rego").unwrap_err().contains("no version 7"));
        assert_eq!(Manifest::read(b"{}").unwrap().version("a.rego"), Ok(None));
        // The first pattern counts, whether it has wildcards or not.
        let text = br#"{"file_rego_versions": {"/a.rego": 0, "/a*": 1, "/b*": 1, "/b.rego": 0, "/{c,d}.rego": 0}}"#;
        let manifest = Manifest::read(text).unwrap();
        for (name, want) in [
            ("a.rego", Some(Version::V1)),
            ("ab.rego", Some(Version::V1)),
            ("b.rego", Some(Version::V1)),
            ("d.rego", Some(Version::V0)),
            ("e.rego", None),
        ] {
            assert_eq!(manifest.version(name), Ok(want), "{name}");
        }
    }

    #[test]
    fn roots_that_overlap_are_found_wherever_they_are() {
        for (roots, overlap) in [
            (json!(["a", "a-b", "a/b"]), true),
            (json!(["a/b/c", "x", "a.b", "a"]), true),
            (json!(["a", "b", "a"]), true),
            (json!(["b", ""]), true),
            (json!(["a/b", "a-b", "a.b", "a/c", "ab"]), false),
        ] {
            let read = Manifest::read(json!({"roots": roots}).to_string().as_bytes());
            assert_eq!(read.is_err_and(|why| why.contains("overlap")), overlap, "{roots}");
        }
        let manifest = Manifest::read(br#"{"roots": ["a/c", "a-b", "a/b/x", "ab"]}"#).unwrap();
        for (path, owned) in
            [("a/c", true), ("a/c/d", true), ("a/cd", false), ("a-b/x", true), ("a", false), ("a/b/x/y/z", true)]
        {
            assert_eq!(manifest.owns(path), owned, "{path}");
            let permitted = manifest.permit_module("m", &format!("package {}", path.replace('/', "."))).is_ok();
            assert!(path.contains('-') || permitted == owned, "{path}");
        }
        assert!(manifest.permit_data("data.json", "", &json!({"a": {"b": {"x": 1}, "c": 2}, "ab": {}})).is_ok());
        assert!(manifest.permit_data("data.json", "", &json!({"a": {"b": {"y": 1}}})).is_err());
    }

    #[test]
    fn a_manifest_is_bounded() {
        let roots = |count: usize| json!({"roots": (0..count).map(|root| format!("r{root}")).collect::<Vec<_>>()});
        let patterns = |count: usize, end: &str| {
            let patterns = (0..count).map(|pattern| (format!("/{pattern}x{end}"), json!(1)));
            json!({"file_rego_versions": patterns.collect::<serde_json::Map<_, _>>()})
        };
        let nested = format!("/{}", "{a,b}*".repeat(5_000));
        for (manifest, want) in [
            (roots(10_000), ""),
            (roots(10_001), "more than 10000 roots"),
            (patterns(20_000, ".rego"), ""),
            (patterns(100, "y*z*{a,b,c}"), ""),
            (patterns(101, "y*z*{a,b,c}"), "more than 100 patterns"),
            (json!({"file_rego_versions": {nested: 1}}), "file_rego_versions"),
            (json!({"wasm": vec![0; 1 << 19], "revision": "x"}), "1048576"),
        ] {
            match Manifest::read(manifest.to_string().as_bytes()) {
                Ok(_) => assert_eq!(want, ""),
                Err(why) => assert!(!want.is_empty() && why.contains(want) && why.len() < 300, "{want}: {why}"),
            }
        }
        let manifest = Manifest::read(patterns(100, "*").to_string().as_bytes()).unwrap();
        assert!(manifest.permit_modules(1_000).is_ok() && manifest.permit_modules(1_001).is_err());
    }
}
