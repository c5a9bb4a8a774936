//! Resolves the templates of charts that `helm template` names above each document, so that results can point to them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use crate::rego::analysis::yaml::{self, YamlDialect};

/// The comment that Helm writes before the path of a template.
const SOURCE: &str = "# Source: ";
/// Levels of directories below the working directory that are searched for charts.
const LEVELS: usize = 3;
/// The most directories that are searched.
const MOST_DIRECTORIES: usize = 10_000;

/// Finds the templates of documents on standard input.
#[derive(Debug)]
pub(super) struct Templates {
    charts: LazyLock<Vec<Chart>>,
}

/// A chart's directory and name.
#[derive(Debug, PartialEq, Eq)]
struct Chart {
    name: String,
    directory: PathBuf,
}

impl Default for Templates {
    fn default() -> Self {
        Self { charts: LazyLock::new(|| charts_below(Path::new(""))) }
    }
}

impl Templates {
    /// Returns the template named in the comments above a document: its path from the working directory if its chart is
    /// there, otherwise as Helm wrote it, beginning with the name of the chart.
    pub(super) fn of(&self, document: &str) -> Option<Arc<str>> {
        let named = named(document)?;
        Some(path_in(&self.charts, named).unwrap_or_else(|| named.to_owned()).into())
    }
}

/// Returns the path of a template that Helm names by its chart, if one of the charts contains it.
fn path_in(charts: &[Chart], named: &str) -> Option<String> {
    let (name, template) = named.split_once('/')?;
    let mut paths = charts.iter().filter(|chart| chart.name == name).map(|chart| chart.directory.join(template));
    paths.find(|path| path.is_file()).map(|path| path.to_string_lossy().into_owned())
}

/// Returns the source named in the first comments of a document, unless its path leads out of the chart.
fn named(document: &str) -> Option<&str> {
    let mut comments = document
        .lines()
        .map(str::trim_end)
        .take_while(|line| line.is_empty() || line.starts_with('#') || line.starts_with("---"));
    let path = comments.find_map(|line| line.strip_prefix(SOURCE))?;
    let is_inside = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    (is_inside && !path.contains(|c: char| c.is_control() || c == '\\')).then_some(path)
}

/// Returns the charts in and below a directory, the nearest first.
fn charts_below(root: &Path) -> Vec<Chart> {
    let mut charts = Vec::new();
    let mut level = vec![root.to_owned()];
    let mut left = MOST_DIRECTORIES;
    for _ in 0..=LEVELS {
        let mut below = Vec::new();
        for directory in level {
            let name = fs::read_to_string(directory.join("Chart.yaml")).ok().and_then(|text| chart_name(&text));
            charts.extend(name.map(|name| Chart { name, directory: directory.clone() }));
            below.extend(directories(&directory));
            below.truncate(left);
        }
        left -= below.len();
        level = below;
    }
    charts
}

/// Returns the directories in a directory that are not hidden, sorted by name.
fn directories(directory: &Path) -> Vec<PathBuf> {
    let read = if directory.as_os_str().is_empty() { Path::new(".") } else { directory }.read_dir();
    let entries = read.into_iter().flatten().flatten();
    let visible = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut found: Vec<_> = visible.filter(is_directory).map(|entry| directory.join(entry.file_name())).collect();
    found.sort();
    found
}

/// Returns the name that a `Chart.yaml` gives.
fn chart_name(text: &str) -> Option<String> {
    let chart = yaml::first(text, YamlDialect::Kubectl).ok()??.root;
    Some(chart.get("name").text()?.to_owned())
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn the_template_is_named_in_the_comments_above_the_document() {
        for (document, want) in [
            ("---\n# Source: web/templates/api.yaml\nkind: Pod\n", Some("web/templates/api.yaml")),
            ("# Source: web/templates/api.yaml\r\nkind: Pod\r\n", Some("web/templates/api.yaml")),
            ("\n# by hand\n# Source: web/charts/db/templates/db.yaml\n", Some("web/charts/db/templates/db.yaml")),
            ("kind: Pod\n# Source: web/templates/api.yaml\n", None),
            ("# Source: web/../../etc/passwd\n", None),
            ("# Source: /etc/passwd\n", None),
            ("# Source: \n", None),
            ("", None),
        ] {
            assert_eq!(named(document), want, "{document:?}");
        }
    }

    #[test]
    fn a_chart_is_found_by_its_name_wherever_its_directory_is() {
        let root = tempdir().unwrap();
        for (directory, name) in
            [("deploy", "web"), ("deploy/charts/db", "db"), (".hidden", "web"), ("a/b/c/d", "deep")]
        {
            let directory = root.path().join(directory);
            fs::create_dir_all(directory.join("templates")).unwrap();
            fs::write(directory.join("templates/api.yaml"), "").unwrap();
            fs::write(directory.join("Chart.yaml"), format!("apiVersion: v2\nname: {name}\n")).unwrap();
        }
        let charts = charts_below(root.path());
        let names: Vec<_> = charts.iter().map(|chart| &*chart.name).collect();
        assert_eq!(names, ["web", "db"]);
        let path = |named: &str| path_in(&charts, named).map(|path| path.replace(&*root.path().to_string_lossy(), ""));
        for (named, want) in [
            ("web/templates/api.yaml", Some("/deploy/templates/api.yaml")),
            ("web/charts/db/templates/api.yaml", Some("/deploy/charts/db/templates/api.yaml")),
            ("web/templates/other.yaml", None),
            ("deep/templates/api.yaml", None),
        ] {
            assert_eq!(path(named).as_deref(), want, "{named}");
        }
    }
}
