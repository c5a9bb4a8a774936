//! Parses a chunk of a file into objects, independently of other chunks.

use std::{
    borrow::Cow,
    cell::{Cell, OnceCell},
    collections::{BTreeMap, BTreeSet},
    mem,
    path::Path,
    sync::Arc,
};

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{
    block::{self, Converted},
    chunks::{Chunk, ChunkContent, ChunkPosition, FIRST_VALUES},
    duplicates::duplicates,
    field_lines::FieldLines,
    field_types,
    files::{is_local, is_stdin, result_file},
    helm::Templates,
    kinds::unknown,
    yaml,
};
use crate::{
    cluster::identity::is_exception,
    model::{
        namespaced_kinds::DEFAULT_NAMESPACE,
        object::{Kind, Location, Object},
    },
    rego::analysis::yaml::YamlError,
    source::{
        json::ValueEnd,
        received::{ObjectFields, Received, Secrets, fields},
        redaction::without_value,
        selection::Selection,
    },
};

/// An item found in a chunk.
pub(super) enum ManifestItem {
    /// An object; its copy has not been counted yet.
    Object(Box<Object>),
    /// A document that cannot be read: its location, and why.
    Unreadable(String, String),
    /// A key that occurs again in its object: its location, and the key.
    Duplicate(String, String),
    /// A document without an object in a settings file of a tool.
    Settings(Arc<str>),
    /// Objects of this kind are left out by `--exclude`.
    Excluded(Arc<Kind>),
    /// The number of objects left out because they are in this namespace, or in none.
    Elsewhere(Option<String>, usize),
}

/// Parses chunks: which objects are selected, and how Secrets are handled.
pub(super) struct ManifestParser<'a> {
    pub(super) selection: &'a Selection,
    pub(super) secrets: Secrets,
    pub(super) templates: Templates,
}

impl ManifestParser<'_> {
    /// Returns the items of a chunk, in order.
    pub(super) fn chunk(&self, chunk: Chunk) -> Vec<ManifestItem> {
        let Chunk { file, is_settings, at, content } = chunk;
        let mut documents = Documents {
            parser: self,
            file,
            template: None,
            is_settings,
            kinds: Vec::new(),
            found: Vec::new(),
            excluded: BTreeSet::new(),
            elsewhere: BTreeMap::new(),
            lists: 0,
            lines: OnceCell::new(),
        };
        match content {
            Ok(ChunkContent::Documents(text, values)) => documents.read(&text, at, values),
            Ok(ChunkContent::Items(text, list)) => {
                documents.lists = 1;
                documents.json(&text, at, FIRST_VALUES, Some(&list));
            }
            Ok(ChunkContent::Broken(why)) => documents.unreadable(documents.at_column(at.line, at.column + 1), &why),
            Err(error) => documents.not_read(documents.file.to_string(), &error.to_string()),
        }
        documents.found.extend(documents.excluded.into_iter().map(ManifestItem::Excluded));
        let elsewhere = documents.elsewhere.into_iter();
        documents.found.extend(elsewhere.map(|(namespace, objects)| ManifestItem::Elsewhere(namespace, objects)));
        documents.found
    }
}

/// Returns the line at which a slice of the text starts.
type LineLookup<'l> = &'l dyn Fn(&str) -> usize;

/// The documents of one chunk.
struct Documents<'p> {
    parser: &'p ManifestParser<'p>,
    file: Arc<str>,
    /// The template that the current document of standard input was rendered from.
    template: Option<Arc<str>>,
    is_settings: bool,
    /// Kinds found so far, by the `apiVersion` and `kind` in the manifests.
    kinds: Vec<(String, String, Arc<Kind>)>,
    found: Vec<ManifestItem>,
    /// Kinds with objects that are left out.
    excluded: BTreeSet<Arc<Kind>>,
    /// Objects that are left out, by namespace.
    elsewhere: BTreeMap<Option<String>, usize>,
    /// How many arrays and lists are open around the current value. Bounded, because each level is parsed once more.
    lists: usize,
    /// The lines of fields in the file, read when first needed.
    lines: OnceCell<Option<FieldLines>>,
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The most levels of arrays and lists around objects.
const LISTS: usize = 16;

impl Documents<'_> {
    /// Reads the text of a chunk that starts at a position, after `values` JSON values of its first document.
    fn read(&mut self, text: &str, at: ChunkPosition, mut values: usize) {
        // As Go reads lines: a line break is one byte, and the last line also ends with one.
        let mut text = Cow::from(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text));
        if text.contains('\r') {
            text = text.replace("\r\n", "\n").into();
        }
        if !text.ends_with('\n') {
            text.to_mut().push('\n');
        }
        let mut column = at.column;
        for (line, document) in split(&text, at.line) {
            // Files that were joined keep their byte order marks, which are not content.
            let document = document.strip_prefix(BYTE_ORDER_MARK).unwrap_or(document);
            let at = ChunkPosition { line, column: mem::take(&mut column) };
            self.template = if is_stdin(&*self.file) { self.parser.templates.of(document) } else { None };
            let values = mem::take(&mut values);
            let (line, rest) = if values > 0 || document.trim_start().starts_with(['{', '[']) {
                self.json(document, at, values, None)
            } else {
                (line, document)
            };
            if rest.trim_ascii().is_empty() {
                continue;
            }
            match block::convert(rest) {
                Some(converted) => self.converted(rest, line, &converted),
                None => self.document(rest, line),
            }
        }
    }

    /// Reads a document that was converted to JSON.
    fn converted(&mut self, document: &str, line: usize, converted: &Converted) {
        let Converted { json, items, duplicates } = converted;
        for (row, key) in duplicates {
            self.duplicate(line + row, key);
        }
        self.value(
            Received::read(json),
            json,
            &|part: &str| {
                let offset = offset_in(part, json);
                let item = items.binary_search_by_key(&offset, |(offset, _)| *offset);
                item.map_or_else(|_| line + leading_lines(document), |index| line + items[index].1)
            },
            None,
        );
    }

    /// Reads any document with the full parser.
    fn document(&mut self, document: &str, line: usize) {
        match yaml::convert(document) {
            Ok(None) => {}
            Ok(Some(converted)) => self.converted(document, line, &converted),
            Err(YamlError { at, mut why, .. }) => {
                let (mut row, mut column) = (at.line as usize, at.column as usize);
                let text = document.lines().nth(row - 1).unwrap_or_default();
                let indent = &text[..text.len() - text.trim_start().len()];
                if document.starts_with(['{', '['])
                    && let Err(error) = serde_json::from_str::<IgnoredAny>(document)
                    && error.is_eof()
                {
                    (row, column) = (error.line(), error.column().max(1));
                    "the text ends in the middle of a JSON value".clone_into(&mut why);
                } else if indent.contains('\t') && why.contains("cannot start any token") {
                    "the line begins with a tab: indent YAML with spaces".clone_into(&mut why);
                } else if document.contains("{{") {
                    why += "; if this is a Helm template, render it first: helm template CHART | kaudit check -f -";
                }
                self.unreadable(self.at_column(line + row - 1, column), &why);
            }
        }
    }

    /// Reads JSON values, after `values` of the same document. Returns the text that must be read as YAML, and its
    /// line: where there is no JSON, or one value followed by something else, kubectl switches to YAML. After more
    /// values, invalid JSON affects only itself. The values may be the items of a `list`, separated by commas.
    fn json<'t>(
        &mut self,
        text: &'t str,
        at: ChunkPosition,
        mut values: usize,
        list: Option<&Received>,
    ) -> (usize, &'t str) {
        let first_line = at.line;
        // Lines are requested in ascending order, so that each line break is counted once.
        let counted = Cell::new((0, first_line));
        let line_of = |part: &str| {
            let ((from, line), to) = (counted.get(), offset_in(part, text));
            let (from, line) = if from <= to { (from, line) } else { (0, first_line) };
            let between = text.as_bytes().get(from..to).unwrap_or_default();
            let line = line + memchr::memchr_iter(b'\n', between).count();
            counted.set((to, line));
            line
        };
        let mut rest = text;
        loop {
            let next = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',' && list.is_some());
            if next.is_empty() {
                return (first_line, "");
            }
            // Most values are valid objects, which are parsed while their end is searched.
            let mut objects = serde_json::Deserializer::from_str(next).into_iter::<ObjectFields<'_>>();
            if let Some(Ok(object)) = objects.next() {
                let end = objects.byte_offset();
                self.received(object.into(), &next[..end], &line_of, list);
                values += 1;
                rest = &next[end..];
                continue;
            }
            let mut valid = serde_json::Deserializer::from_str(next).into_iter::<&RawValue>();
            let (value, end) = if let Some(Ok(value)) = valid.next() {
                (Ok(value), valid.byte_offset())
            } else {
                let end = ValueEnd::default().find(next.as_bytes()).unwrap_or(next.len());
                (serde_json::from_str(&next[..end]), end)
            };
            match value {
                Ok(value) if value.get() == "null" && list.is_none() => {}
                Ok(value) => {
                    self.received(Received::read(value.get()), value.get(), &line_of, list);
                }
                Err(_) if values < FIRST_VALUES => return (line_of(rest), rest),
                Err(error) => {
                    let before = &text[..offset_in(next, text)];
                    let in_line = before.rfind('\n').map_or(at.column + before.len(), |at| before.len() - at - 1);
                    let column = error.column() + if error.line() == 1 { in_line } else { 0 };
                    let row = line_of(next) + error.line().max(1) - 1;
                    let why = error.to_string();
                    let why = why.rsplit_once(" at line ").map_or(&*why, |(why, _)| why);
                    self.unreadable(self.at_column(row, column), why);
                }
            }
            values += 1;
            rest = &next[end..];
        }
    }

    /// Reads a JSON value, and reports its duplicate keys.
    fn received(&mut self, received: Received, json: &str, line: LineLookup<'_>, list: Option<&Received>) {
        self.value(received, json, line, list);
        for key in duplicates(json) {
            self.duplicate(line(key), key);
        }
    }

    /// Reads an object, or the content of an array, a list or an admission review; `list` is the list that contains the
    /// value.
    fn value(&mut self, mut received: Received, json: &str, line: LineLookup<'_>, list: Option<&Received>) {
        if let Some(list) = list
            && received.api_version.is_none()
            && received.kind.is_none()
        {
            // Items of a typed list may omit the type that follows from the list's kind.
            received.api_version.clone_from(&list.api_version);
            let kind = list.kind.as_deref().and_then(|kind| kind.strip_suffix("List"));
            received.kind = kind.filter(|kind| !kind.is_empty()).map(str::to_owned);
        }
        match inside(json, received.kind.as_deref().unwrap_or_default()) {
            Ok(None) => self.object(received, json, line(json)),
            Ok(Some(_)) if self.lists == LISTS => {
                self.unreadable(self.at(line(json)), &format!("lists are nested deeper than {LISTS} levels"));
            }
            Ok(Some(inside)) => {
                self.lists += 1;
                for part in inside {
                    self.value(Received::read(part.get()), part.get(), line, Some(&received));
                }
                self.lists -= 1;
            }
            Err(why) => self.unreadable(self.at(line(json)), &why),
        }
    }

    fn object(&mut self, mut received: Received, json: &str, line: usize) {
        let (Some(api_version), Some(kind)) = (
            received.api_version.as_deref().filter(|text| !text.is_empty()),
            received.kind.as_deref().filter(|text| !text.is_empty()),
        ) else {
            let why = received.problem().unwrap_or("apiVersion or kind is missing");
            return self.unreadable(self.at(line), &format!("not a Kubernetes object: {why}"));
        };
        if let Some(why) = result_file(api_version, kind) {
            return self.unreadable(self.at(line), why);
        }
        if self.is_settings && is_local(api_version) {
            return self.unreadable(self.at(line), "");
        }
        let kind = self.kind(api_version, kind);
        let Selection { namespaces: wanted, .. } = self.parser.selection;
        let chosen = self.parser.selection.chooses(&kind);
        if chosen == Some(false) && !is_exception(&kind) {
            self.excluded.insert(kind);
            return;
        }
        let placement = self.parser.selection.placement.as_ref();
        if received.namespace().is_none_or(str::is_empty)
            && let Some(namespace) = placement.and_then(|placement| placement.namespace(&kind))
        {
            received.place(namespace);
        }
        let namespace = received.namespace();
        // As kubectl applies it.
        let applied = namespace.or_else(|| kind.is_known_as_namespaced().then_some(DEFAULT_NAMESPACE));
        if !wanted.is_empty() && !applied.is_some_and(|namespace| wanted.contains(namespace)) {
            *self.elsewhere.entry(namespace.map(str::to_owned)).or_default() += 1;
            return;
        }
        if chosen.is_none()
            && let Some(why) = unknown(&kind)
        {
            return self.unreadable(self.at(line), &why);
        }
        let object = received.into_object(&kind, self.parser.secrets, 0);
        match object.and_then(|object| field_types::problem(&kind, json).map_or(Ok(object), Err)) {
            Ok(mut object) => {
                let rendered = self.template.clone().map(|file| Location { file, line: 1 });
                object.location = Some(rendered.unwrap_or_else(|| Location { file: self.file.clone(), line }));
                // The API server drops the status of a new object, so a manifest cannot say that an object is finished.
                object.inactive = false;
                self.found.push(ManifestItem::Object(Box::new(object)));
            }
            Err(why) => {
                let field = why.split_once(" is ").map_or("", |(field, _)| field);
                self.unreadable(self.at(self.field_line(line, field)), &why);
            }
        }
    }

    /// Returns the line of a field of the object that starts at a line, or of the nearest field above it.
    fn field_line(&self, line: usize, field: &str) -> usize {
        let lines = self.lines.get_or_init(|| FieldLines::read(Path::new(&*self.file)));
        lines.as_ref().and_then(|lines| lines.line(line, field)).unwrap_or(line)
    }

    /// Returns the kind named in a manifest.
    fn kind(&mut self, api_version: &str, kind: &str) -> Arc<Kind> {
        let known = self.kinds.iter().find(|(known_version, known, _)| known == kind && known_version == api_version);
        if let Some((_, _, known)) = known {
            return known.clone();
        }
        let made = Arc::new(kind_of(api_version, kind));
        self.kinds.push((api_version.to_owned(), kind.to_owned(), made.clone()));
        made
    }

    fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.file)
    }

    fn at_column(&self, line: usize, column: usize) -> String {
        format!("{}:{line}:{column}", self.file)
    }

    /// Adds a key that occurs again in its object, on this line. Tools may parse their settings differently.
    fn duplicate(&mut self, line: usize, key: &str) {
        if !self.is_settings {
            self.found.push(ManifestItem::Duplicate(self.at(line), key.to_owned()));
        }
    }

    /// Adds a document without an object; settings files may contain such documents.
    fn unreadable(&mut self, at: String, why: &str) {
        if self.is_settings {
            self.found.push(ManifestItem::Settings(self.file.clone()));
        } else {
            self.not_read(at, why);
        }
    }

    fn not_read(&mut self, at: String, why: &str) {
        self.found.push(ManifestItem::Unreadable(at, why.to_owned()));
    }
}

/// Returns the offset of a slice in `text`.
fn offset_in(part: &str, text: &str) -> usize {
    (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize)
}

/// Returns the items of an array or a `List`, or the object of an `AdmissionReview`.
fn inside<'j>(json: &'j str, kind: &str) -> Result<Option<Vec<&'j RawValue>>, String> {
    if json.starts_with('[') {
        return serde_json::from_str(json).map(Some).map_err(|error| without_value(&error));
    }
    let field = |json: &'j str, name: &str| -> Result<Option<&'j RawValue>, String> {
        let found = fields(json).map_err(|error| without_value(&error))?.into_iter().rfind(|(key, _)| key == name);
        Ok(found.map(|(_, value)| value))
    };
    let object = |json: &'j str, name: &str| Ok(field(json, name)?.filter(|value| value.get() != "null"));
    if kind == "AdmissionReview" {
        let request = object(json, "request")?.ok_or("the AdmissionReview has no request")?;
        let found = object(request.get(), "object")?
            .map_or_else(|| object(request.get(), "oldObject"), |found| Ok::<_, String>(Some(found)))?;
        return Ok(Some(vec![found.ok_or("an AdmissionReview without object and oldObject")?]));
    }
    // Nearly every document is an object, and need not be searched again.
    if !kind.ends_with("List") {
        return Ok(None);
    }
    match field(json, "items") {
        // A template that found nothing to list.
        Ok(Some(items)) if items.get() == "null" => Ok(Some(Vec::new())),
        Ok(Some(items)) => {
            serde_json::from_str(items.get()).map(Some).map_err(|error| format!("items: {}", without_value(&error)))
        }
        _ => Ok(None),
    }
}

/// Splits a YAML stream into documents, each with the line at which it starts. YAML allows a line that begins with
/// `---` only between documents, so no parser is needed, and a broken document does not hide those after it.
fn split(text: &str, first_line: usize) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, first_line, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let end = offset + line.len();
        if let Some(behind) = after_marker(line) {
            documents.push((start_line, &text[start..offset]));
            // Content after the marker belongs to the document.
            let is_content = !behind.is_empty() && !behind.starts_with('#');
            (start, start_line) =
                if is_content { (offset + 3, first_line + number) } else { (end, first_line + number + 1) };
        }
        offset = end;
    }
    documents.push((start_line, &text[start..]));
    documents
}

/// Returns the text after a document marker; `None` if the line does not begin with one.
fn after_marker(line: &str) -> Option<&str> {
    let behind = line.strip_prefix("---").or_else(|| line.strip_prefix("..."))?;
    // Go's parser also accepts a comment without a space.
    (behind.is_empty() || behind.starts_with([' ', '\t', '\r', '\n', '#'])).then(|| behind.trim())
}

/// Returns the number of lines before the content of a document: blank ones and comments.
fn leading_lines(document: &str) -> usize {
    document.lines().take_while(|line| line.trim().is_empty() || line.trim_start().starts_with('#')).count()
}

/// Returns the kind named in a manifest; the plural is a guess by the rules that Kubernetes itself uses.
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
        // A file does not contain this; without a cluster nothing depends on it.
        namespaced: true,
    }
}
