//! An object as received from a server or a file, parsed in one pass over its bytes.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Range, sync::Arc};

use clap::ValueEnum;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use memchr::memmem;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    inactive::is_inactive,
    json::JsonKey,
    redaction::{redact, without_value},
};
use crate::model::{
    body::Body,
    object::{Controller, Kind, Object, ObjectKey},
};

/// How values of Secrets are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Secrets {
    // Values become empty strings, those of annotations too, and last-applied annotations go.
    /// Only key names remain
    Redact,
    /// Policies see the values
    Full,
}

fn quoted(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).unwrap_or_default()
}

/// A manager that wrote fields of an object through an API version: the part of a `managedFields` entry that is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FieldWriter {
    api_version: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    manager: Box<str>,
}

/// Returns the distinct writers in `managedFields`, sorted, so that neither a write at another time nor another order
/// changes the object. Invalid entries are ignored.
fn writers(managed_fields: &str) -> Vec<FieldWriter> {
    let mut writers = scanned_writers(managed_fields).unwrap_or_else(|| {
        let entries: Vec<&RawValue> = serde_json::from_str(managed_fields).unwrap_or_default();
        entries.iter().filter_map(|entry| serde_json::from_str(entry.get()).ok()).collect()
    });
    writers.sort_unstable();
    writers.dedup();
    writers
}

/// Scans for the writers if entries have the format of API servers, without parsing the fields, which are nearly all of
/// the text; `None` if they do not, and the JSON must be parsed.
fn scanned_writers(managed_fields: &str) -> Option<Vec<FieldWriter>> {
    const ENTRY: &str = r#"{"manager":""#;
    const VERSION: &str = r#""apiVersion":""#;
    let writer = |start: usize| {
        let (manager, rest) = managed_fields[start + ENTRY.len()..].split_once('"')?;
        let (_, rest) = rest.strip_prefix(r#","operation":""#)?.split_once('"')?;
        let (version, _) = rest.strip_prefix(',')?.strip_prefix(VERSION)?.split_once('"')?;
        let plain = !manager.contains('\\') && !version.contains('\\');
        plain.then(|| FieldWriter { api_version: version.into(), manager: manager.into() })
    };
    let bytes = managed_fields.as_bytes();
    let writers = memmem::find_iter(bytes, ENTRY).map(writer).collect::<Option<Vec<_>>>()?;
    // Every entry was found, and nothing that only looks like one.
    let begins = managed_fields.strip_prefix('[').is_some_and(|list| list.starts_with(ENTRY));
    (begins && memmem::find_iter(bytes, VERSION).count() == writers.len()).then_some(writers)
}

/// An object as received from a server or a file: the metadata that an informer needs, and the JSON, parsed in one pass
/// over the bytes.
///
/// Of `managedFields`, a third of what a server sends, only the writers that used another API version than the one in
/// which the object is read are kept. Few objects have any, and policies about deprecated versions need no others.
///
/// Parsing never fails: one invalid object must fail neither its page of a list nor the watch. The problem is stored
/// and returned by [`Received::into_object`].
#[derive(Debug, Clone)]
pub struct Received {
    meta: ReceivedMetadata,
    /// `apiVersion` as sent; items of a list have none.
    pub api_version: Option<String>,
    /// `kind` as sent; items of a list have none.
    pub kind: Option<String>,
    /// All other fields as `,"key":value`, so that apiVersion and kind can be written before them.
    fields: Vec<u8>,
    /// Where the metadata ends in `fields`, before the brace.
    metadata_end: usize,
    /// Where the value of `metadata.namespace` is in `fields`; empty if the field is missing.
    namespace: Range<usize>,
    /// Where the values of `spec` and `status` are in `fields`.
    spec: Range<usize>,
    status: Range<usize>,
    writers: Vec<FieldWriter>,
    controller: Option<Arc<Controller>>,
    problem: Option<String>,
}

#[derive(Debug, Clone, Default)]
struct ReceivedMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generate_name: Option<String>,
}

impl Received {
    /// Reads one JSON object.
    pub fn read(json: &str) -> Self {
        match serde_json::from_str::<ObjectFields<'_>>(json) {
            Ok(fields) => fields.into(),
            Err(error) => Self { problem: Some(not_an_object(json, &error)), ..Self::empty() },
        }
    }

    fn empty() -> Self {
        Self {
            meta: ReceivedMetadata::default(),
            api_version: None,
            kind: None,
            fields: Vec::new(),
            metadata_end: 0,
            namespace: 0..0,
            spec: 0..0,
            status: 0..0,
            writers: Vec::new(),
            controller: None,
            problem: None,
        }
    }

    /// Converts it into an object of `kind`; `copy` as in [`ObjectKey`].
    ///
    /// # Errors
    /// When the JSON is not a valid object, with the reason; [`Self::name`] returns the name if it was readable.
    pub fn into_object(mut self, kind: &Arc<Kind>, secrets: Secrets, copy: u32) -> Result<Object, String> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let api_version = kind.api_version();
        let part = |range: &Range<usize>| self.fields.get(range.clone()).unwrap_or_default();
        let inactive = is_inactive(kind, self.controller.as_deref(), part(&self.spec), part(&self.status));
        self.keep_writers(&api_version);
        let ReceivedMetadata { name, namespace, uid, resource_version, generate_name } = self.meta;
        let name = name.filter(|name| !name.is_empty()).or(generate_name).ok_or("metadata.name is missing")?;
        let mut json = Vec::with_capacity(self.fields.len() + 64);
        json.extend_from_slice(b"{\"apiVersion\":");
        json.extend_from_slice(&quoted(&api_version));
        json.extend_from_slice(b",\"kind\":");
        json.extend_from_slice(&quoted(&kind.kind));
        json.extend_from_slice(&self.fields);
        json.push(b'}');
        if secrets == Secrets::Redact {
            json = redact(kind, json)?;
        }
        Ok(Object {
            key: ObjectKey { kind: kind.clone(), namespace: namespace.map(Into::into), name: name.into(), copy },
            uid: uid.unwrap_or_default().into(),
            resource_version: resource_version.unwrap_or_default().into(),
            body: Body::plain(&json),
            location: None,
            controller: self.controller,
            inactive,
            projected: None,
        })
    }

    /// Adds the writers that used another version than `api_version` to the metadata.
    fn keep_writers(&mut self, api_version: &str) {
        self.writers.retain(|writer| &*writer.api_version != api_version);
        if self.writers.is_empty() || self.metadata_end == 0 {
            return;
        }
        let kept = serde_json::to_string(&self.writers).unwrap_or_default();
        let field = format!(",\"managedFields\":{kept}");
        self.fields.splice(self.metadata_end..self.metadata_end, field.into_bytes());
    }

    /// Puts an object that names no namespace, or an empty one, into this namespace.
    pub(crate) fn place(&mut self, namespace: &str) {
        // Without a name it is not a valid object, which is reported later.
        if self.metadata_end == 0 {
            return;
        }
        self.meta.namespace = Some(namespace.to_owned());
        let mut text = quoted(namespace);
        let mut range = self.namespace.clone();
        if range.is_empty() {
            text.splice(0..0, *b",\"namespace\":");
            range = self.metadata_end..self.metadata_end;
        }
        let moved = |at: usize| at - range.len() + text.len();
        for later in [&mut self.spec, &mut self.status].into_iter().filter(|later| later.start > range.start) {
            *later = moved(later.start)..moved(later.end);
        }
        self.metadata_end = moved(self.metadata_end);
        self.fields.splice(range, text);
    }

    /// Returns `namespace/name`, as far as they could be read.
    pub fn name(&self) -> String {
        let name = self.meta.name.as_deref().unwrap_or("(no name)");
        self.meta.namespace.as_ref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
    }

    /// Returns the key of an object of `kind` in a cluster; `None` if its name cannot be read.
    pub fn key(&self, kind: &Arc<Kind>) -> Option<ObjectKey> {
        let name = self.meta.name.as_deref()?.into();
        let namespace = self.meta.namespace.as_deref().map(Into::into);
        Some(ObjectKey { kind: Arc::clone(kind), namespace, name, copy: 0 })
    }

    /// Returns why the JSON is not a valid object, if it is not.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns `metadata.namespace`.
    pub fn namespace(&self) -> Option<&str> {
        self.meta.namespace.as_deref()
    }

    /// Returns `metadata.resourceVersion`.
    pub fn resource_version(&self) -> Option<&str> {
        self.meta.resource_version.as_deref()
    }

    fn take_apart(&mut self, all: Vec<(Cow<'_, str>, ObjectField<'_>)>) -> Result<(), String> {
        // No space is reserved for fields that are left out.
        self.fields.reserve_exact(all.iter().map(|(key, field)| key.len() + field.bytes()).sum());
        for (key, field) in all {
            let value = match field {
                ObjectField::Metadata(JsonFields(metadata)) => {
                    self.take_metadata(&metadata)?;
                    continue;
                }
                ObjectField::Other(value) => value,
            };
            match &*key {
                "apiVersion" => self.api_version = text("apiVersion", value)?,
                "kind" => self.kind = text("kind", value)?,
                _ => write_field(&mut self.fields, b',', &key, value),
            }
            let end = self.fields.len();
            match &*key {
                "spec" => self.spec = end - value.get().len()..end,
                "status" => self.status = end - value.get().len()..end,
                _ => {}
            }
        }
        Ok(())
    }

    fn take_metadata(&mut self, metadata: &[(Cow<'_, str>, &RawValue)]) -> Result<(), String> {
        self.fields.extend_from_slice(b",\"metadata\":");
        let mut before = b'{';
        for (key, value) in metadata {
            match &**key {
                "managedFields" => {
                    self.writers = writers(value.get());
                    continue;
                }
                "name" => self.meta.name = text("metadata.name", value)?,
                "namespace" => self.meta.namespace = text("metadata.namespace", value)?,
                "uid" => self.meta.uid = text("metadata.uid", value)?,
                "resourceVersion" => self.meta.resource_version = text("metadata.resourceVersion", value)?,
                "generateName" => self.meta.generate_name = text("metadata.generateName", value)?,
                "ownerReferences" => self.controller = controller(value),
                _ => {}
            }
            write_field(&mut self.fields, before, key, value);
            before = b',';
            if key == "namespace" {
                let end = self.fields.len();
                self.namespace = end - value.get().len()..end;
            }
        }
        if before == b'{' {
            self.fields.push(before);
        } else {
            self.metadata_end = self.fields.len();
        }
        self.fields.push(b'}');
        Ok(())
    }
}

/// Returns the owner that is the controller; `None` if the value is not a list of owners.
fn controller(owner_references: &RawValue) -> Option<Arc<Controller>> {
    let owners: Vec<OwnerReference> = serde_json::from_str(owner_references.get()).ok()?;
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true) && !owner.uid.is_empty())?;
    let OwnerReference { api_version, kind, name, uid, .. } = owner;
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group).into();
    Some(Arc::new(Controller { group, kind: kind.into(), name: name.into(), uid: uid.into() }))
}

/// Reads a field that contains a string or null.
fn text(field: &str, value: &RawValue) -> Result<Option<String>, String> {
    serde_json::from_str(value.get()).map_err(|_| format!("{field} is {}, not a string{}", shown(value), quotes(value)))
}

/// Describes a value of a wrong type; only numbers and booleans are shown.
fn shown(value: &RawValue) -> String {
    match value.get() {
        json if json.starts_with('{') => "an object".to_owned(),
        json if json.starts_with('[') => "a list".to_owned(),
        json if json.starts_with('"') => "a string".to_owned(),
        json @ ("true" | "false") => format!("the boolean {json}"),
        "null" => "null".to_owned(),
        json => format!("the number {json}"),
    }
}

/// Returns the fix for a value that YAML reads as a number or a boolean.
fn quotes(value: &RawValue) -> &'static str {
    let is_scalar = !value.get().starts_with(['{', '[', '"']);
    if is_scalar { ": put it in quotes" } else { "" }
}

/// Describes why JSON is not a valid object. Finding the field takes another pass, which is needed only for invalid
/// ones.
fn not_an_object(json: &str, error: &serde_json::Error) -> String {
    let metadata = fields(json).ok().and_then(|all| all.into_iter().find(|(key, _)| key == "metadata"));
    if let Some((_, value)) = metadata.filter(|(_, value)| !value.get().starts_with('{')) {
        return format!("metadata is {}, not an object", shown(value));
    }
    if json.starts_with('"') {
        return "it is a string".to_owned();
    }
    // The position refers to the JSON of this object, which does not occur in the file in this form.
    let why = without_value(error);
    why.rsplit_once(" at line ").map_or(&*why, |(why, _)| why).to_owned()
}

fn write_field(out: &mut Vec<u8>, before: u8, key: &str, value: &RawValue) {
    out.push(before);
    out.extend_from_slice(&quoted(key));
    out.push(b':');
    out.extend_from_slice(value.get().as_bytes());
}

/// Returns the fields of a JSON object in order, with unparsed values.
pub(crate) fn fields(json: &str) -> serde_json::Result<Vec<(Cow<'_, str>, &RawValue)>> {
    serde_json::from_str::<JsonFields<'_, _>>(json).map(|fields| fields.0)
}

/// The fields of a JSON object in order.
struct JsonFields<'a, V>(Vec<(Cow<'a, str>, V)>);

/// The value of a field.
trait FieldValue<'de>: Sized {
    fn read<A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Self, A::Error>;
}

impl<'de> FieldValue<'de> for &'de RawValue {
    fn read<A: MapAccess<'de>>(_: &str, map: &mut A) -> Result<Self, A::Error> {
        map.next_value()
    }
}

/// A field of a Kubernetes object. The metadata is parsed in the same pass: with `managedFields` it is half of the
/// bytes.
enum ObjectField<'a> {
    Metadata(JsonFields<'a, &'a RawValue>),
    Other(&'a RawValue),
}

impl ObjectField<'_> {
    /// Returns how many bytes of it are kept, including punctuation.
    fn bytes(&self) -> usize {
        const PUNCTUATION: usize = 4;
        let value = match self {
            Self::Metadata(JsonFields(metadata)) => {
                let kept = metadata.iter().filter(|(key, _)| key != "managedFields");
                kept.map(|(key, value)| key.len() + value.get().len() + PUNCTUATION).sum::<usize>() + 1
            }
            Self::Other(value) => value.get().len(),
        };
        value + PUNCTUATION
    }
}

/// The unparsed fields of an object, for code that parses the surrounding JSON; converts into a [`Received`].
pub(crate) struct ObjectFields<'a>(JsonFields<'a, ObjectField<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for ObjectFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        JsonFields::deserialize(deserializer).map(Self)
    }
}

impl From<ObjectFields<'_>> for Received {
    fn from(ObjectFields(JsonFields(fields)): ObjectFields<'_>) -> Self {
        let mut received = Self::empty();
        received.problem = received.take_apart(fields).err();
        received
    }
}

impl<'de> FieldValue<'de> for ObjectField<'de> {
    fn read<A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Self, A::Error> {
        if key == "metadata" { map.next_value().map(Self::Metadata) } else { map.next_value().map(Self::Other) }
    }
}

impl<'de: 'a, 'a, V: FieldValue<'de>> Deserialize<'de> for JsonFields<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor<V>(PhantomData<V>);
        impl<'de, V: FieldValue<'de>> Visitor<'de> for FieldsVisitor<V> {
            type Value = JsonFields<'de, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some(JsonKey(key)) = map.next_key::<JsonKey<'de>>()? {
                    let value = V::read(&key, &mut map)?;
                    if fields.iter().any(|(known, _)| *known == key) {
                        return Err(A::Error::custom(format!("duplicate key {key:?}")));
                    }
                    fields.push((key, value));
                }
                Ok(JsonFields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Arc<Kind> {
        Kind::sample("", "secrets", "Secret")
    }

    #[test]
    fn errors_do_not_show_values() {
        for (json, want) in [
            (r#""s3cret, expected x""#, "invalid type: string, expected an object at line 1 column 20"),
            ("12345", "invalid type: integer, expected an object at line 1 column 5"),
            ("[1]", "invalid type: sequence, expected an object at line 1 column 0"),
            (r#"{"a": 1, "a": 2}"#, "duplicate key \"a\" at line 1 column 16"),
        ] {
            assert_eq!(without_value(&fields(json).unwrap_err()), want);
        }
    }

    fn json(object: &Object) -> serde_json::Value {
        serde_json::from_slice(&object.body.json().unwrap()).unwrap()
    }

    #[test]
    fn cuts_managed_fields_and_adds_the_type() {
        let received = Received::read(
            r#"{"metadata":{"managedFields":[{"a":1}],"name":"a","namespace":"n","uid":"u","resourceVersion":"7"},"x":1.50}"#,
        );
        let object = received.into_object(&secret(), Secrets::Full, 0).unwrap();
        assert_eq!(
            &*object.body.json().unwrap(),
            br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"},"x":1.50}"#
        );
        assert_eq!((&*object.uid, object.resource_version), ("u", "7".into()));
        assert_eq!(object.key.to_string(), "Secret n/a");
    }

    #[test]
    fn an_object_without_a_namespace_is_placed() {
        let kind = Kind::sample("batch", "jobs", "Job");
        let finished = r#""status":{"conditions":[{"type":"Complete","status":"True"}]}"#;
        for namespace in ["", r#","namespace":null"#, r#","namespace":"""#] {
            for (before, after) in [(String::new(), format!(",{finished}")), (format!("{finished},"), String::new())] {
                let metadata = format!(r#""metadata":{{"name":"a"{namespace},"labels":{{}}}}"#);
                let mut received = Received::read(&format!("{{{before}{metadata}{after}}}"));
                assert!(received.namespace().is_none_or(str::is_empty));
                received.place("shop");
                let object = received.into_object(&kind, Secrets::Full, 0).unwrap();
                assert_eq!(object.key.to_string(), "Job shop/a");
                assert!(object.inactive, "its status is found after the change: {before}{namespace}{after}");
                let text = String::from_utf8(object.body.json().unwrap().to_vec()).unwrap();
                assert_eq!(text.matches(r#""namespace":"shop""#).count(), 1, "{text}");
                assert_eq!(text.matches("namespace").count(), 1, "{text}");
                assert_eq!(json(&object)["metadata"]["labels"], serde_json::json!({}));
            }
        }
        let mut nameless = Received::read(r#"{"metadata":{}}"#);
        nameless.place("shop");
        assert!(nameless.into_object(&kind, Secrets::Full, 0).is_err());
    }

    #[test]
    fn writers_of_other_versions_are_kept_once() {
        let budget = Kind::sample("policy", "poddisruptionbudgets", "PodDisruptionBudget");
        let metadata = |managed: &str| {
            let text = format!(r#"{{"metadata":{{"managedFields":{managed},"name":"a"}},"spec":{{}}}}"#);
            json(&Received::read(&text).into_object(&budget, Secrets::Full, 0).unwrap())["metadata"].clone()
        };
        let entry = |manager: &str, version: &str, time: &str| {
            format!(
                r#"{{"manager":"{manager}","operation":"Update","apiVersion":"{version}","time":"{time}","fieldsType":
                "FieldsV1","fieldsV1":{{"f:spec":{{"k:{{\"apiVersion\":\"x\"}}":{{}}}}}}}}"#
            )
        };
        let list = |entries: &[String]| format!("[{}]", entries.join(","));
        let old = [entry("helm", "policy/v1beta1", "1"), entry("kubectl", "policy/v1", "2")];
        let want =
            serde_json::json!({"name": "a", "managedFields": [{"apiVersion": "policy/v1beta1", "manager": "helm"}]});
        assert_eq!(metadata(&list(&old)), want);
        // Neither times nor the order nor another entry of the same writer change the object.
        let later = [
            entry("kubectl", "policy/v1", "9"),
            entry("helm", "policy/v1beta1", "3"),
            entry("helm", "policy/v1beta1", "4"),
        ];
        assert_eq!(metadata(&list(&later)), want);
        // An invalid entry affects no other.
        assert_eq!(
            metadata(&list(&[r#"{"manager":7,"apiVersion":"v1"}"#.to_owned(), "null".to_owned(), old[0].clone()])),
            want
        );
        let nameless = serde_json::json!({"name": "a", "managedFields": [{"apiVersion": "policy/v1beta1"}]});
        assert_eq!(metadata(r#"[{"apiVersion":"policy/v1beta1"}]"#), nameless);
        for none in ["[]", "null", "7", r#"[{"manager":7}]"#, "[{}]", &list(&old[1..])] {
            assert_eq!(metadata(none), serde_json::json!({"name": "a"}), "{none}");
        }
    }

    #[test]
    fn writers_are_scanned_only_where_that_equals_parsing() {
        let entry = |manager: &str, version: &str, fields: &str| {
            format!(
                r#"{{"manager":"{manager}","operation":"Update","apiVersion":"{version}","fieldsType":"FieldsV1","fieldsV1":{fields}}}"#
            )
        };
        let fields = r#"{"f:metadata":{"f:labels":{".":{},"f:apiVersion":{}}},"k:{\"apiVersion\":\"v1\"}":{}}"#;
        let (one, two) = (entry("a", "v1", fields), entry("b", "v2", "{}"));
        let read = |text: &str| -> Vec<FieldWriter> {
            let entries: Vec<&RawValue> = serde_json::from_str(text).unwrap();
            entries.iter().filter_map(|entry| serde_json::from_str(entry.get()).ok()).collect()
        };
        let served = format!("[{one},{two}]");
        assert_eq!(scanned_writers(&served), Some(read(&served)));
        assert_eq!(read(&served).len(), 2);
        for odd in [
            served.replace("{\"manager", "{ \"manager"),
            served.replace("\"manager\":\"b\",", ""),
            format!("[{one},{{\"apiVersion\":\"v2\",\"manager\":\"b\"}}]"),
            format!("[{}]", entry("a\\n", "v1", "{}")),
            format!("[{}]", entry("a", "v1", r#"{"manager":"c"}"#)),
            format!("[{}]", entry("a", "v1", r#"{"apiVersion":"v3"}"#)),
            format!("[null,{one}]"),
            format!("{{\"x\":{one}}}"),
            String::from("[]"),
        ] {
            assert_eq!(scanned_writers(&odd), None, "{odd}");
        }
    }

    #[test]
    fn a_field_of_a_wrong_type_is_reported() {
        for (json, want) in [
            (r#"{"metadata":{"name":true}}"#, "metadata.name is the boolean true, not a string: put it in quotes"),
            (r#"{"metadata":{"name":"a","namespace":[1]}}"#, "metadata.namespace is a list, not a string"),
            (r#"{"metadata":{"name":"a","uid":5}}"#, "metadata.uid is the number 5, not a string: put it in quotes"),
            (r#"{"metadata":{"generateName":{}}}"#, "metadata.generateName is an object, not a string"),
            (
                r#"{"metadata":{"name":"a","resourceVersion":-1.5}}"#,
                "metadata.resourceVersion is the number -1.5, not a string: put it in quotes",
            ),
            (r#"{"kind":[],"metadata":{"name":"a"}}"#, "kind is a list, not a string"),
            (r#"{"apiVersion":1}"#, "apiVersion is the number 1, not a string: put it in quotes"),
            (r#"{"metadata":"s3cret"}"#, "metadata is a string, not an object"),
            (r#""s3cret""#, "it is a string"),
            (r#"{"metadata":{"name":"a","name":"b"}}"#, "duplicate key \"name\""),
        ] {
            assert_eq!(Received::read(json).problem(), Some(want));
        }
    }

    #[test]
    fn invalid_objects_are_reported_and_never_fail_a_list() {
        let odd = [
            r#"{"metadata":{"name":"ok"}}"#,
            r#"{"metadata":{"name":7}}"#,
            "3",
            r#"{"metadata":{"name":"x"},"a":1,"a":2}"#,
            r#"{"metadata":[1]}"#,
            r#"{"metadata":{"name":"x","name":"y"}}"#,
        ];
        let made = odd.map(|one| Received::read(one).into_object(&secret(), Secrets::Full, 0));
        assert!(made[0].is_ok());
        assert_eq!(made[1].as_ref().unwrap_err(), "metadata.name is the number 7, not a string: put it in quotes");
        assert!(made[2].as_ref().unwrap_err().contains("expected an object"), "{:?}", made[2]);
        assert!(made[3].as_ref().unwrap_err().contains("duplicate key"), "{:?}", made[3]);
        assert_eq!(made[4].as_ref().unwrap_err(), "metadata is a list, not an object");
        assert!(made[5].as_ref().unwrap_err().contains("duplicate key"), "{:?}", made[5]);
    }
}
