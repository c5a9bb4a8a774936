//! Which files are read, and which of them belong to a tool that makes manifests of other files.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// Name that stands for standard input.
const STDIN: &str = "-";
/// How the names of settings begin that lie beside manifests, in lower case: those of Kustomize, Helm, Helmfile, Skaffold,
/// Compose and kaudit itself.
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
/// Groups of what looks like an object and is never sent to a cluster.
const LOCAL_GROUPS: [&str; 2] = ["kustomize.config.k8s.io", "skaffold"];

/// A file that may hold manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFile {
    /// As the user named it, or below a directory that the user named.
    pub path: PathBuf,
    /// Whether it was found in a directory and is named as the settings of a tool are: what is no object there is no gap.
    pub is_settings: bool,
}

/// Lists the files that `paths` mean: files as they are, directories recursively, sorted.
///
/// # Errors
/// When a path cannot be read, or a directory holds no manifest.
pub fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<ManifestFile>> {
    let mut files = Vec::new();
    for path in paths {
        if is_stdin(path) || !path.metadata().with_context(|| cannot_read(path))?.is_dir() {
            files.push(ManifestFile { path: path.clone(), is_settings: false });
            continue;
        }
        let before = files.len();
        collect(path, &mut files).with_context(|| cannot_read(path))?;
        anyhow::ensure!(files.len() > before, "{} holds no .yaml, .yml or .json file", path.display());
    }
    Ok(files)
}

/// Whether a path stands for standard input.
pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == STDIN
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// Adds the manifests of a directory.
fn collect(directory: &Path, files: &mut Vec<ManifestFile>) -> std::io::Result<()> {
    let mut entries = directory.read_dir()?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if name.starts_with('.') {
            continue;
        }
        if path.metadata()?.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
        {
            files.push(ManifestFile { is_settings: is_settings(&name), path });
        }
    }
    Ok(())
}

fn is_settings(name: &str) -> bool {
    // People name values after what they are for: `prod-values.yaml`.
    SETTINGS.iter().any(|known| name.starts_with(known)) || name.contains("values.")
}

/// Whether what says that it has this version is read by a tool, and not by a cluster.
pub(super) fn is_local(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| LOCAL_GROUPS.contains(&group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_known_by_name() {
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
