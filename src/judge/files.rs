//! Finds, sorts, reads and watches the files of all policy sources.
//!
//! Names that begin with a dot are skipped, and symbolic links are followed, so that a mounted `ConfigMap`, in which
//! every file is a link into `..data`, reads like a plain directory. Links that leave the directory are refused.

use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsString,
    fs::{self, File as OpenFile},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde_json::{Map, Value};

use super::{
    builtin::{self, BuiltinFile},
    bundle::Bundle,
    data,
    links::LinkBoundary,
    sources::{FileSource, FileTree, TreeFile, shown},
};
use crate::{
    model::spelling::nearest,
    rego::{Declared, File, Form, Limits, Problem},
};

/// The deepest directory level: deeper nesting is a mistake, or a loop without links.
const DEEPEST: usize = 32;
/// The number of files and directories below one path that links may lead to repeatedly.
const REPEATED: usize = 10_000;

/// A file that has not been read yet.
struct FoundFile {
    path: PathBuf,
    directories: Vec<String>,
    form: Form,
}

/// Reads every policy and data file of `sources`, in the order of their names.
///
/// Unreadable files become problems; the other files are still read.
pub(crate) fn read(sources: &[FileSource], limits: &Limits) -> (Vec<File>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut files = Vec::new();
    let mut modules = HashSet::new();
    let mut parts = BTreeSet::new();
    let links = LinkBoundary::of(sources.iter().filter_map(FileSource::path));
    for source in sources {
        match source {
            FileSource::Path(root) => read_below(root, &links, (limits, &mut modules), &mut files, &mut problems),
            FileSource::Builtin(part) => {
                let named = builtin::part(part);
                if named.is_empty() {
                    problems.push(unknown_part(source, part));
                }
                parts.extend(named);
            }
            FileSource::Tree(tree) => from_memory(tree, None, limits, &mut files, &mut problems),
            FileSource::Bundle(bundle) => from_memory(&bundle.tree, Some(bundle), limits, &mut files, &mut problems),
        }
    }
    for part in parts {
        // Skipped if the paths contain a copy of the library: the module would be loaded twice.
        if !files.iter().any(|file| *file.text == *part.text) {
            files.push(embedded(&part));
        }
    }
    (files, problems)
}

/// Reads the files below a path, except for modules that were read before: loading a module twice (`-p . -p policies`)
/// would duplicate its results.
fn read_below(
    root: &Path,
    links: &LinkBoundary,
    (limits, modules): (&Limits, &mut HashSet<PathBuf>),
    files: &mut Vec<File>,
    problems: &mut Vec<Problem>,
) {
    let mut found = Vec::new();
    find(root, links, &mut found, problems);
    for found in found {
        let canonical = fs::canonicalize(&found.path).unwrap_or_else(|_| found.path.clone());
        if found.form == Form::Rego && !modules.insert(canonical) {
            continue;
        }
        let shown = shown(&found.path);
        match read_one(&found.path, limits) {
            Ok(text) => files.push(File { directories: found.directories, ..File::new(shown, found.form, text) }),
            Err(why) => problems.push(Problem::refused(&shown, why)),
        }
    }
}

/// Returns every policy and data file below `paths`.
///
/// # Errors
/// Returns the first problem.
pub(crate) fn below(paths: &[PathBuf]) -> anyhow::Result<Vec<File>> {
    let sources: Vec<FileSource> = paths.iter().cloned().map(FileSource::Path).collect();
    let (files, problems) = read(&sources, &Limits::default());
    match problems.first() {
        Some(problem) => anyhow::bail!("{problem}"),
        None => Ok(files),
    }
}

/// Returns the `data` document of files as policies see it, without the parts that are known only during evaluation.
///
/// # Errors
/// Returns the first problem.
pub(crate) fn data<'f>(files: impl Iterator<Item = &'f File>) -> anyhow::Result<Map<String, Value>> {
    let (mut document, mut problems) = (data::document(), Vec::new());
    for file in files.filter(|file| file.form != Form::Rego) {
        data::add(&mut document, file, true, &mut problems);
    }
    match problems.first() {
        Some(problem) => anyhow::bail!("{problem}"),
        None => Ok(document.document),
    }
}

/// How to fix a wrong Rego version in a bundle's manifest.
const FIX_VERSION: &str =
    "correct rego_version or file_rego_versions in the .manifest; opa build --v0-compatible sets it for v0";

/// Adds the policy and data files of a tree, which may be that of a bundle.
fn from_memory(
    tree: &FileTree,
    bundle: Option<&Bundle>,
    limits: &Limits,
    files: &mut Vec<File>,
    problems: &mut Vec<Problem>,
) {
    for file in &tree.files {
        let TreeFile { path, content } = file;
        let shown = tree.shown(file);
        let Some(form) = Form::of(Path::new(&*shown)) else { continue };
        let text = content.clone().and_then(|bytes| {
            check_length(bytes.len() as u64, limits)?;
            text_of(bytes)
        });
        match text {
            Ok(text) => {
                let directories = path.split_last().map_or_else(Vec::new, |(_, directories)| directories.to_vec());
                let version = bundle.and_then(|bundle| bundle.versions.get(path));
                let declared =
                    version.map(|version| Declared { version: *version, by: "the .manifest", help: FIX_VERSION });
                files.push(File { directories, declared, ..File::new(shown, form, text) });
            }
            Err(why) => problems.push(Problem::refused(&shown, why)),
        }
    }
}

/// Whether a file is read, by its name and those of the directories above it.
pub(crate) fn is_read(path: &[impl AsRef<str>]) -> bool {
    let name = path.last().map_or("", AsRef::as_ref);
    !path.iter().any(|part| is_hidden(part.as_ref().as_bytes())) && Form::of(Path::new(name)).is_some()
}

fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".")
}

/// Returns a file of the library with a path in a folder of the library's name.
fn embedded(file: &BuiltinFile) -> File {
    let shown = format!("{}/{}", builtin::NAME, file.path);
    File { directories: file.directories(), ..File::new(shown.into(), Form::Rego, file.text.to_owned()) }
}

fn unknown_part(source: &FileSource, part: &str) -> Problem {
    Problem::refused(&source.shown(), "the builtin library has no part of this name").help(builtin::suggestion(part))
}

/// Finds the files below one path given by the user.
fn find(root: &Path, links: &LinkBoundary, found: &mut Vec<FoundFile>, problems: &mut Vec<Problem>) {
    let metadata = match fs::metadata(root) {
        Ok(metadata) => metadata,
        Err(why) => {
            let message = match why.kind() {
                io::ErrorKind::NotFound => {
                    let parts = builtin::parts().into_iter().map(|part| builtin::named(&part));
                    let known: Vec<String> = parts.chain([builtin::NAME.to_owned()]).collect();
                    let written = root.to_string_lossy();
                    let part = known.iter().find(|known| known.strip_prefix("builtin:") == Some(&*written));
                    let near = nearest(&written, known.iter().map(String::as_str));
                    let near = part.map(String::as_str).or(near.filter(|_| !written.contains('/')));
                    let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                    format!("no such file or directory{near}")
                }
                _ => format!("cannot be read: {why}"),
            };
            let help = "use a directory or file of policies, builtin for the library inside kaudit, cluster:gatekeeper, \
                        cluster:admission-policies, cluster:kyverno, cluster:crd-rules, \
                        cluster:configmaps[=NAMESPACE][,LABEL=VALUE], or a bundle (oci://…, https://…, *.tar.gz); \
                        kaudit init creates examples";
            problems.push(Problem::refused(&shown(root), message).help(help));
            return;
        }
    };
    if metadata.is_dir() {
        let mut walk = Walk::new(links);
        walk.visit(root, &mut Vec::new(), &mut |path, directories, outcome| match outcome {
            Ok(form) => found.push(FoundFile { path: path.to_owned(), directories: directories.to_vec(), form }),
            Err(why) => problems.push(Problem::refused(&shown(path), format!("cannot be read: {why}"))),
        });
    } else if let Some(form) = Form::of(root) {
        found.push(FoundFile { path: root.to_owned(), directories: Vec::new(), form });
    } else {
        let message = "the file name has no extension of a policy or data file";
        let help = "policies end in .rego, data in .json, .yaml or .yml";
        problems.push(Problem::refused(&shown(root), message).help(help));
    }
}

/// A walk over all files below one path.
struct Walk<'l> {
    links: &'l LinkBoundary,
    /// The directories above the current one, to detect circular links.
    above: Vec<PathBuf>,
    /// The directories already visited: a few links to a directory that contains links itself can lead to any number of
    /// files.
    visited: HashSet<PathBuf>,
    /// The number of files and directories that were visited repeatedly.
    repeated: usize,
}

impl<'l> Walk<'l> {
    fn new(links: &'l LinkBoundary) -> Self {
        Self { links, above: Vec::new(), visited: HashSet::new(), repeated: 0 }
    }

    /// Visits the files below a directory, sorted by name.
    fn visit(
        &mut self,
        directory: &Path,
        directories: &mut Vec<String>,
        visit: &mut impl FnMut(&Path, &[String], io::Result<Form>),
    ) {
        let entries = match self.enter(directory) {
            Ok(entries) => entries,
            Err(why) => return visit(directory, directories, Err(why)),
        };
        for name in entries {
            if is_hidden(name.as_encoded_bytes()) {
                continue;
            }
            let path = directory.join(&name);
            match self.links.target(&path).and_then(|_| fs::metadata(&path)) {
                Ok(metadata) if metadata.is_dir() => {
                    directories.push(name.to_string_lossy().into_owned());
                    self.visit(&path, directories, visit);
                    directories.pop();
                }
                // Reading a pipe with the name of a policy would block forever.
                Ok(metadata) if metadata.is_file() => {
                    if let Some(form) = Form::of(&path) {
                        visit(&path, directories, Ok(form));
                    }
                }
                Ok(_) => {}
                Err(why) => {
                    if Form::of(&path).is_some() || path.is_dir() {
                        visit(&path, directories, Err(why));
                    }
                }
            }
        }
        self.above.pop();
    }

    /// Reads the names in a directory and adds it to `above`.
    fn enter(&mut self, directory: &Path) -> io::Result<BTreeSet<OsString>> {
        let canonical = fs::canonicalize(directory)?;
        if self.above.contains(&canonical) {
            return Err(io::Error::other("the link leads back to a directory above it"));
        }
        if self.above.len() >= DEEPEST {
            return Err(io::Error::other("directories are nested too deep"));
        }
        let is_repeated = self.visited.contains(&canonical);
        if is_repeated && self.repeated >= REPEATED {
            let why = format!("links lead repeatedly to more than {REPEATED} files and directories");
            return Err(io::Error::other(why));
        }
        let names =
            fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<BTreeSet<_>>>()?;
        if is_repeated {
            self.repeated += 1 + names.len();
        } else {
            self.visited.insert(canonical.clone());
        }
        self.above.push(canonical);
        Ok(names)
    }
}

fn read_one(path: &Path, limits: &Limits) -> Result<String, String> {
    let unreadable = |why: io::Error| format!("cannot be read: {why}");
    let file = OpenFile::open(path).map_err(unreadable)?;
    check_length(file.metadata().map_err(unreadable)?.len(), limits)?;
    let mut bytes = Vec::new();
    // The metadata of a file that is not regular does not contain its length.
    file.take(limits.file_bytes + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    check_length(bytes.len() as u64, limits)?;
    text_of(bytes)
}

fn check_length(length: u64, limits: &Limits) -> Result<(), String> {
    if length > limits.file_bytes {
        return Err(format!("has {length} bytes; the limit for a policy or data file is {}", limits.file_bytes));
    }
    Ok(())
}

fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes)
        .map_err(|why| format!("is not UTF-8 text (byte {})", why.utf8_error().valid_up_to()))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// The state of files and directories at one time; equal until a file is edited, added, removed or linked elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceFingerprint(u64);

/// Returns the fingerprint of the policy and data files below `paths`, from their names, lengths, times and link targets
/// alone: cheap enough to compute every few seconds. Unreadable files are part of it, so the removal of a directory is a
/// change, too.
pub fn fingerprint(paths: &[PathBuf]) -> SourceFingerprint {
    let mut hasher = DefaultHasher::new();
    let links = LinkBoundary::of(paths.iter().map(PathBuf::as_path));
    for root in paths {
        stamp(root, &mut hasher);
        if root.is_dir() {
            let mut walk = Walk::new(&links);
            walk.visit(root, &mut Vec::new(), &mut |path, _, outcome| match outcome {
                Ok(_) => stamp(path, &mut hasher),
                Err(why) => (path, why.kind()).hash(&mut hasher),
            });
        }
    }
    SourceFingerprint(hasher.finish())
}

/// Adds one file to the fingerprint. An update of a `ConfigMap` changes its real path: new contents are written to a
/// new directory behind `..data`, possibly with equal lengths and times.
fn stamp(path: &Path, hasher: &mut DefaultHasher) {
    path.hash(hasher);
    match fs::canonicalize(path).and_then(|real| Ok((fs::metadata(&real)?, real))) {
        Ok((metadata, real)) => {
            real.hash(hasher);
            if metadata.is_file() {
                metadata.len().hash(hasher);
                metadata.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()).hash(hasher);
            }
        }
        Err(why) => why.kind().hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates directories that each have `links` links to the next, and a data file in the last.
    fn nested(root: &Path, depth: usize, links: usize) {
        for level in 0..depth {
            let directory = root.join(level.to_string());
            fs::create_dir(&directory).unwrap();
            for link in 0..links {
                symlink(format!("../{}", level + 1), directory.join(link.to_string())).unwrap();
            }
        }
        fs::create_dir(root.join(depth.to_string())).unwrap();
        fs::write(root.join(depth.to_string()).join("data.json"), "{}").unwrap();
    }

    #[test]
    fn repeated_links_to_one_directory_are_limited() {
        for (depth, links, is_refused) in [(1, 1, false), (2, 20, false), (9, 10, true), (30, 2, true)] {
            let directory = tempfile::tempdir().unwrap();
            nested(directory.path(), depth, links);
            let paths = [directory.path().to_owned()];
            let (files, problems) = read(&paths.clone().map(FileSource::Path), &Limits::default());
            let is_reported = problems.iter().any(|problem| problem.message.contains("lead repeatedly to more than"));
            assert_eq!((is_reported, problems.is_empty()), (is_refused, !is_refused), "{depth} {links}");
            assert!(problems.len() <= depth * (links + 1), "{depth} {links}: {} problems", problems.len());
            assert!(!files.is_empty() && files.len() <= REPEATED, "{depth} {links}: {} files", files.len());
            assert_eq!(fingerprint(&paths), fingerprint(&paths));
        }
    }
}
