//! Ownership: the source that owns each package, and the files of other sources that a source can read.
//!
//! All local paths of a command line are one source, because they belong to one operator. The builtin library, each
//! bundle, each `ConfigMap` and the Gatekeeper objects are separate sources. Each source is compiled separately, so
//! that it cannot change the results of another: it sees its own files, those of the local paths, and packages and data
//! of earlier sources that it refers to. `ConfigMap`s in one namespace also see each other.
//!
//! A package is owned by the first source that defines it, in the order of the command line, and keeps its owner while
//! kaudit runs. Files of other sources that define it again are refused, except for exact copies, which are ignored.

mod parsed_data;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path as FilePath,
    sync::Arc,
};

use serde_json::Value;

pub(super) use self::parsed_data::ParsedData;
use self::parsed_data::{WantedData, gives};
use super::{
    bundle, data,
    dialects::{kubescape, trivy},
    files,
    sources::{FileSource, FileTree},
};
use crate::rego::{
    File, Form, Limits, Problem,
    analysis::{
        data::Data,
        missing::{Missing, package_line, package_of},
        references::Path,
        syntax,
    },
    problem::number,
};

/// The kind of source that files come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SourceOrigin {
    /// Files and directories, or a commit.
    Local,
    Builtin,
    /// The namespace of a `ConfigMap`.
    ConfigMap(String),
    Bundle,
    PolicyObjects,
}

/// The files of one source.
#[derive(Debug)]
pub(super) struct OwnedFiles {
    /// The name of the source in messages.
    name: Arc<str>,
    origin: SourceOrigin,
    pub(super) files: Vec<File>,
    /// The definitions of refused files.
    pub(super) missing: Missing,
    /// Whether the source is unusable as a whole.
    pub(super) unreadable: bool,
}

/// Reads the files of `sources`, by owner, in the order of the sources.
pub(super) fn read(sources: &[FileSource], limits: &Limits, problems: &mut Vec<Problem>) -> Vec<OwnedFiles> {
    let mut owners: Vec<(SourceOrigin, Vec<FileSource>)> = Vec::new();
    for source in sources {
        let origin = SourceOrigin::of(source);
        let shared = matches!(origin, SourceOrigin::Local | SourceOrigin::Builtin);
        match owners.iter_mut().find(|(known, _)| shared && *known == origin) {
            Some((_, sources)) => sources.push(source.clone()),
            None => owners.push((origin, vec![source.clone()])),
        }
    }
    let overlaps = bundle::overlaps(&sources.iter().filter_map(FileSource::bundle).map(Arc::as_ref));
    let read = |(origin, sources): (SourceOrigin, Vec<FileSource>)| {
        let (files, found) = files::read(&sources, limits);
        let named = |problem: &Problem| sources.iter().any(|source| source.shown() == problem.file);
        let mut owned = OwnedFiles {
            name: sources[0].shown(),
            origin,
            files,
            missing: Missing::default(),
            unreadable: found.iter().any(named),
        };
        for problem in &found {
            owned.missing.unread(&problem.file);
        }
        problems.extend(found);
        owned.refuse_excess(limits, problems);
        // Bundles that overlap with an earlier one are left out as a whole.
        if overlaps.iter().any(named) {
            owned.files.clear();
        }
        owned
    };
    let owned = owners.into_iter().map(read).collect();
    problems.extend(overlaps);
    owned
}

impl SourceOrigin {
    fn of(source: &FileSource) -> Self {
        match source {
            FileSource::Builtin(_) => Self::Builtin,
            FileSource::Bundle(_) => Self::Bundle,
            FileSource::Tree(tree) => Self::of_tree(tree),
            FileSource::Path(_) => Self::Local,
        }
    }

    fn of_tree(tree: &FileTree) -> Self {
        match tree.config_map_namespace() {
            Some(namespace) => Self::ConfigMap(namespace.to_owned()),
            None if tree.is_of_policy_objects() => Self::PolicyObjects,
            None => Self::Local,
        }
    }
}

impl OwnedFiles {
    /// Whether its Gatekeeper objects may exempt namespaces from all Constraints.
    pub(super) fn may_exempt(&self) -> bool {
        matches!(self.origin, SourceOrigin::Local | SourceOrigin::PolicyObjects)
    }

    /// Whether the values in the file, with aliases expanded, stay within the limit; `replayed` is the running count of
    /// the source.
    pub(super) fn may_hold(
        &self,
        file: &File,
        value: &Value,
        replayed: &mut usize,
        (limits, problems): (&Limits, &mut Vec<Problem>),
    ) -> bool {
        if file.form != Form::Yaml || !file.text.contains('*') {
            return true;
        }
        *replayed += count(value);
        let most = if self.is_own() { limits.source } else { limits.foreign_source }.values;
        if *replayed > most {
            let message = format!(
                "with this file, the expanded aliases in data of {} exceed the limit of {most} values",
                self.name
            );
            problems.push(
                Problem::refused(&file.shown, message).help("use fewer aliases, or remove values that no policy needs"),
            );
        }
        *replayed <= most
    }

    fn is_own(&self) -> bool {
        matches!(self.origin, SourceOrigin::Local | SourceOrigin::Builtin)
    }

    /// Removes the files that exceed the limits of one source, before any of them is parsed.
    fn refuse_excess(&mut self, limits: &Limits, problems: &mut Vec<Problem>) {
        let most = if self.is_own() { limits.source } else { limits.foreign_source };
        let (mut values, mut tokens) = (0_usize, 0_usize);
        let (kept, excess): (Vec<File>, Vec<File>) = std::mem::take(&mut self.files).into_iter().partition(|file| {
            let (used, size, most) = match file.form {
                Form::Rego if file.is_test() => return true,
                Form::Rego => (&mut tokens, file.tokens(), most.tokens),
                _ => (&mut values, file.values(), most.values),
            };
            let fits = used.saturating_add(size) <= most;
            *used += if fits { size } else { 0 };
            fits
        });
        self.files = kept;
        for file in excess {
            let (most, noun) = match file.form {
                Form::Rego => (most.tokens, "tokens in modules"),
                _ => (most.values, "values in data"),
            };
            let message = format!("with this file, {} exceeds the limit of {most} {noun} for a source", self.name);
            problems
                .push(Problem::refused(&file.shown, message).help("split the source, or remove what no policy needs"));
            self.missing.unparsed(&file);
        }
    }

    /// Whether it is the builtin library.
    pub(super) fn is_builtin(&self) -> bool {
        self.origin == SourceOrigin::Builtin
    }

    pub(super) fn is_local(&self) -> bool {
        self.origin == SourceOrigin::Local
    }

    /// Removes a file and reports the reason.
    fn refuse(&mut self, index: usize, problem: Problem, problems: &mut Vec<Problem>) {
        let file = self.files.remove(index);
        self.missing.unparsed(&file);
        problems.push(problem);
    }
}

/// The sources of a policy set, with the packages that they can import from each other.
pub(super) struct SourcePackages<'f> {
    pub(super) all: &'f [OwnedFiles],
    /// The packages of modules, by file name.
    packages: BTreeMap<&'f str, Path>,
    /// The modules of each source by their packages.
    modules: Vec<BTreeMap<Path, Vec<&'f File>>>,
}

/// A package and the source that owns it.
struct OwnedPackage {
    /// The index of the source in the order of `-p`.
    source: usize,
    /// File name and text of each module.
    modules: Vec<(Arc<str>, String)>,
}

/// The owning source of each package, by name; empty if there is only one source.
pub(super) type PackageOwners = BTreeMap<Path, Arc<str>>;

/// Removes modules that define a package owned by another source, and copies of that source's modules; returns the
/// owners.
///
/// A package is owned by its owner `before`, as long as that source defines it, and otherwise by the first source that
/// does.
pub(super) fn refuse_packages(
    owners: &mut [OwnedFiles],
    before: &PackageOwners,
    problems: &mut Vec<Problem>,
) -> PackageOwners {
    if owners.len() < 2 {
        return PackageOwners::new();
    }
    let mut owned = kept(owners, before);
    for source in 0..owners.len() {
        let packaged: BTreeSet<Arc<str>> =
            packaged(&owners[source].files).map(|file| Arc::clone(&file.shown)).collect();
        let mut index = 0;
        while index < owners[source].files.len() {
            let file = &owners[source].files[index];
            if !packaged.contains(&file.shown) {
                index += 1;
                continue;
            }
            let package = package(file);
            let first = owned.entry(package.clone()).or_insert_with(|| OwnedPackage { source, modules: vec![] });
            if first.source == source {
                first.modules.push((Arc::clone(&file.shown), file.text.to_string()));
                index += 1;
            } else if first.modules.iter().any(|(_, text)| *text == *file.text) {
                owners[source].files.remove(index);
            } else {
                let problem = is_owned(file, &package, &owners[first.source].name, &first.modules[0].0);
                owners[source].refuse(index, problem, problems);
            }
        }
    }
    owned.into_iter().map(|(package, owner)| (package, Arc::clone(&owners[owner.source].name))).collect()
}

/// Returns the packages whose previous owners still define them.
fn kept(owners: &[OwnedFiles], before: &PackageOwners) -> BTreeMap<Path, OwnedPackage> {
    let mut owned: BTreeMap<Path, OwnedPackage> = BTreeMap::new();
    if before.is_empty() {
        return owned;
    }
    for (source, owner) in owners.iter().enumerate() {
        for file in packaged(&owner.files) {
            let package = package(file);
            if before.get(&package) == Some(&owner.name) {
                let modules = &mut owned.entry(package).or_insert(OwnedPackage { source, modules: vec![] }).modules;
                modules.push((Arc::clone(&file.shown), file.text.to_string()));
            }
        }
    }
    owned
}

/// Returns the modules whose packages are owned by their source: all except tests and the rules in Kubescape's layout,
/// which are compiled separately.
fn packaged(files: &[File]) -> impl Iterator<Item = &File> {
    let rules = kubescape::rule_directories(files);
    let is_rule = move |file: &File| FilePath::new(&*file.shown).ancestors().skip(1).any(|above| rules.contains(above));
    files.iter().filter(move |file| file.form == Form::Rego && !file.is_test() && !is_rule(file))
}

fn is_owned(file: &File, package: &Path, owner: &str, module: &str) -> Problem {
    let message = format!("package {} belongs to {owner}, which defined it first: {module}", package.join("."));
    let help = "use another package; only the local paths of a command line share packages";
    let line = package_line(&file.text).map_or(1, |(line, _)| number(line + 1));
    Problem::refused(&file.shown, message).at(&file.text, line, 1).help(help)
}

/// Returns the package of a module; if its declaration is invalid, the package that its lines seem to declare.
fn package(file: &File) -> Path {
    let declaration =
        syntax::package_path(&file.text).and_then(|path| syntax::read(&file.text[..path.end], file.version()).ok());
    match declaration {
        Some(module) => module.package_path(),
        None => package_of(&file.text).unwrap_or_default(),
    }
}

impl<'f> SourcePackages<'f> {
    pub(super) fn new(all: &'f [OwnedFiles]) -> Self {
        let modules = all.iter().flat_map(|owner| packaged(&owner.files));
        let several = all.len() > 1;
        let packages: BTreeMap<&str, Path> =
            modules.filter(|_| several).map(|file| (&*file.shown, package(file))).collect();
        let by_package = |owner: &'f OwnedFiles| {
            let mut modules: BTreeMap<Path, Vec<&'f File>> = BTreeMap::new();
            for file in &owner.files {
                if let Some(package) = packages.get(&*file.shown) {
                    modules.entry(package.clone()).or_default().push(file);
                }
            }
            modules
        };
        let modules = all.iter().map(by_package).collect();
        Self { all, packages, modules }
    }

    /// Whether the source `reader` sees the packages of `owner`.
    fn sees(&self, reader: usize, owner: usize) -> bool {
        let (origin, other) = (&self.all[reader].origin, &self.all[owner].origin);
        let siblings = matches!(origin, SourceOrigin::ConfigMap(_)) && origin == other;
        reader != owner && (owner < reader || *other == SourceOrigin::Local || siblings)
    }

    /// Whether the source `reader` sees the data of `owner`; the builtin library sees only that of local paths.
    fn sees_data(&self, reader: usize, owner: usize) -> bool {
        let is_builtin = self.all[reader].origin == SourceOrigin::Builtin;
        self.sees(reader, owner) && (!is_builtin || self.all[owner].origin == SourceOrigin::Local)
    }

    /// Whether unreadable data of `owner` affects the source `reader`: only data of local paths does.
    pub(super) fn depends_on_data(&self, reader: usize, owner: usize) -> bool {
        reader != owner && self.all[owner].is_local()
    }

    /// Returns the files of local paths that may contain inputs, controls or frameworks for libraries of other sources.
    pub(super) fn shared_inputs(&self) -> Vec<File> {
        let local = self.all.iter().filter(|owner| owner.is_local() && self.all.len() > 1);
        local.flat_map(|owner| &owner.files).filter(|file| file.form != Form::Rego).cloned().collect()
    }

    /// Returns the modules of other sources that the modules of a source refer to, directly or indirectly. Each
    /// reference selects the modules of the first source that has any; the source that contains the reference comes
    /// before all others. Nothing is imported at, below or above a package of the source itself, where it could
    /// conflict.
    pub(super) fn imported(&self, reader: usize, modules: &[&'f File]) -> Vec<&'f File> {
        let visible: Vec<usize> = (0..self.all.len()).filter(|owner| self.sees(reader, *owner)).collect();
        let (mut found, mut names) = (Vec::new(), BTreeSet::new());
        let mut open: Vec<(usize, &File)> = modules.iter().map(|file| (reader, *file)).collect();
        while let Some((user, file)) = open.pop().filter(|_| !visible.is_empty()) {
            for used in trivy::uses(&file.text) {
                if !self.at(reader, &used).is_empty() {
                    continue;
                }
                let first = [user].into_iter().chain(visible.iter().copied());
                let Some((owner, modules)) =
                    first.map(|owner| (owner, self.at(owner, &used))).find(|(_, modules)| !modules.is_empty())
                else {
                    continue;
                };
                for file in modules.into_iter().filter(|file| !self.conflicts_with_own(reader, file)) {
                    if names.insert(Arc::clone(&file.shown)) {
                        found.push(file);
                        open.push((owner, file));
                    }
                }
            }
        }
        found
    }

    /// Returns the modules of a source whose packages are at a path, below it, or above it.
    fn at(&self, owner: usize, path: &Path) -> Vec<&'f File> {
        let modules = &self.modules[owner];
        let below = modules.range(path.clone()..).take_while(|(package, _)| package.starts_with(path));
        let above = (1..path.len()).filter_map(|length| modules.get_key_value(&path[..length]));
        below.chain(above).flat_map(|(_, files)| files).copied().collect()
    }

    fn conflicts_with_own(&self, reader: usize, file: &File) -> bool {
        self.packages.get(&*file.shown).is_some_and(|package| !self.at(reader, package).is_empty())
    }

    /// Returns a warning for each module that refers to a package of a source that it does not see.
    pub(super) fn unseen(&self, reader: usize, modules: &[&File], imported: &[&File]) -> Vec<Problem> {
        if self.all[reader].origin == SourceOrigin::Builtin {
            return Vec::new();
        }
        let given: BTreeSet<&Path> =
            modules.iter().chain(imported).filter_map(|file| self.packages.get(&*file.shown)).collect();
        let mut hidden: BTreeMap<&[String], &Arc<str>> = BTreeMap::new();
        for owner in (0..self.all.len()).filter(|owner| *owner != reader && !self.sees(reader, *owner)) {
            let packages = self.all[owner].files.iter().filter_map(|file| self.packages.get(&*file.shown));
            hidden.extend(
                packages.filter(|package| !given.contains(package)).map(|package| (&**package, &self.all[owner].name)),
            );
        }
        let problem = |file: &&File| {
            let known = |used: &Path| {
                (1..=used.len())
                    .find_map(|length| hidden.get(&used[..length]).map(|name| (used[..length].join("."), *name)))
            };
            let (package, name) = trivy::uses(&file.text).iter().find_map(known)?;
            let message = format!("data.{package} is a package of {name}, which comes later and is not visible here");
            Some(Problem::warning(&file.shown, message).help("put that source before this one on the command line"))
        };
        modules.iter().filter_map(problem).collect()
    }

    /// Returns a problem for data at a package of another source. Data whose problem is a refusal must not be used; the
    /// source that owns the package never uses it.
    pub(super) fn data_at_packages(&self, data: &[&[ParsedData<'f>]]) -> Vec<(usize, usize, Problem)> {
        let mut problems = Vec::new();
        let packages: Vec<(usize, &Path)> = (0..self.all.len())
            .flat_map(|owner| self.all[owner].files.iter().map(move |file| (owner, file)))
            .filter_map(|(owner, file)| Some((owner, self.packages.get(&*file.shown)?)))
            .collect();
        for (source, files) in data.iter().enumerate() {
            for (index, parsed) in files.iter().enumerate() {
                let is_given = |package: &Path| gives(&parsed.file.directories, &parsed.value, package);
                let others = packages.iter().filter(|(owner, _)| *owner != source);
                let Some((owner, package)) = others.copied().find(|(_, package)| is_given(package)) else { continue };
                let (path, name) = (package.join("."), &self.all[owner].name);
                let message = format!("data.{path} is a package of {name}, and only that source may have data there");
                let problem =
                    if owner < source { Problem::refused } else { Problem::warning }(&parsed.file.shown, message);
                problems.push((source, index, problem.help("move the data to another key")));
            }
        }
        problems
    }

    /// Returns the `data` of a source: its own, and the data of other sources that its modules refer to.
    pub(super) fn data(
        &self,
        reader: usize,
        modules: &[&File],
        parsed: &mut [Vec<ParsedData<'f>>],
        problems: &mut Vec<Problem>,
    ) -> Data {
        let mut data = data::document();
        let wanted = WantedData::of(modules);
        let own: BTreeSet<&Path> = modules.iter().filter_map(|file| self.packages.get(&*file.shown)).collect();
        let is_only = parsed.len() == 1;
        for (owner, parsed) in parsed.iter_mut().enumerate() {
            if owner == reader {
                for ParsedData { file, value } in parsed {
                    data.insert(file, if is_only { value.take() } else { value.clone() }, problems);
                }
            } else if self.sees_data(reader, owner) {
                for parsed in parsed.iter() {
                    parsed.add_to(&mut data, &wanted, &own);
                }
            }
        }
        data
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(count).sum::<usize>(),
        Value::Object(values) => 1 + values.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
