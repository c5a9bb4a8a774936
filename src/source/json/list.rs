//! The body of a list of the Kubernetes API, item by item.

use std::{mem, ops::Range};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::de::DeserializeOwned;

use super::value::ValueEnd;

/// Why a body is not a list.
#[derive(Debug, thiserror::Error)]
#[error("the response is not a list: {0}")]
pub(crate) struct Malformed(String);

/// Splits a list into items as it arrives; holds no more of it than the item that is not complete yet.
///
/// Items and metadata are validated by the code that parses them. The separators are not validated: they come from a
/// server.
#[derive(Debug, Default)]
pub(crate) struct ListReader {
    /// Received text; the first `read` bytes are consumed.
    text: Vec<u8>,
    read: usize,
    /// Where the search for the end of the next value continues.
    searched: usize,
    end: ValueEnd,
    next: ExpectedToken,
    metadata: Option<ListMeta>,
    /// Whether it has the field `items`, even if that is empty.
    has_items: bool,
    kind: Option<String>,
}

/// What is expected next.
#[derive(Debug, Default, PartialEq, Eq)]
enum ExpectedToken {
    /// The whole list.
    #[default]
    List,
    /// A field or the end of the list.
    Key,
    /// The value of a field.
    Value(String),
    /// An item or the end of the items.
    Item,
    Nothing,
}

impl ListReader {
    /// Adds received bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.text.drain(..self.read);
        self.searched -= mem::take(&mut self.read);
        self.text.extend_from_slice(bytes);
    }

    /// Returns the JSON of the next item; `None` until more has arrived, and at the end.
    ///
    /// # Errors
    /// When it is not a list of the Kubernetes API.
    pub(crate) fn next(&mut self) -> Result<Option<&str>, Malformed> {
        while let Some(byte) = self.peek() {
            match (&mut self.next, byte) {
                (ExpectedToken::List, b'{') | (ExpectedToken::Item, b']') => self.pass(ExpectedToken::Key),
                (ExpectedToken::Key, b'}') => {
                    self.check()?;
                    self.pass(ExpectedToken::Nothing);
                }
                (ExpectedToken::Value(key), b'[') if key == "items" => {
                    self.has_items = true;
                    self.pass(ExpectedToken::Item);
                }
                (ExpectedToken::Key, b'"') => {
                    let Some(key) = self.value() else { break };
                    self.next = ExpectedToken::Value(self.json(key)?);
                }
                (ExpectedToken::Value(key), _) => {
                    let key = key.clone();
                    let Some(value) = self.value() else { break };
                    match key.as_str() {
                        "metadata" => self.metadata = Some(self.json(value)?),
                        "kind" => self.kind = Some(self.json(value)?),
                        "items" => self.has_items = true,
                        _ => {}
                    }
                    self.next = ExpectedToken::Key;
                }
                (ExpectedToken::Item, _) => {
                    let Some(item) = self.value() else { break };
                    return std::str::from_utf8(&self.text[item]).map(Some).map_err(|error| malformed(&error));
                }
                (ExpectedToken::List | ExpectedToken::Key | ExpectedToken::Nothing, _) => {
                    return Err(Malformed(format!("unexpected {:?}", char::from(byte))));
                }
            }
        }
        Ok(None)
    }

    /// Checks that the document is a list: a `Status` may come with code 200, too. A CRD may give its list kind any
    /// name.
    fn check(&self) -> Result<(), Malformed> {
        match self.kind.as_deref() {
            Some("Status") => Err(Malformed("its kind is Status".to_owned())),
            Some(kind) if !self.has_items && !kind.ends_with("List") => {
                Err(Malformed(format!("its kind is {kind}, and it has no items")))
            }
            None if !self.has_items => Err(Malformed("it has neither kind nor items".to_owned())),
            _ => Ok(()),
        }
    }

    /// Returns the list's metadata once it has arrived: before the items, or after them for custom resources.
    pub(crate) fn metadata(&self) -> Option<&ListMeta> {
        self.metadata.as_ref()
    }

    /// Whether the whole list was read.
    pub(crate) fn is_complete(&self) -> bool {
        self.next == ExpectedToken::Nothing
    }

    /// Skips separators and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let separates = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':');
        if self.searched == self.read {
            self.read += self.text[self.read..].iter().take_while(separates).count();
            self.searched = self.read;
        }
        self.text.get(self.read).copied()
    }

    /// Consumes one byte.
    fn pass(&mut self, next: ExpectedToken) {
        self.read += 1;
        self.searched = self.read;
        self.next = next;
    }

    /// Returns the range of the next value, if all of it has arrived.
    fn value(&mut self) -> Option<Range<usize>> {
        let Some(end) = self.end.find(&self.text[self.searched..]) else {
            self.searched = self.text.len();
            return None;
        };
        let value = self.read..self.searched + end;
        self.end = ValueEnd::default();
        (self.read, self.searched) = (value.end, value.end);
        Some(value)
    }

    fn json<T: DeserializeOwned>(&self, value: Range<usize>) -> Result<T, Malformed> {
        serde_json::from_slice(&self.text[value]).map_err(|error| malformed(&error))
    }
}

fn malformed(error: &dyn std::error::Error) -> Malformed {
    Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the items and metadata of a list that arrives in pieces of `size` bytes, and how many bytes were held at
    /// most.
    fn read(list: &str, size: usize) -> Result<(Vec<String>, Option<ListMeta>, usize), String> {
        let mut reader = ListReader::default();
        let (mut items, mut held) = (Vec::new(), 0);
        for piece in list.as_bytes().chunks(size) {
            reader.push(piece);
            held = held.max(reader.text.len());
            while let Some(item) = reader.next().map_err(|error| error.to_string())? {
                items.push(item.to_owned());
            }
        }
        if !reader.is_complete() {
            return Err("incomplete".to_owned());
        }
        Ok((items, reader.metadata, held))
    }

    #[test]
    fn items_are_read_one_by_one_however_the_list_is_split_and_ordered() {
        let items = [r#"{"a":"},{","b":[1,{}]}"#, "{}", r#"{"ä":"\"]"}"#, "7"];
        let metadata = r#""metadata":{"resourceVersion":"12","continue":"x","remainingItemCount":3}"#;
        let lists = [
            format!(r#"{{"kind":"PodList","apiVersion":"v1",{metadata},"items":[{}]}}"#, items.join(",")),
            format!("{{ \"items\": [\n{}\n ],\n {metadata}, \"x\": null }}\n", items.join(" ,\n")),
        ];
        for (list, size) in lists.iter().flat_map(|list| (1..=list.len()).map(move |size| (list, size))) {
            let (read, metadata, held) = read(list, size).unwrap();
            assert_eq!(read, items, "{list} in pieces of {size}");
            let metadata = metadata.unwrap();
            assert_eq!(metadata.resource_version.as_deref(), Some("12"));
            assert_eq!((metadata.continue_.as_deref(), metadata.remaining_item_count), (Some("x"), Some(3)));
            assert!(held < size + 80, "{held} bytes were held in pieces of {size}");
        }
    }

    #[test]
    fn an_empty_list_may_be_null_and_other_documents_are_refused() {
        let lists = [
            r#"{"items":null}"#,
            r#"{"items":[]}"#,
            r#"{"metadata":{},"items":[]}"#,
            r#"{"kind":"PodList"}"#,
            r#"{"kind":"Herd","items":null}"#,
            r#"{"items":[],"kind":"Herd"}"#,
        ];
        for list in lists {
            assert_eq!(read(list, 3).unwrap().0, Vec::<String>::new(), "{list}");
        }
        for list in ["[]", "<html>", "{}{}", r#"{"items":[],"metadata":7}"#, "{7:1}", r#"{"items":[{}"#, ""] {
            assert!(read(list, 3).is_err(), "{list}");
        }
        let others = [
            "{}",
            r#"{"metadata":{"resourceVersion":"7"}}"#,
            r#"{"kind":"Status","metadata":{"resourceVersion":"7"}}"#,
            r#"{"items":[],"kind":"Status"}"#,
            r#"{"kind":"Pod","metadata":{}}"#,
            r#"{"kind":7,"items":[]}"#,
        ];
        for list in others {
            assert!(read(list, 3).is_err(), "{list}");
        }
    }
}
