//! Finds the files to read, and which of them belong to a tool that generates manifests from other files.

use std::{
    collections::HashSet,
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;

use crate::{bundle, cluster::identity::OWN_GROUP, judge::links::LinkBoundary, model::spelling::nearest};

/// The largest download, in bytes.
const LARGEST_DOWNLOAD: u64 = 64 * 1024 * 1024;
/// The most files of a directory that are compared with the name of a missing file.
const MOST_SIBLINGS: usize = 1_000;
/// The name of standard input.
const STDIN: &str = "-";
/// Prefixes, in lower case, of the settings files of tools that lie next to manifests: Kustomize, Helm, Helmfile,
/// Skaffold, Compose and kaudit itself.
const SETTINGS: [&str; 9] = [
    "kustomization.",
    "chart.",
    "requirements.",
    "values",
    "helmfile",
    "skaffold",
    "docker-compose",
    "compose.",
    "kaudit.",
];
/// Groups of documents that look like objects and are never sent to a cluster.
const LOCAL_GROUPS: [&str; 2] = ["kustomize.config.k8s.io", "skaffold"];

/// A file that may contain manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFile {
    /// As the user named it, or below a directory that the user named.
    pub path: PathBuf,
    /// Whether it was found in a directory and is hidden, or by its name the settings of a tool: documents in it that
    /// are not objects leave the check complete.
    pub is_settings: bool,
    /// Why it is not read, for a file that was found in a directory.
    pub problem: Option<String>,
    /// The downloaded content, for a URL.
    pub content: Option<Arc<[u8]>>,
}

impl ManifestFile {
    /// Creates a file that the user named, which is read whatever it is.
    pub fn named(path: PathBuf) -> Self {
        Self { path, is_settings: false, problem: None, content: None }
    }
}

/// Lists the files that `paths` refer to: files as they are, directories recursively, sorted.
///
/// In a directory only regular files are read, through links as far as a [`LinkBoundary`] allows.
///
/// # Errors
/// When a path cannot be read, or a directory contains no manifest.
pub fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<ManifestFile>> {
    let is_local = |path: &&Path| !is_stdin(path) && url(path).is_none();
    let links = LinkBoundary::of(paths.iter().map(PathBuf::as_path).filter(is_local));
    let mut walk = ManifestWalk { links, above: Vec::new(), files: Vec::new() };
    let mut known = HashSet::new();
    for path in paths.iter().filter(|path| known.insert(*path)) {
        if is_stdin(path) || url(path).is_some() || !path.metadata().with_context(|| not_there(path))?.is_dir() {
            walk.files.push(ManifestFile::named(path.clone()));
            continue;
        }
        let before = walk.files.len();
        walk.directory(path, false).with_context(|| cannot_read(path))?;
        anyhow::ensure!(walk.files.len() > before, "{} contains no .yaml, .yml or .json file", path.display());
    }
    Ok(walk.files)
}

/// Downloads the files that are URLs.
///
/// # Errors
/// Names the first file that cannot be downloaded.
pub async fn download(files: &mut [ManifestFile]) -> anyhow::Result<()> {
    for file in files {
        if let Some(url) = url(&file.path) {
            let content = bundle::download(url, LARGEST_DOWNLOAD).await.with_context(|| cannot_read(&file.path))?;
            file.content = Some(content.into());
        }
    }
    Ok(())
}

/// Returns the URL, if the path is one.
fn url(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.starts_with("https://") || text.starts_with("http://"))
}

/// Whether a path refers to standard input.
pub fn is_stdin(path: impl AsRef<Path>) -> bool {
    path.as_ref().as_os_str() == STDIN
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// Returns the error for a missing path, with the nearest name in its directory.
fn not_there(path: &Path) -> String {
    let directory = path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    let names = directory.and_then(|directory| fs::read_dir(directory).ok()).into_iter().flatten().take(MOST_SIBLINGS);
    let names: Vec<String> = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let near = path.file_name().and_then(|name| nearest(name.to_str()?, names.iter().map(String::as_str)));
    let near = near.filter(|near| path.file_name().is_some_and(|name| name != *near));
    let near = near.map(|near| format!(" (did you mean {}?)", path.with_file_name(near).display()));
    format!("{}{}", cannot_read(path), near.unwrap_or_default())
}

/// Finds the manifests below directories.
struct ManifestWalk {
    links: LinkBoundary,
    /// The directories that lead to the current one, resolved.
    above: Vec<PathBuf>,
    files: Vec<ManifestFile>,
}

impl ManifestWalk {
    /// Adds the manifests of a directory; `is_hidden` if its name or that of a parent begins with a dot.
    fn directory(&mut self, directory: &Path, is_hidden: bool) -> io::Result<()> {
        if let Some(chart) = chart_of_templates(directory) {
            // Its subcharts are rendered with it.
            if chart.parent().filter(|above| above.ends_with("charts")).and_then(Path::parent).is_some_and(is_chart) {
                return Ok(());
            }
            let chart = if chart.as_os_str().is_empty() { Path::new(".") } else { chart };
            let why = format!("render the chart first: helm template {} | kaudit check -f -", chart.display());
            let problem = Some(why);
            self.files.push(ManifestFile { path: directory.to_owned(), is_settings: false, problem, content: None });
            return Ok(());
        }
        let mut entries = directory.read_dir()?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        entries.sort();
        self.above.push(directory.canonicalize()?);
        for path in entries {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            // The links in a mounted ConfigMap point into `..data`.
            if name == ".git" || name.starts_with("..") {
                continue;
            }
            let is_hidden = is_hidden || name.starts_with('.');
            let problem = match self.metadata(&path) {
                Ok(metadata) if metadata.is_dir() => match self.directory(&path, is_hidden) {
                    Ok(()) => continue,
                    Err(why) => Some(why.to_string()),
                },
                Ok(_) if !is_manifest(&path) => continue,
                Ok(metadata) => (!metadata.is_file()).then(|| "not a regular file".to_owned()),
                // A link to a file of another name is not read anyway. Editors mark open files with hidden links to
                // nothing.
                Err(_) if is_hidden || !is_manifest(&path) && path.is_file() => continue,
                Err(why) => Some(why.to_string()),
            };
            self.files.push(ManifestFile {
                is_settings: is_hidden || is_settings(&name),
                path,
                problem,
                content: None,
            });
        }
        self.above.pop();
        Ok(())
    }

    /// Returns the metadata of a file, unless it is a link to a directory above it.
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        if self.links.target(path)?.is_some_and(|target| self.above.contains(&target)) {
            return Err(io::Error::other("a link to a directory above it"));
        }
        path.metadata()
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}

fn is_settings(name: &str) -> bool {
    // Values files are often named after their purpose: `prod-values.yaml`.
    SETTINGS.iter().any(|known| name.starts_with(known)) || name.contains("values.")
}

/// Returns the chart of a directory of templates: they are no manifests until Helm has rendered them.
fn chart_of_templates(directory: &Path) -> Option<&Path> {
    let chart = directory.parent().filter(|_| directory.ends_with("templates"))?;
    is_chart(chart).then_some(chart)
}

fn is_chart(directory: &Path) -> bool {
    directory.join("Chart.yaml").is_file()
}

/// Whether a document with this `apiVersion` is read by a tool and not by a cluster.
pub(super) fn is_local(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| LOCAL_GROUPS.contains(&group))
}

/// Returns why a file that kaudit has written is not a manifest; `None` for other files.
pub(super) fn result_file(api_version: &str, kind: &str) -> Option<&'static str> {
    let is_own = api_version.split_once('/').is_some_and(|(group, _)| group == OWN_GROUP);
    match kind {
        "AuditResult" if is_own => Some("it is a kaudit result, not a manifest: compare two results with kaudit diff"),
        "Baseline" if is_own => Some("it is a baseline, not a manifest: pass it with --baseline"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_recognized_by_name() {
        for name in [
            "kustomization.yaml",
            "chart.yaml",
            "values.yaml",
            "values-prod.yml",
            "values.schema.json",
            "helmfile.yaml",
            "kaudit.yaml",
        ] {
            assert!(is_settings(name), "{name}");
        }
        for name in ["deployment.yaml", "charts.yaml", "kustomization-controller.yaml", "composer.yaml", "value.yaml"] {
            assert!(!is_settings(name), "{name}");
        }
        assert!(is_local("kustomize.config.k8s.io/v1beta1") && !is_local("kustomize.toolkit.fluxcd.io/v1"));
        assert!(!is_local("v1"));
    }
}
