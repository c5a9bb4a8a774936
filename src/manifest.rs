//! Manifests: files, directories and standard input as a source, for audits without a cluster.
//!
//! Out: the same [`Change`]s as from a cluster. A document that cannot be read is reported with file and line and
//! costs only itself. YAML is read as kubectl reads it (1.1 booleans and octal numbers).

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::{
    cache::Feed,
    discovery::Selection,
    gate::{Discovered, State, Unreadable},
    object::{Kind, Location, Object, ObjectKey, Received, Secrets, fields},
    pipeline::Change,
};

/// Name that stands for standard input.
pub const STDIN: &str = "-";

/// Lists the files that `paths` mean: files as they are, directories recursively, sorted.
///
/// # Errors
/// When a path cannot be read, or a directory holds no manifest.
pub fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.as_os_str() == STDIN {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        collect(path, true, &mut files).with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::ensure!(files.len() > before, "{} holds no .yaml, .yml or .json file", path.display());
    }
    Ok(files)
}

fn collect(path: &Path, named: bool, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path.metadata()?.is_dir() {
        let mut entries =
            path.read_dir()?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
        entries.sort();
        let hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        return entries.iter().filter(|entry| !hidden(entry)).try_for_each(|entry| collect(entry, false, files));
    }
    let known =
        path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
    if named || known {
        files.push(path.to_owned());
    }
    Ok(())
}

/// Reads all `files` into `changes`; blocks. Ends when all is read or nobody listens any more.
pub fn read(files: &[PathBuf], selection: &Selection, secrets: Secrets, changes: &mpsc::Sender<Change>) {
    let mut reader = Reader { selection, secrets, changes, feeds: HashSet::new(), copies: HashMap::new() };
    for file in files {
        reader.file(file);
    }
    reader.done();
}

struct Reader<'a> {
    selection: &'a Selection,
    secrets: Secrets,
    changes: &'a mpsc::Sender<Change>,
    feeds: HashSet<Feed>,
    /// How often each name came.
    copies: HashMap<ObjectKey, u32>,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path) {
        let name: Arc<str> = path.to_string_lossy().into();
        let text = if path.as_os_str() == STDIN {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(path)
        };
        match text {
            Ok(text) => self.documents(&name, &text),
            Err(error) => self.unreadable(&name, &error.to_string()),
        }
    }

    fn documents(&mut self, file: &Arc<str>, text: &str) {
        // A byte order mark is no content.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim_start().starts_with(['{', '[']) && self.json(file, text, 1) {
            return;
        }
        for (line, document) in split(text) {
            let read = |text: &str| serde_saphyr::from_str_with_options::<serde_json::Value>(text, yaml_options());
            match forgiving(document, read) {
                Ok(serde_json::Value::Null) => {}
                Ok(value) => {
                    // What was just read from text has nothing in it that JSON cannot say.
                    self.value(file, &value.to_string(), &|_| line + leading_lines(document));
                }
                Err(error) => {
                    let text = error.without_snippet().to_string();
                    let (row, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
                    // The parser counts lines from the document's first, and says it in the text, at either end.
                    let text =
                        text.split_once(": ").filter(|(at, _)| at.starts_with("line ")).map_or(&*text, |it| it.1);
                    let text = text.rsplit_once(" at line ").map_or(text, |(text, _)| text);
                    let row = line + usize::try_from(row).unwrap_or(1).max(1) - 1;
                    self.unreadable(&format!("{file}:{row}:{column}"), text);
                }
            }
        }
    }

    /// Reads JSON documents, one after the other. Returns false if it is none (but YAML in flow style).
    fn json(&mut self, file: &Arc<str>, text: &str, first_line: usize) -> bool {
        let stream = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        let mut any = false;
        for document in stream {
            match document {
                Ok(document) => {
                    any = true;
                    self.value(file, document.get(), &|part: &str| {
                        // `part` is a slice of `text`: what stands before it is countable.
                        let offset = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
                        first_line
                            + text
                                .as_bytes()
                                .get(..offset)
                                .map_or(0, |before| memchr::memchr_iter(b'\n', before).count())
                    });
                }
                Err(_) if !any => return false,
                Err(error) => {
                    let row = first_line + error.line().max(1) - 1;
                    self.unreadable(&format!("{file}:{row}:{}", error.column()), &error.to_string());
                    break;
                }
            }
        }
        true
    }

    /// Takes in an object, or what a list or an admission review holds.
    fn value(&mut self, file: &Arc<str>, json: &str, line: &dyn Fn(&str) -> usize) {
        if json.starts_with('[') {
            match serde_json::from_str::<Vec<&RawValue>>(json) {
                Ok(items) => items.iter().for_each(|item| self.value(file, item.get(), line)),
                Err(error) => self.unreadable(&format!("{file}:{}", line(json)), &error.to_string()),
            }
            return;
        }
        let received = Received::read(json);
        let kind = received.kind.clone().unwrap_or_default();
        match Self::inside(json, &kind) {
            Ok(None) => self.object(file, received, line(json)),
            Ok(Some(inside)) => {
                for part in inside {
                    // Items of a typed list may leave out what the list's own kind says.
                    let mut item = Received::read(part.get());
                    item.api_version = item.api_version.or_else(|| received.api_version.clone());
                    item.kind = item
                        .kind
                        .or_else(|| kind.strip_suffix("List").filter(|kind| !kind.is_empty()).map(str::to_owned));
                    self.object(file, item, line(part.get()));
                }
            }
            Err(why) => self.unreadable(&format!("{file}:{}", line(json)), &why),
        }
    }

    /// Returns the objects inside of a `List` or an `AdmissionReview`.
    fn inside<'j>(json: &'j str, kind: &str) -> Result<Option<Vec<&'j RawValue>>, String> {
        let field = |json: &'j str, name: &str| -> Result<Option<&'j RawValue>, String> {
            let found = fields(json).map_err(|error| error.to_string())?.into_iter().find(|(key, _)| key == name);
            Ok(found.map(|(_, value)| value).filter(|value| value.get() != "null"))
        };
        if kind == "AdmissionReview" {
            let request = field(json, "request")?.ok_or("an AdmissionReview without request")?;
            let object = field(request.get(), "object")?
                .map_or_else(|| field(request.get(), "oldObject"), |found| Ok(Some(found)))?;
            return Ok(Some(vec![object.ok_or("an AdmissionReview without object and oldObject")?]));
        }
        match field(json, "items") {
            Ok(Some(items)) if kind.ends_with("List") => {
                serde_json::from_str(items.get()).map(Some).map_err(|error| format!("items: {error}"))
            }
            _ => Ok(None),
        }
    }

    fn object(&mut self, file: &Arc<str>, received: Received, line: usize) {
        let (Some(api_version), Some(kind)) = (received.api_version.clone(), received.kind.clone()) else {
            let why = received.problem().map_or_else(
                || "not a Kubernetes object: apiVersion or kind is missing".to_owned(),
                |problem| format!("not a Kubernetes object: {problem}"),
            );
            return self.unreadable(&format!("{file}:{line}"), &why);
        };
        let kind = Arc::new(kind_of(&api_version, &kind));
        let wanted = &self.selection.namespaces;
        if self.selection.chooses(&kind) == Some(false)
            || (!wanted.is_empty() && !received.namespace().is_some_and(|namespace| wanted.contains(namespace)))
        {
            return;
        }
        let mut object = match Object::new(&kind, received, self.secrets, 0) {
            Ok(object) => object,
            Err(why) => return self.unreadable(&format!("{file}:{line}"), &why),
        };
        let copies = self.copies.entry(object.key.clone()).or_default();
        object.key.copy = *copies;
        *copies += 1;
        object.location = Some(Location { file: file.clone(), line });
        let feed = Feed { kind, namespace: None };
        if self.feeds.insert(feed.clone()) {
            self.send(Change::Appeared(feed.clone()));
        }
        self.send(Change::Seen(feed, object));
    }

    /// Notes a document that cannot be read, and where it stands; in the coverage it is of the kind `*`.
    fn unreadable(&mut self, at: &str, why: &str) {
        let mut kind = kind_of("", "*");
        kind.plural.clone_from(&kind.kind);
        let feed = Feed { kind: Arc::new(kind), namespace: None };
        if self.feeds.insert(feed.clone()) {
            self.send(Change::Appeared(feed.clone()));
        }
        self.send(Change::Skipped(feed, at.to_owned(), why.to_owned()));
    }

    fn done(self) {
        let mut feeds: Vec<_> = self.feeds.iter().cloned().collect();
        feeds.sort();
        for feed in feeds {
            self.send(match &*feed.kind.plural {
                "*" => Change::Unreadable(feed, Unreadable { state: State::Failed, message: String::new() }),
                _ => Change::Synced(feed),
            });
        }
        self.send(Change::Discovered(Discovered::default()));
    }

    fn send(&self, change: Change) {
        // Nobody listens any more after an interrupt; what is left to read is little.
        let _ended = self.changes.blocking_send(change);
    }
}

/// YAML as kubectl reads it, errors without excerpts (they are told in one line).
pub(crate) fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! { legacy_octal_numbers: true, strict_booleans: false, strict_indentation: false }
}

/// Reads YAML with what kubectl forgives: further lines of a quoted text that are indented no deeper than their key. Such a
/// line is moved to the right, which changes nothing but its own columns.
pub(crate) fn forgiving<T>(
    yaml: &str,
    read: impl Fn(&str) -> Result<T, serde_saphyr::Error>,
) -> Result<T, serde_saphyr::Error> {
    const MOVED: &str = "                                                                ";
    let mut moved: Option<String> = None;
    loop {
        let text = moved.as_deref().unwrap_or(yaml);
        let error = match read(text) {
            Err(error) if error.to_string().contains("invalid indentation in multiline quoted scalar") => error,
            other => return other,
        };
        let line = error.location().and_then(|place| usize::try_from(place.line()).ok()).unwrap_or(0);
        let Some(line) = text.split_inclusive('\n').nth(line.saturating_sub(1)) else { return Err(error) };
        let offset = (line.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        if line.starts_with(MOVED) || !text.is_char_boundary(offset) {
            return Err(error);
        }
        moved = Some(format!("{}{MOVED}{}", &text[..offset], &text[offset..]));
    }
}

/// Splits a YAML stream into documents with the line that each begins at. YAML allows a line that begins with `---`
/// only between documents, so no parser is needed, and a broken document does not hide those behind it.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let marks = |mark: &str| {
            line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
        };
        if marks("---") || marks("...") {
            documents.push((start_line, &text[start..offset]));
            // What stands behind the mark belongs to the document, on the same line.
            (start, start_line) = (offset + 3, number + 1);
        }
        offset += line.len();
    }
    documents.push((start_line, &text[start..]));
    documents
}

/// Lines before the content of a document: blank ones and comments.
fn leading_lines(document: &str) -> usize {
    document.lines().take_while(|line| line.trim().is_empty() || line.trim_start().starts_with('#')).count()
}

/// Makes a kind of what a manifest says; the plural is a guess by the rules that Kubernetes itself uses.
pub(crate) fn kind_of(api_version: &str, kind: &str) -> Kind {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
    let plural = kube::core::ApiResource::from_gvk(&gvk).plural;
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        plural,
        kind: kind.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        // A file does not say; nothing depends on it without a cluster.
        namespaced: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (Vec<String>, Vec<String>) {
        let (sender, mut receiver) = mpsc::channel(1_000);
        let selection = Selection::default();
        let mut reader = Reader {
            selection: &selection,
            secrets: Secrets::Redact,
            changes: &sender,
            feeds: HashSet::new(),
            copies: HashMap::new(),
        };
        std::thread::scope(|scope| {
            scope.spawn(|| reader.documents(&"f".into(), text));
        });
        drop(sender);
        let (mut seen, mut skipped) = (Vec::new(), Vec::new());
        while let Some(change) = receiver.blocking_recv() {
            match change {
                Change::Seen(_, object) => {
                    let line = object.location.map_or(0, |location| location.line);
                    seen.push(format!("{line} {} #{}", object.key, object.key.copy));
                }
                Change::Skipped(_, at, why) => skipped.push(format!("{at} {why}")),
                _ => {}
            }
        }
        (seen, skipped)
    }

    #[test]
    fn reads_streams_with_lines_and_goes_on_after_a_broken_document() {
        let (seen, skipped) = read_text(
            "# a comment\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ns}\n---\na: [1\nb: 2\n---\n\n---\n# c\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: b\n--- # again\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ns}\n---\nreplicas: 3\n",
        );
        assert_eq!(seen, ["2 Pod ns/a #0", "12 Deployment b #0", "17 Pod ns/a #1"]);
        assert_eq!(skipped.len(), 2, "{skipped:?}");
        assert!(skipped[0].starts_with("f:7:2 "), "{skipped:?}");
        assert_eq!(skipped[1], "f:21 not a Kubernetes object: apiVersion or kind is missing");
    }

    #[test]
    fn opens_lists_and_reviews_in_yaml_and_json() {
        let (seen, skipped) = read_text(
            "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}},\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\"}}]}\n{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"object\":null,\"oldObject\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"c\"}}}}",
        );
        assert_eq!((seen, skipped), (vec!["2 Pod a #0".into(), "3 Pod b #0".into(), "4 Pod c #0".into()], vec![]));
        let (seen, _) = read_text("apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: x}\n");
        assert_eq!(seen, ["1 Deployment x #0"]);
    }

    #[test]
    fn guesses_plurals() {
        for (kind, plural) in [("NetworkPolicy", "networkpolicies"), ("Ingress", "ingresses"), ("Pod", "pods")] {
            assert_eq!(kind_of("v1", kind).plural, plural);
        }
        assert_eq!(kind_of("apps/v1", "Deployment").api_version(), "apps/v1");
    }

    #[test]
    fn quoted_text_goes_on_wherever_kubectl_reads_it() {
        let (seen, skipped) = read_text(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    a: \"one\n    two\n\n  three\"\n    b: 'x\n y'\n  name: a\n",
        );
        assert_eq!((seen, skipped), (vec!["1 Pod a #0".to_owned()], vec![]));
        let read = |text: &str| serde_saphyr::from_str_with_options::<serde_json::Value>(text, yaml_options());
        assert_eq!(forgiving("k:\n  a: \"one\n  two\"\n", read).unwrap()["k"]["a"], "one two");
        assert!(forgiving("a: \"one\n---\n", read).is_err());
    }

    #[test]
    fn reads_numbers_and_booleans_as_kubectl_does() {
        let value: serde_json::Value =
            serde_saphyr::from_str_with_options("{a: 0644, b: on, c: \"on\"}", yaml_options()).unwrap();
        assert_eq!(value, serde_json::json!({"a": 420, "b": true, "c": "on"}));
    }
}
