//! A JSON list that is too large for memory: its fields other than the items are kept, and its text is split between
//! items.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::source::{
    json::ValueEnd,
    received::{Received, fields},
    redaction::without_value,
};

/// A list whose items are still being read.
///
/// It is treated as a list before its end has been read. If a `kind` after the items shows that it is something else,
/// that is an error, because the items were already read as objects.
pub(super) struct OpenList {
    /// The fields before its items, from which items without a type inherit theirs.
    pub(super) head: Arc<Received>,
    /// Its text up to the items, on one line.
    before: String,
    next: ListPosition,
    /// How many bytes after the last taken item were searched.
    searched: usize,
    end: ValueEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListPosition {
    /// An item.
    Item,
    /// The rest of an item.
    InItem,
    /// A comma or the end of the items.
    Comma,
    /// The rest of the list, after its items.
    Tail,
}

/// The result of searching text of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListStep {
    /// Nothing complete.
    More,
    /// Complete items with their separators, up to here.
    Items(usize),
    /// The rest of the list up to here.
    End(usize),
    /// Not a list: where, and why.
    Broken(usize, String),
}

impl OpenList {
    /// Starts with the first part of a value. Returns the list and the offset of its items; `None` unless it is certain
    /// to be a list whose first item is JSON.
    pub(super) fn begin(text: &[u8]) -> Option<(Self, usize)> {
        let head = if text.starts_with(b"[") { 1 } else { items(text)? };
        let first = head + blank(&text[head..]);
        let first = &text[first..first + ValueEnd::default().find(&text[first..])?];
        let first: &RawValue = serde_json::from_slice(first).ok()?;
        // In JSON a line break is only white space.
        let before = std::str::from_utf8(&text[..head]).ok()?.replace(['\r', '\n'], " ");
        let received = Received::read(&closed(&before, "]"));
        if text.starts_with(b"{") && !is_list(&received, &Received::read(first.get())) {
            return None;
        }
        let list =
            Self { head: received.into(), before, next: ListPosition::Item, searched: 0, end: ValueEnd::default() };
        Some((list, head))
    }

    /// Searches the text after the last taken item, which has grown since the last call.
    pub(super) fn step(&mut self, text: &[u8]) -> ListStep {
        let mut items = 0;
        let step = loop {
            let Some(&byte) = text.get(self.searched) else { break ListStep::More };
            match (self.next, byte) {
                (ListPosition::InItem, _) => {
                    let Some(end) = self.end.find(&text[self.searched..]) else {
                        self.searched = text.len();
                        break ListStep::More;
                    };
                    self.searched += end;
                    (items, self.next) = (self.searched, ListPosition::Comma);
                }
                (ListPosition::Tail, _) => {
                    let Some(end) = self.end.find(&text[self.searched..]) else {
                        self.searched = text.len();
                        break ListStep::More;
                    };
                    self.searched += end;
                    break self.finish(&text[..self.searched]);
                }
                (_, b' ' | b'\t' | b'\r' | b'\n') => self.searched += 1,
                (ListPosition::Comma, b',') => (self.next, self.searched) = (ListPosition::Item, self.searched + 1),
                // The end of the list is not taken together with items.
                (ListPosition::Comma, b']') if items == 0 => {
                    (self.next, self.end) = (ListPosition::Tail, ValueEnd::default());
                    let _open = self.end.find(&self.before.as_bytes()[..1]);
                    self.searched += usize::from(self.before.starts_with('{'));
                }
                (ListPosition::Item, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b'a'..=b'z') => {
                    (self.next, self.end) = (ListPosition::InItem, ValueEnd::default());
                }
                (ListPosition::Comma, _) => {
                    break ListStep::Broken(self.searched, "expected `,` or `]` after an item".to_owned());
                }
                (ListPosition::Item, _) => {
                    break ListStep::Broken(self.searched, "expected an item of a list".to_owned());
                }
            }
        };
        if items == 0 {
            return step;
        }
        self.searched -= items;
        ListStep::Items(items)
    }

    /// Checks the list without its items, given the text after them.
    fn finish(&self, tail: &[u8]) -> ListStep {
        let end = tail.len();
        let tail = String::from_utf8_lossy(tail);
        let text = format!("{}{tail}", self.before);
        if self.before.starts_with('[') {
            return ListStep::End(end);
        }
        if let Err(error) = fields(&text) {
            let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
            let place = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
            let why = without_value(&error);
            let why = why.rsplit_once(" at line ").map_or(&*why, |(why, _)| why);
            return ListStep::Broken(place.saturating_sub(self.before.len()).min(end), why.to_owned());
        }
        let list = Received::read(&text);
        let why = match (list.problem(), list.kind.as_deref()) {
            (Some(why), _) => format!("not a list: {why}"),
            (None, Some(kind)) if kind.ends_with("List") => return ListStep::End(end),
            (None, Some(kind)) => format!("kind {kind} is not a list kind"),
            (None, None) => "the kind of the list is missing".to_owned(),
        };
        ListStep::Broken(end, why)
    }
}

/// Whether a value with the fields of `head` before `items`, and with this first item, is a list: by its kind, or
/// because only lists of the core group have items that are objects. `kubectl` writes the kind after the items.
fn is_list(head: &Received, first: &Received) -> bool {
    let kind = |object: &Received| object.kind.is_some() && object.api_version.is_some();
    head.problem().is_none()
        && head.api_version.is_some()
        && match &head.kind {
            Some(kind) => kind.ends_with("List"),
            None => head.api_version.as_deref() == Some("v1") && kind(first),
        }
}

/// Returns the offset of the items of an object, after the bracket; `None` if they have not been read yet.
fn items(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    let value = |at: usize| {
        let from = at + blank(&text[at..]);
        Some((from, from + ValueEnd::default().find(&text[from..])?))
    };
    loop {
        let (from, end) = value(at)?;
        let colon = end + blank(&text[end..]);
        if text.get(colon) != Some(&b':') {
            return None;
        }
        if &text[from..end] == br#""items""# {
            let bracket = colon + 1 + blank(&text[colon + 1..]);
            return (text.get(bracket) == Some(&b'[')).then_some(bracket + 1);
        }
        let (_, end) = value(colon + 1)?;
        at = end + blank(&text[end..]);
        if text.get(at) != Some(&b',') {
            return None;
        }
        at += 1;
    }
}

/// Returns how many of the first bytes are blank.
fn blank(text: &[u8]) -> usize {
    text.len() - text.trim_ascii_start().len()
}

/// Returns the text of a list without items.
fn closed(before: &str, tail: &str) -> String {
    let brace = if before.starts_with('{') { "}" } else { "" };
    format!("{before}{tail}{brace}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::source::manifest::{
        chunks::{self, ChunkContent, Sizes},
        files::ManifestFile,
        tests::read_text_in,
    };

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":"\"},]"}}}"#;

    /// A list as kubectl prints it.
    fn kubectl(items: &[&str]) -> String {
        let items = items.join(",\n        ");
        let (before, tail) = ("\n    \"apiVersion\": \"v1\",", "\n    \"kind\": \"List\",\n    \"metadata\": {}\n");
        format!("{{{before}\n    \"items\": [\n        {items}\n    ],{tail}}}\n")
    }

    /// A list as an API server writes it.
    fn server(items: &[&str]) -> String {
        let items = items.join(",");
        format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{items}]}}"#)
            + "\n"
    }

    fn array(items: &[&str]) -> String {
        format!("[{}]", items.join("\n,"))
    }

    /// Returns the chunks of a text: the length of each, and whether it consists of items.
    fn chunks(text: &str, sizes: Sizes) -> Vec<(usize, bool)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let file = ManifestFile::named(file.path().to_owned());
        let length = |chunk: chunks::Chunk| match chunk.content.unwrap() {
            ChunkContent::Documents(text, _) => (text.len(), false),
            ChunkContent::Items(text, _) => (text.len(), true),
            ChunkContent::Broken(_) => (0, false),
        };
        chunks::of(&file, sizes).map(length).collect()
    }

    #[test]
    fn no_more_of_a_list_is_held_than_is_needed_to_recognize_it() {
        let items = vec![POD; 500];
        for text in [kubectl(&items), server(&items), array(&items), format!("{POD}\n{}", server(&items))] {
            let chunks = chunks(&text, Sizes { read: 64, list: 400, ..Sizes::default() });
            let longest = chunks.iter().map(|(length, _)| *length).max();
            assert!(longest < Some(600), "{longest:?} bytes: {text:.60}");
            assert!(chunks.iter().filter(|(_, is_items)| *is_items).count() > 100, "{chunks:?}: {text:.60}");
        }
        // A list recognized with certainty is split at once, and a small list is read as a whole.
        assert_eq!(chunks(&server(&items[..2]), Sizes { read: 64, list: 400, ..Sizes::default() }).len(), 1);
    }

    #[test]
    fn a_list_yields_the_same_objects_however_it_is_split() {
        let bare = r#"{"metadata":{"name":"b"}}"#;
        let nested = server(&[bare, "{}"]);
        let lists = [
            kubectl(&[POD, POD, r#"{"apiVersion":"v1"}"#, bare, "7", "null", nested.trim()]),
            server(&[bare, POD, "[]", nested.trim(), bare]),
            array(&[POD, bare, POD]),
            server(&[bare, bare]).replace(r#""items""#, r#""ite\u006ds""#),
            // Other objects with the field `items`.
            kubectl(&[POD, POD]).replacen("v1", "example.com/v1", 1).replace("List", "Menu"),
            server(&[POD, POD]).replace("PodList", "Menu").replace("resourceVersion", "name"),
            format!(r#"{{"apiVersion":"v1","items":[{bare},{bare}],"kind":"PodList"}}"#),
            format!(r#"{{"apiVersion":"v1","kind":"List","items":null,"x":"{}"}}"#, "x".repeat(50)),
            format!(r#"{{"apiVersion":"v1","kind":"List","kind":"List","items":[{POD}]}}"#),
            format!("[{{kind: Pod, apiVersion: v1, metadata: {{name: a}}}}, {POD}]"),
            format!(r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"object":{POD}}}}}"#),
        ];
        let around: [fn(&str) -> String; 5] = [
            str::to_owned,
            |list| format!("--- # one\n{list}\n---\n{POD}\n{POD}\n---\n{list}"),
            |list| format!("{POD} {list} {POD}\n{POD}\n {{:}}\n"),
            |list| format!("\u{feff}{list}kind: Pod\napiVersion: v1\nmetadata: {{name: y}}\n"),
            |list| format!("{list}{list}{{\n--- {list}").replace('\n', "\r\n"),
        ];
        for text in lists.iter().flat_map(|list| around.map(|around| around(list))) {
            let whole = read_text_in(Sizes::default(), &text);
            for read in [1, 2, 3, 5, 7, 16, 41, 100, 333, 1_000] {
                for list in [1, 90, 160, 400] {
                    assert_eq!(
                        read_text_in(Sizes { read, list, ..Sizes::default() }, &text),
                        whole,
                        "{read} {list}: {text}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_error_after_items_is_reported_once_and_nothing_is_read_twice() {
        const READ: &str = "its items before this position were read, the rest of this document was not";
        let list = kubectl(&[POD, POD, POD]);
        let (one, rest) = list.split_at(list.match_indices(POD).nth(1).unwrap().0);
        for (text, objects, want) in [
            (list.replacen("},\n", "}\n", 1), 1, format!("f:5:9 expected `,` or `]` after an item; {READ}")),
            (list.replace("\n    ],", ",\n    ],"), 3, format!("f:7:5 expected an item of a list; {READ}")),
            (one.to_owned(), 1, format!("f:5:9 the list is truncated; {READ}")),
            (format!("{one}{}", &rest[..30]), 1, format!("f:5:39 the list is truncated; {READ}")),
            (list.replace("List", "Menu"), 3, format!("f:10:2 kind Menu is not a list kind; {READ}")),
            (list.replace("\"kind\": \"List\",", ""), 3, format!("f:10:2 the kind of the list is missing; {READ}")),
            (
                list.replace("\"List\"", "7"),
                3,
                format!("f:10:2 not a list: kind is the number 7, not a string: put it in quotes; {READ}"),
            ),
            (list.replace(": \"List\"", " \"List\""), 3, format!("f:8:12 expected `:`; {READ}")),
            (list.replace("],\n", "] 7,\n"), 3, format!("f:7:7 expected `,` or `}}`; {READ}")),
            (list.replace("\"metadata\": {}", "\"items\": []"), 3, format!("f:10:1 duplicate key \"items\"; {READ}")),
            (format!("{one}{{\"kind\":}},{rest}"), 3, "f:5:17 expected value".to_owned()),
        ] {
            for read in [1, 3, 7] {
                let (seen, skipped) =
                    read_text_in(Sizes { read, list: 132, ..Sizes::default() }, &format!("{text}\n---\n{POD}"));
                let copies: Vec<_> =
                    seen.iter().filter_map(|object| object.split_once(' ')).map(|(_, name)| name).collect();
                let expected: Vec<_> = (0..=objects).map(|copy| format!("Pod a #{copy}")).collect();
                assert_eq!(
                    (copies, skipped),
                    (expected.iter().map(|name| &**name).collect(), vec![want.clone()]),
                    "{read}: {text}"
                );
            }
        }
    }

    /// Items: objects with and without their type, and lists of them.
    fn item() -> impl Strategy<Value = String> {
        let object = ("[a-c]", any::<bool>(), r#"[a\\"\[\]{},: ]{0,9}"#).prop_map(|(name, typed, text)| {
            let text = serde_json::Value::String(text);
            let head = if typed { r#""apiVersion":"v1","kind":"Pod","# } else { "" };
            format!(r#"{{{head} "metadata":{{"name":"{name}","annotations":{{"x":{text}}}}}}}"#)
        });
        object.prop_recursive(2, 8, 3, |item| {
            prop::collection::vec(item, 0..3)
                .prop_map(|items| server(&items.iter().map(|item| &**item).collect::<Vec<_>>()).trim().to_owned())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn any_list_yields_the_same_objects_however_it_is_split(
            items in prop::collection::vec(item(), 0..9), read in 1..300_usize, list in 1..500_usize, cut in 0..2_000_usize,
        ) {
            let items: Vec<_> = items.iter().map(|item| &**item).collect();
            for text in [kubectl(&items), server(&items), array(&items)] {
                let (seen, skipped) = read_text_in(Sizes::default(), &text);
                let sizes = Sizes { read, list, ..Sizes::default() };
                prop_assert_eq!(&read_text_in(sizes, &text), &(seen.clone(), skipped));
                // A truncated list yields its first objects and an error.
                let text = &text[..cut.min(text.trim_end().len() - 1)];
                let (some, skipped) = read_text_in(sizes, text);
                prop_assert!(seen.starts_with(&some), "{:?} of {:?}", some, seen);
                prop_assert!(!skipped.is_empty() || text.is_empty(), "{}", text);
            }
        }
    }
}
