//! From a chunk of a file to its objects: nothing here knows of other chunks.

use std::{cell::Cell, sync::Arc};

use serde_json::value::RawValue;

use super::{
    block::{self, Converted},
    chunks::Chunk,
    yaml,
};
use crate::{
    model::object::{Kind, Location, Object},
    rego::yaml::reason,
    source::{
        received::{Received, Secrets, fields, without_value},
        selection::Selection,
    },
};

/// What a chunk holds.
pub(super) enum ManifestItem {
    /// An object; its copy is not counted yet.
    Object(Box<Object>),
    /// A document that cannot be read: where it stands, and why.
    Unreadable(String, String),
}

/// Which objects are taken, and what of them.
pub(super) struct ManifestParser<'a> {
    pub(super) selection: &'a Selection,
    pub(super) secrets: Secrets,
}

impl ManifestParser<'_> {
    /// Returns what a chunk holds, in its order.
    pub(super) fn chunk(&self, chunk: Chunk) -> Vec<ManifestItem> {
        let Chunk { file, line, text } = chunk;
        let mut documents = Documents { parser: self, file, kinds: Vec::new(), found: Vec::new(), arrays: 0 };
        match text {
            Ok(text) => documents.read(&text, line),
            Err(error) => documents.unreadable(documents.file.to_string(), &error.to_string()),
        }
        documents.found
    }
}

/// Finds the line that a part of a text begins at.
type Line<'l> = &'l dyn Fn(&str) -> usize;

/// The documents of one chunk.
struct Documents<'p> {
    parser: &'p ManifestParser<'p>,
    file: Arc<str>,
    /// Kinds met so far, by what the manifests say.
    kinds: Vec<(String, String, Arc<Kind>)>,
    found: Vec<ManifestItem>,
    /// How many arrays are open around what is read. Bounded, because each level is read through once more.
    arrays: usize,
}

/// Levels of arrays around objects that are looked into.
const ARRAYS: usize = 16;

impl Documents<'_> {
    /// Reads the text of a chunk that begins at a line.
    fn read(&mut self, text: &str, first_line: usize) {
        // A byte order mark is no content.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim_start().starts_with(['{', '[']) && self.json(text, first_line) {
            return;
        }
        for (line, document) in split(text, first_line) {
            if document.trim_ascii().is_empty() {
                continue;
            }
            match block::convert(document) {
                Some(converted) => self.converted(document, line, &converted),
                None => self.document(document, line),
            }
        }
    }

    /// Takes in a document that was plain enough.
    fn converted(&mut self, document: &str, line: usize, converted: &Converted) {
        let Converted { json, items } = converted;
        self.value(json, &|part: &str| {
            let offset = offset_in(part, json);
            let item = items.binary_search_by_key(&offset, |(offset, _)| *offset);
            item.map_or_else(|_| line + leading_lines(document), |index| line + items[index].1)
        });
    }

    /// Reads any document.
    fn document(&mut self, document: &str, line: usize) {
        match yaml::read(document) {
            Ok(serde_json::Value::Null) => {}
            Ok(value) => {
                // What was just read from text has nothing in it that JSON cannot say.
                self.value(&value.to_string(), &|_| line + leading_lines(document));
            }
            Err(error) => {
                let (row, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
                // The parser counts lines from the document's first.
                let row = line + usize::try_from(row).unwrap_or(1).max(1) - 1;
                self.unreadable(format!("{}:{row}:{column}", self.file), &reason(&error));
            }
        }
    }

    /// Reads JSON documents, one after the other. Returns false if it is none (but YAML in flow style).
    fn json(&mut self, text: &str, first_line: usize) -> bool {
        let stream = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        // Lines are asked for in their order, and counted once.
        let counted = Cell::new((0, first_line));
        let line_of = |part: &str| {
            let ((from, line), to) = (counted.get(), offset_in(part, text));
            let (from, line) = if from <= to { (from, line) } else { (0, first_line) };
            let between = text.as_bytes().get(from..to).unwrap_or_default();
            let line = line + memchr::memchr_iter(b'\n', between).count();
            counted.set((to, line));
            line
        };
        let mut any = false;
        for document in stream {
            match document {
                Ok(document) => {
                    any = true;
                    self.value(document.get(), &line_of);
                }
                Err(_) if !any => return false,
                Err(error) => {
                    let row = first_line + error.line().max(1) - 1;
                    self.unreadable(format!("{}:{row}:{}", self.file, error.column()), &error.to_string());
                    break;
                }
            }
        }
        true
    }

    /// Takes in an object, or what a list or an admission review holds.
    fn value(&mut self, json: &str, line: Line<'_>) {
        if json.starts_with('[') {
            match serde_json::from_str::<Vec<&RawValue>>(json) {
                Ok(_) if self.arrays == ARRAYS => {
                    self.unreadable(self.at(line(json)), &format!("arrays are nested deeper than {ARRAYS} levels"));
                }
                Ok(items) => {
                    self.arrays += 1;
                    for item in items {
                        self.value(item.get(), line);
                    }
                    self.arrays -= 1;
                }
                Err(error) => self.unreadable(self.at(line(json)), &without_value(&error)),
            }
            return;
        }
        let received = Received::read(json);
        let kind = received.kind.clone().unwrap_or_default();
        match inside(json, &kind) {
            Ok(None) => self.object(received, line(json)),
            Ok(Some(inside)) => {
                for part in inside {
                    // Items of a typed list may leave out what the list's own kind says.
                    let mut item = Received::read(part.get());
                    item.api_version = item.api_version.or_else(|| received.api_version.clone());
                    item.kind = item
                        .kind
                        .or_else(|| kind.strip_suffix("List").filter(|kind| !kind.is_empty()).map(str::to_owned));
                    self.object(item, line(part.get()));
                }
            }
            Err(why) => self.unreadable(self.at(line(json)), &why),
        }
    }

    fn object(&mut self, received: Received, line: usize) {
        let (Some(api_version), Some(kind)) = (&received.api_version, &received.kind) else {
            let why = received.problem().map_or_else(
                || "not a Kubernetes object: apiVersion or kind is missing".to_owned(),
                |problem| format!("not a Kubernetes object: {problem}"),
            );
            return self.unreadable(self.at(line), &why);
        };
        let kind = self.kind(api_version, kind);
        let Selection { namespaces: wanted, .. } = self.parser.selection;
        if self.parser.selection.chooses(&kind) == Some(false)
            || (!wanted.is_empty() && !received.namespace().is_some_and(|namespace| wanted.contains(namespace)))
        {
            return;
        }
        match received.into_object(&kind, self.parser.secrets, 0) {
            Ok(mut object) => {
                object.location = Some(Location { file: self.file.clone(), line });
                self.found.push(ManifestItem::Object(Box::new(object)));
            }
            Err(why) => self.unreadable(self.at(line), &why),
        }
    }

    /// Returns the kind that a manifest names.
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

    fn unreadable(&mut self, at: String, why: &str) {
        self.found.push(ManifestItem::Unreadable(at, why.to_owned()));
    }
}

/// Returns where in `text` a slice of it begins.
fn offset_in(part: &str, text: &str) -> usize {
    (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize)
}

/// Returns the objects inside of a `List` or an `AdmissionReview`.
fn inside<'j>(json: &'j str, kind: &str) -> Result<Option<Vec<&'j RawValue>>, String> {
    let field = |json: &'j str, name: &str| -> Result<Option<&'j RawValue>, String> {
        let found = fields(json).map_err(|error| without_value(&error))?.into_iter().find(|(key, _)| key == name);
        Ok(found.map(|(_, value)| value).filter(|value| value.get() != "null"))
    };
    if kind == "AdmissionReview" {
        let request = field(json, "request")?.ok_or("an AdmissionReview without request")?;
        let object = field(request.get(), "object")?
            .map_or_else(|| field(request.get(), "oldObject"), |found| Ok(Some(found)))?;
        return Ok(Some(vec![object.ok_or("an AdmissionReview without object and oldObject")?]));
    }
    // Nearly everything is an object, and is not looked through once more.
    if !kind.ends_with("List") {
        return Ok(None);
    }
    match field(json, "items") {
        Ok(Some(items)) => {
            serde_json::from_str(items.get()).map(Some).map_err(|error| format!("items: {}", without_value(&error)))
        }
        _ => Ok(None),
    }
}

/// Splits a YAML stream into documents with the line that each begins at. YAML allows a line that begins with `---`
/// only between documents, so no parser is needed, and a broken document does not hide those behind it.
fn split(text: &str, first_line: usize) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, first_line, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let marks = |mark: &str| {
            line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
        };
        if marks("---") || marks("...") {
            documents.push((start_line, &text[start..offset]));
            // What stands behind the mark belongs to the document, on the same line.
            (start, start_line) = (offset + 3, first_line + number);
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
