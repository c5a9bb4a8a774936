//! `check --fix` and `--diff`: apply the fixes that results name.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use serde_json::Value;
use similar::TextDiff;
use tempfile::NamedTempFile;

use crate::{
    audit::{
        fingerprint::Fingerprint,
        result::{AuditResult, Entry, LineEdit},
    },
    model::object::Location,
    output::{note, print, safe::shown_line, style::count},
    source::manifest::{FixedLines, FixedObject, ManifestFile, ManifestText, ObjectPatch, ResultFix},
};

/// The maximum number of rounds: a fix may lead to another result with a fix.
const ROUNDS: usize = 5;
/// Texts up to this length are never shortened in results.
const SHORT: usize = 1 << 10;
/// The maximum number of results with a fix in SARIF.
const MOST_EDITS: usize = 1_000;

/// A fix that a result names: the id of the result, and the fix as text.
type NamedFix = (Fingerprint, String);

/// The fixes applied so far.
#[derive(Debug, Default)]
pub(super) struct AppliedFixes {
    rounds: usize,
    files: BTreeMap<Arc<str>, FixedFile>,
    /// Fixes that were taken back, because their results remained.
    useless: HashSet<NamedFix>,
    /// Why files could not be written.
    refused: BTreeMap<Arc<str>, String>,
}

/// A file with fixes.
#[derive(Debug)]
struct FixedFile {
    /// Its text before all of them.
    original: String,
    fixes: HashSet<NamedFix>,
}

/// A file whose text changes.
struct FileChange {
    file: Arc<str>,
    old: String,
    new: String,
    applied: Vec<NamedFix>,
}

impl AppliedFixes {
    /// Applies the fixes of a result to its files; returns whether it changed any. A fix whose result is still there in the
    /// next round is useless: its file is restored, and fixed again without it.
    pub(super) fn fix(&mut self, result: &AuditResult, files: &[ManifestFile]) -> bool {
        if self.take_back(result) {
            return true;
        }
        self.rounds += 1;
        if self.rounds > ROUNDS {
            return false;
        }
        let mut is_changed = false;
        for FileChange { file, old, new, applied } in changes(result, files, &self.useless) {
            if self.write(&file, &new) {
                is_changed = true;
                let fixed = FixedFile { original: old, fixes: HashSet::new() };
                self.files.entry(file).or_insert(fixed).fixes.extend(applied);
            }
        }
        is_changed
    }

    /// Restores the files whose applied fixes did not resolve their results; returns whether there are any.
    fn take_back(&mut self, result: &AuditResult) -> bool {
        let left = result.results.iter().filter_map(|entry| {
            let (location, fix) = named_fix(entry)?;
            let fix = named(entry, &fix.ok()?);
            self.files.get(&location.file)?.fixes.contains(&fix).then(|| (Arc::clone(&location.file), fix))
        });
        let left: Vec<(Arc<str>, NamedFix)> = left.collect();
        for (file, fix) in &left {
            self.useless.insert(fix.clone());
            if let Some(FixedFile { original, .. }) = self.files.remove(file) {
                self.write(file, &original);
            }
        }
        // The other fixes of a restored file are applied again.
        self.rounds = if left.is_empty() { self.rounds } else { 0 };
        !left.is_empty()
    }

    /// Replaces the text of a file; returns whether that succeeded.
    fn write(&mut self, file: &Arc<str>, text: &str) -> bool {
        let written = replace(Path::new(&**file), text);
        if let Err(error) = &written {
            self.refused.insert(Arc::clone(file), error.to_string());
        }
        written.is_ok()
    }

    /// Reports on standard error how much was fixed, and what could not be.
    pub(super) fn report(&self, left: &AuditResult) {
        let unfixed = count_fixable(left);
        let results: usize = self.files.values().map(|file| file.fixes.len()).sum();
        if results > 0 || unfixed == 0 {
            note(&format!("fixed {} in {}", count(results, "result"), count(self.files.len(), "file")));
        }
        for (file, why) in &self.refused {
            note(&format!("{file} could not be written: {why}"));
        }
        let is_useless = |entry: &&Entry| {
            let fix = named_fix(entry).and_then(|(_, fix)| fix.ok());
            fix.is_some_and(|fix| self.useless.contains(&named(entry, &fix)))
        };
        let useless: Vec<&Entry> = left.results.iter().filter(is_useless).collect();
        let rules: BTreeSet<String> = useless.iter().map(|entry| entry.id_of_rule()).collect();
        if !useless.is_empty() {
            let rules = shown_line(&rules.into_iter().collect::<Vec<_>>().join(", "));
            let results = count(useless.len(), "result");
            note(&format!("{results} not fixed: the fix of {rules} does not resolve the violation"));
        }
        note_unfixed(left, unfixed - useless.len());
    }
}

/// Replaces the text of a file, which keeps its old text if the new one cannot be written completely.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    // A symbolic link stays one.
    let file = fs::canonicalize(file)?;
    let mut new = NamedTempFile::new_in(file.parent().unwrap_or(&file))?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(fs::metadata(&file)?.permissions())?;
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(())
}

/// Notes how many results with a fix were not fixed, and which rules name a fix that is invalid or too long.
fn note_unfixed(result: &AuditResult, unfixed: usize) {
    let wrong: BTreeSet<String> = result.results.iter().filter_map(|entry| named_fix(entry)?.1.err()).collect();
    for why in wrong {
        note(&shown_line(&why));
    }
    if unfixed > 0 {
        let results = count(unfixed, "result");
        note(&format!(
            "{results} not fixed: standard input, a URL, a layout in which the field could not be changed, a patch that does \
             not apply, or a fix that conflicts with another"
        ));
    }
}

/// Shows on standard output what would change; returns the exit code.
///
/// # Errors
/// When standard output cannot be written.
pub(super) fn show(result: &AuditResult, files: &[ManifestFile]) -> anyhow::Result<u8> {
    let changes = changes(result, files, &HashSet::new());
    print(|out| {
        changes.iter().try_for_each(|FileChange { file, old, new, .. }| {
            // Paths as `git apply` expects them.
            let file = shown_line(file.trim_start_matches("./").trim_start_matches('/'));
            let diff = TextDiff::from_lines(old, new);
            write!(out, "{}", diff.unified_diff().header(&format!("a/{file}"), &format!("b/{file}")))
        })
    })?;
    let applied = changes.iter().map(|change| change.applied.len()).sum();
    note_unfixed(result, count_fixable(result).saturating_sub(applied));
    Ok(u8::from(!changes.is_empty()))
}

/// Returns how many results name a fix.
fn count_fixable(result: &AuditResult) -> usize {
    result.results.iter().filter(|entry| named_fix(entry).is_some()).count()
}

/// Returns the fix that a violation names, or a sentence that says why it names none, with the location of the
/// object. A patch takes precedence over the value of a field.
fn named_fix(entry: &Entry) -> Option<(&Location, Result<ResultFix, String>)> {
    // Policies see Secrets without their values, which a fix would write into the manifest.
    let is_secret = entry.resource.kind == "Secret" && entry.resource.group().is_empty();
    let is_fixable = entry.result.is_violation() && !is_secret;
    let location = entry.location.as_ref().filter(|_| is_fixable)?;
    let given = [entry.details.get("patch"), entry.details.get("fix")];
    if given.into_iter().flatten().any(is_shortened) {
        return Some((location, Err(format!("the fix of {}/{} is too long for a result", entry.policy, entry.rule))));
    }
    if let Some(patch) = entry.details.get("patch") {
        let patch = ObjectPatch::new(patch).map(ResultFix::Patch);
        let wrong = |why: String| format!("details.patch of {}/{} is not a patch: {why}", entry.policy, entry.rule);
        return Some((location, patch.map_err(wrong)));
    }
    let fix = ResultFix::Field(entry.field()?.to_owned(), entry.details.get("fix")?.clone());
    Some((location, Ok(fix)))
}

/// Whether a value contains a text that was shortened because the details of the result were too long.
fn is_shortened(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() > SHORT && text.ends_with('…'),
        Value::Array(items) => items.iter().any(is_shortened),
        Value::Object(fields) => fields.values().any(is_shortened),
        _ => false,
    }
}

/// Finds how each result would be fixed by itself, for the first [`MOST_EDITS`] results with a fix.
pub(super) fn find_edits(results: &mut [Entry]) {
    let mut texts: HashMap<Arc<str>, Option<ManifestText>> = HashMap::new();
    for entry in results.iter_mut().filter(|entry| named_fix(entry).is_some()).take(MOST_EDITS) {
        let Some((location, Ok(fix))) = named_fix(entry) else { continue };
        let text = texts
            .entry(Arc::clone(&location.file))
            .or_insert_with(|| read(&location.file).map(|text| ManifestText::new(&text)));
        let object = fixed_object(entry, vec![fix]);
        let fixed = text.as_ref().and_then(|text| text.fixed_lines(location.line, &object));
        entry.edit = fixed.map(|FixedLines { line, old, new }| Arc::new(LineEdit::between(line, &old, &new)));
    }
}

/// Reads a file; `None` for standard input and URLs.
fn read(file: &str) -> Option<String> {
    fs::read_to_string(file).ok().filter(|_| Path::new(file).is_file())
}

fn fixed_object(entry: &Entry, fixes: Vec<ResultFix>) -> FixedObject {
    FixedObject { object: Arc::clone(&entry.resource), fixes }
}

/// The objects of a file by line, each with the names of its fixes.
type ObjectsByLine = BTreeMap<usize, (FixedObject, Vec<NamedFix>)>;

/// Returns a fix as that of a result.
fn named(entry: &Entry, fix: &ResultFix) -> NamedFix {
    (entry.id, format!("{fix:?}"))
}

/// Returns the changes of the given files, without useless fixes. Other files, such as templates of rendered objects, are not
/// changed.
fn changes(result: &AuditResult, given: &[ManifestFile], useless: &HashSet<NamedFix>) -> Vec<FileChange> {
    let given: BTreeSet<&Path> = given.iter().map(|file| &*file.path).collect();
    let mut files: BTreeMap<&Arc<str>, ObjectsByLine> = BTreeMap::new();
    for entry in &result.results {
        let Some((location, Ok(fix))) = named_fix(entry) else { continue };
        let name = named(entry, &fix);
        if useless.contains(&name) {
            continue;
        }
        let objects = files.entry(&location.file).or_default();
        let (object, names) =
            objects.entry(location.line).or_insert_with(|| (fixed_object(entry, Vec::new()), Vec::new()));
        // Another object may begin on the same line; a later round fixes it.
        if object.object == entry.resource {
            object.fixes.push(fix);
            names.push(name);
        }
    }
    let changed = files.into_iter().filter_map(|(file, objects)| {
        let old = read(file).filter(|_| given.contains(Path::new(&**file)))?;
        let names: BTreeMap<usize, Vec<NamedFix>> =
            objects.iter().map(|(line, (_, names))| (*line, names.clone())).collect();
        let objects = objects.into_iter().map(|(line, (object, _))| (line, object)).collect();
        let (new, applied) = ManifestText::new(&old).fixed(objects);
        let applied = applied.into_iter().filter_map(|(line, fix)| names.get(&line)?.get(fix).cloned()).collect();
        (new != old).then(|| FileChange { file: Arc::clone(file), old, new, applied })
    });
    changed.collect()
}
