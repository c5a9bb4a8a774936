//! Sets fields of objects in the text of a manifest, and preserves its comments and layout.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use serde::de::IgnoredAny;
use serde_json::Value;

use super::{
    field_lines::{FieldLines, ObjectPlace},
    patch::ResultFix,
    text_edits::{DocumentText, Edit, edit, line_after, parse},
    value_change::{ValueChange, ValueOperation, at, changed},
};
use crate::model::object::ObjectRef;

/// The byte order mark.
const MARK: &str = "\u{feff}";

/// An object of a file and its fixes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FixedObject {
    /// The object.
    pub object: Arc<ObjectRef>,
    /// In any order.
    pub fixes: Vec<ResultFix>,
}

/// The text of a file of manifests, to be fixed.
#[derive(Debug)]
pub struct ManifestText {
    /// The byte order mark before the text, or nothing.
    mark: &'static str,
    text: String,
    /// `None` if the text is not YAML.
    lines: Option<FieldLines>,
}

/// Lines of a file, before and after a fix.
#[derive(Debug)]
pub struct FixedLines {
    /// The first one in the file, from 1.
    pub line: usize,
    /// Their text before the fix.
    pub old: String,
    /// Their text after the fix.
    pub new: String,
}

impl ManifestText {
    /// Parses the text of a file.
    pub fn new(text: &str) -> Self {
        let (mark, text) = text.strip_prefix(MARK).map_or(("", text), |text| (MARK, text));
        Self { mark, text: text.to_owned(), lines: FieldLines::parse(text.as_bytes()) }
    }

    /// Returns the text with the fixes of objects, each identified by its first line, and the fixes that were applied: the line
    /// of the object, and the index in its fixes.
    /// A fix is applied completely or not at all. It is not applied if the text is not plain YAML, if it does not apply to
    /// the object, or if it conflicts with an earlier fix of the object: one of them removes or replaces a value that the
    /// other one changes. Then the object has to be evaluated again first.
    pub fn fixed(&self, mut objects: BTreeMap<usize, FixedObject>) -> (String, Vec<(usize, usize)>) {
        let (mut new, mut applied) = (self.text.clone(), Vec::new());
        // From the end, so that earlier objects keep their places.
        while let Some((line, object)) = objects.pop_last() {
            let place = self.lines.as_ref().and_then(|lines| lines.object(line));
            let excerpt = place.map(|place| ObjectExcerpt::new(&new, line, &place));
            if let Some((excerpt, (fixed, fixes))) =
                excerpt.and_then(|excerpt| Some((excerpt.range.clone(), excerpt.fixed(&new, &object)?)))
            {
                new.replace_range(excerpt, &fixed);
                applied.extend(fixes.into_iter().map(|fix| (line, fix)));
            }
        }
        (format!("{}{new}", self.mark), applied)
    }

    /// Returns the lines of an object, before and after its fixes; `None` if none can be applied, or they change nothing.
    pub fn fixed_lines(&self, line: usize, object: &FixedObject) -> Option<FixedLines> {
        let excerpt = ObjectExcerpt::new(&self.text, line, &self.lines.as_ref()?.object(line)?);
        let (fixed, applied) = excerpt.fixed(&self.text, object)?;
        let Range { start, end } = excerpt.range;
        let begin = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let after = line_after(&self.text, end);
        let mark = if begin == 0 { self.mark } else { "" };
        let lines = |inside: &str| format!("{mark}{}{inside}{}", &self.text[begin..start], &self.text[end..after]);
        let (old, new) = (lines(&self.text[start..end]), lines(&fixed));
        (!applied.is_empty() && new != old).then_some(FixedLines { line: excerpt.line, old, new })
    }
}

/// The part of a text that contains an object and is valid YAML by itself, so that a fix does not read the other objects of
/// a List.
struct ObjectExcerpt<'l> {
    /// Its first line, from 1.
    line: usize,
    range: Range<usize>,
    /// The keys that lead to the object in it.
    keys: Vec<&'l str>,
    /// Whether the object is an item of its document. Items of a `PodList` need not have a kind.
    is_item: bool,
}

impl<'l> ObjectExcerpt<'l> {
    /// Returns the excerpt with the object that starts at a line: only the object if it is part of a document, or the
    /// document. Offsets before the end of the object are those of the original text.
    fn new(text: &str, line: usize, place: &ObjectPlace<'l>) -> Self {
        let (Range { start, end }, is_item) = (place.node.place.clone(), !place.keys.is_empty());
        if place.keys.is_empty() || place.has_aliases {
            // The document may be longer than it was, if several of its objects are fixed.
            let length = document_length(&text[place.start..]);
            Self { line: place.line, range: place.start..place.start + length, keys: place.keys.clone(), is_item }
        } else if !place.node.form.is_block() {
            Self { line, range: start..end, keys: Vec::new(), is_item }
        } else {
            let own_line = text[..start].rfind('\n').map_or(0, |at| at + 1);
            let dashes = text[own_line..start].bytes().filter(|byte| *byte == b'-').count();
            Self { line, range: own_line..line_after(text, end), keys: vec!["0"; dashes], is_item }
        }
    }

    /// Applies the fixes of the object. Returns the new text of the excerpt, and the indexes of the fixes that were applied.
    fn fixed(&self, text: &str, object: &FixedObject) -> Option<(String, Vec<usize>)> {
        let old = &text[self.range.clone()];
        let keys: Vec<String> = self.keys.iter().map(|key| (*key).to_owned()).collect();
        let mut document = EditedDocument::new(old)?;
        if !document.holds(&keys, &object.object, self.is_item) {
            return None;
        }
        let applied = document.apply_all(&keys, &object.fixes);
        let mut fixed = document.text;
        // A block scalar ends with its line break, which must remain before the next document.
        if old.ends_with('\n') && !fixed.ends_with('\n') {
            fixed.push('\n');
        }
        Some((fixed, applied))
    }
}

/// Returns the length of the first document of a text.
fn document_length(text: &str) -> usize {
    let is_end = |line: &str| ["---", "..."].iter().any(|mark| line.starts_with(mark));
    let before = text.split_inclusive('\n').take_while(|line| !is_end(line));
    before.map(str::len).sum()
}

/// A document to which fixes are applied.
struct EditedDocument {
    text: String,
    is_json: bool,
    value: Value,
    /// The changes of the object made before. All their paths are those of the object before the first one.
    made: Vec<ValueChange>,
}

impl EditedDocument {
    fn new(text: &str) -> Option<Self> {
        Some(Self { text: text.to_owned(), is_json: is_json(text), value: parse(text)?, made: Vec::new() })
    }

    /// Whether the document contains this object at this position: the location of a rendered object is its template.
    fn holds(&self, place: &[String], object: &ObjectRef, is_item: bool) -> bool {
        let Some(found) = at(&self.value, place) else { return false };
        let metadata = &found["metadata"];
        let is_named = ["name", "generateName"].iter().any(|key| metadata[key] == *object.name);
        // Several mappings may start on its line, and parts of other objects have neither a kind nor a name.
        if found["kind"].is_null() {
            is_item && is_named
        } else {
            found["kind"] == *object.kind && (is_named || metadata["name"].is_null())
        }
    }

    /// Applies fixes of the object at a place; returns the indexes of those that were applied.
    fn apply_all(&mut self, place: &[String], fixes: &[ResultFix]) -> Vec<usize> {
        let Some(object) = at(&self.value, place).cloned() else { return Vec::new() };
        // All fixes are for the object as it was evaluated.
        let changes = fixes.iter().enumerate().filter_map(|(index, fix)| Some((index, fix.changes(&object)?)));
        changes.filter(|(_, changes)| self.apply(place, &object, changes)).map(|(index, _)| index).collect()
    }

    /// Makes the changes of one fix; returns whether all of them are made. Otherwise nothing changes.
    fn apply(&mut self, place: &[String], object: &Value, changes: &[ValueChange]) -> bool {
        let (text, value, earlier) = (self.text.clone(), self.value.clone(), self.made.clone());
        let is_made = changes.iter().all(|change| {
            earlier.contains(change)
                || !earlier.iter().any(|known| known.conflicts(change)) && self.make(place, object, change)
        });
        if !is_made {
            (self.text, self.value, self.made) = (text, value, earlier);
        }
        is_made
    }

    /// Makes one change; returns whether the text has it.
    fn make(&mut self, place: &[String], object: &Value, change: &ValueChange) -> bool {
        let path: Vec<String> = place.iter().cloned().chain(change.path_after(&self.made, object)).collect();
        let Some(wanted) = changed(&self.value, &path, &change.change) else { return false };
        if wanted != self.value {
            // The edited text is parsed again, so that an unusual layout cannot change anything else.
            let edited = self.edited(&path, &change.change).filter(|text| parse(text).as_ref() == Some(&wanted));
            let Some(text) = edited else { return false };
            (self.text, self.value) = (text, wanted);
        }
        self.made.push(change.clone());
        true
    }

    fn edited(&self, path: &[String], change: &ValueOperation) -> Option<String> {
        let text = DocumentText { text: &self.text, is_json: self.is_json };
        let lines = FieldLines::parse(self.text.as_bytes())?;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let Edit { place, text: mut new } = edit(&text, lines.root()?, &path, change)?;
        if self.text.contains("\r\n") {
            new = new.replace('\n', "\r\n");
        }
        let edited = format!("{}{new}{}", self.text.get(..place.start)?, self.text.get(place.end..)?);
        (!self.is_json || is_json(&edited)).then_some(edited)
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests;
