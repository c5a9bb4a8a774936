//! Sets fields of objects in the text of a manifest, and preserves its comments and layout.

use std::{cmp::Reverse, collections::BTreeMap, ops::Range, sync::Arc};

use serde::de::IgnoredAny;
use serde_json::Value;

use super::{
    field_lines::{FieldLines, ObjectPlace},
    patch::{ResultFix, ValueChange, at},
    text_edits::{DocumentText, Edit, edit, parse},
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

/// A document of a file, before and after a fix.
#[derive(Debug)]
pub struct FixedDocument {
    /// Its first line in the file, from 1.
    pub line: usize,
    /// Its text before the fix.
    pub old: String,
    /// Its text after the fix.
    pub new: String,
}

impl ManifestText {
    /// Parses the text of a file.
    pub fn new(text: &str) -> Self {
        let (mark, text) = text.strip_prefix(MARK).map_or(("", text), |text| (MARK, text));
        Self { mark, text: text.to_owned(), lines: FieldLines::parse(text.as_bytes()) }
    }

    /// Returns the text with the fixes of objects, each identified by its first line, and how many fixes were applied.
    /// A fix is applied completely or not at all. It is not applied if the text is not plain YAML, if it does not apply to
    /// the object, or if another fix sets the same field to another value or moves the item of a list that it changes.
    pub fn fixed(&self, mut objects: BTreeMap<usize, FixedObject>) -> (String, usize) {
        let (mut new, mut applied) = (self.text.clone(), 0);
        // From the end, so that earlier lines keep their numbers.
        while let Some((line, object)) = objects.pop_last() {
            let place = self.lines.as_ref().and_then(|lines| lines.object(line));
            if let Some((range, document, fixes)) = place.and_then(|place| fix_in(&new, &place, &object)) {
                new.replace_range(range, &document);
                applied += fixes;
            }
        }
        (format!("{}{new}", self.mark), applied)
    }

    /// Returns the document of an object, before and after its fixes; `None` if none can be applied, or they change
    /// nothing.
    pub fn fixed_document(&self, line: usize, object: &FixedObject) -> Option<FixedDocument> {
        let place = self.lines.as_ref()?.object(line)?;
        let (range, new, applied) = fix_in(&self.text, &place, object)?;
        let mark = if range.start == 0 { self.mark } else { "" };
        let old = &self.text[range];
        (applied > 0 && new != old).then(|| FixedDocument {
            line: place.line,
            old: format!("{mark}{old}"),
            new: format!("{mark}{new}"),
        })
    }
}

/// Applies the fixes of one object to its document. Returns the range of the document in the text, its new text, and
/// how many fixes were applied.
fn fix_in(text: &str, place: &ObjectPlace, object: &FixedObject) -> Option<(Range<usize>, String, usize)> {
    let begin = offset(text, place.line);
    // The document may be longer than it was: objects of one List are fixed one after the other.
    let range = begin..begin + document_length(&text[begin..]);
    let mut document = EditedDocument::new(&text[range.clone()])?;
    if !document.holds(&place.keys, &object.object) {
        return None;
    }
    let applied = document.apply_all(&place.keys, &object.fixes);
    let mut fixed = document.text;
    // A block scalar ends with its line break, which must remain before the next document.
    if text[range.clone()].ends_with('\n') && !fixed.ends_with('\n') {
        fixed.push('\n');
    }
    Some((range, fixed, applied))
}

/// Returns the offset of a line, which is counted from 1.
fn offset(text: &str, line: usize) -> usize {
    let Some(breaks) = line.checked_sub(2) else { return 0 };
    text.match_indices('\n').nth(breaks).map_or(text.len(), |(at, _)| at + 1)
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
    /// The changes of the object made before, and whether they shift items of a list.
    made: Vec<(ValueChange, bool)>,
}

impl EditedDocument {
    fn new(text: &str) -> Option<Self> {
        Some(Self { text: text.to_owned(), is_json: is_json(text), value: parse(text)?, made: Vec::new() })
    }

    /// Whether the document contains this object at this position: the location of a rendered object is its template.
    fn holds(&self, place: &[String], object: &ObjectRef) -> bool {
        let found = at(&self.value, place);
        // Items of a PodList need not have a kind.
        let is_kind = |kind: &Value| kind == &*object.kind || kind.is_null() && !place.is_empty();
        // Objects with generateName have no name.
        let is_named = |name: &Value| name.is_null() || name == &*object.name;
        found.is_some_and(|found| is_kind(&found["kind"]) && is_named(&found["metadata"]["name"]))
    }

    /// Applies fixes of the object at a place; returns how many were applied.
    fn apply_all(&mut self, place: &[String], fixes: &[ResultFix]) -> usize {
        let Some(object) = at(&self.value, place).cloned() else { return 0 };
        // All fixes are for the object as it was evaluated.
        let mut fixes: Vec<Vec<ValueChange>> = fixes.iter().filter_map(|fix| fix.changes(&object)).collect();
        // Changes of the number of items come last and from the end, so that earlier items keep their indexes.
        fixes.sort_by_cached_key(|changes| {
            let shift = changes.iter().find(|change| change.shifts_items(&object));
            shift.map(|change| Reverse(change.order()))
        });
        fixes.retain(|changes| self.apply(place, changes));
        fixes.len()
    }

    /// Makes the changes of one fix; returns whether all of them are made. Otherwise nothing changes.
    fn apply(&mut self, place: &[String], changes: &[ValueChange]) -> bool {
        let (text, value, earlier) = (self.text.clone(), self.value.clone(), self.made.clone());
        let is_done = |change: &ValueChange| earlier.iter().any(|(known, _)| known == change);
        let undoes = |change: &ValueChange, (known, shifts): &(ValueChange, bool)| {
            known.path.starts_with(&change.path) || *shifts && known.moves(change)
        };
        let is_made = changes.iter().all(|change| {
            is_done(change) || !earlier.iter().any(|known| undoes(change, known)) && self.make(place, change)
        });
        if !is_made {
            (self.text, self.value, self.made) = (text, value, earlier);
        }
        is_made
    }

    /// Makes one change; returns whether the text has it.
    fn make(&mut self, place: &[String], ValueChange { path, change }: &ValueChange) -> bool {
        let own = ValueChange { path: place.iter().chain(path).cloned().collect(), change: change.clone() };
        let Some(wanted) = own.applied_to(&self.value) else { return false };
        let shifts = own.shifts_items(&self.value);
        if wanted != self.value {
            // The edited text is parsed again, so that an unusual layout cannot change anything else.
            let edited = self.edited(&own).filter(|text| parse(text).as_ref() == Some(&wanted));
            let Some(text) = edited else { return false };
            (self.text, self.value) = (text, wanted);
        }
        self.made.push((ValueChange { path: path.clone(), change: change.clone() }, shifts));
        true
    }

    fn edited(&self, ValueChange { path, change }: &ValueChange) -> Option<String> {
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
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::source::manifest::patch::ObjectPatch;

    const TEXT: &str = "\
# The shop.
apiVersion: v1
kind: Pod
metadata: {name: shop}  # kept
spec:
  hostPID: true
  # Only one.
  containers:
    - name: a   # the first
      image: a:1
      securityContext:
        privileged: true # why?
    - {name: b, image: 'b:2'}
    - name: c
      securityContext: {}

---
apiVersion: v1
kind: List
items:
- kind: Service
  spec: {type: NodePort}
- kind: Service
  spec:
    type: NodePort
";

    fn fixed(text: &str, objects: BTreeMap<usize, FixedObject>) -> (String, usize) {
        ManifestText::new(text).fixed(objects)
    }

    fn object<const N: usize>(kind: &str, name: &str, fixes: [(&str, Value); N]) -> FixedObject {
        let fixes = fixes.map(|(field, value)| ResultFix::Field(field.to_owned(), value)).into();
        let object = ObjectRef { kind: kind.to_owned(), name: name.into(), ..ObjectRef::default() };
        FixedObject { object: Arc::new(object), fixes }
    }

    #[test]
    fn fields_get_values_and_everything_else_stays() {
        let pod = object(
            "Pod",
            "shop",
            [
                ("spec.hostPID", Value::Null),
                ("spec.containers[0].securityContext.privileged", json!(false)),
                ("spec.containers[0].securityContext.capabilities.drop", json!(["ALL"])),
                ("spec.containers[1].securityContext.runAsNonRoot", json!(true)),
                ("spec.containers[2].securityContext.runAsNonRoot", json!(true)),
                ("spec.containers[2].securityContext.seccompProfile", json!({"type": "RuntimeDefault"})),
            ],
        );
        let service = |line| (line, object("Service", "", [("spec.type", json!("ClusterIP"))]));
        let (text, applied) = fixed(TEXT, BTreeMap::from([(2, pod), service(21), service(23)]));
        insta::assert_snapshot!(text);
        assert_eq!(applied, 8);
        let (again, applied) =
            fixed(&text, BTreeMap::from([(2, object("Pod", "shop", [("spec.containers[0].image", json!("a:1"))]))]));
        assert_eq!((again, applied), (text, 1));
    }

    #[test]
    fn unicode_byte_order_marks_and_json_are_preserved() {
        for (old, new) in [
            ("# Grüße\nkind: Pod\nd: {é: ü, x: 1} # Ö\ny: 2\n", "# Grüße\nkind: Pod\nd: {é: ü, x: 3} # Ö\ny: 2\n"),
            ("\u{feff}kind: Pod\nd:\n  x: 1\n", "\u{feff}kind: Pod\nd:\n  x: 3\n"),
            ("{\"kind\":\"Pod\",\"d\":{}}", "{\"kind\":\"Pod\",\"d\":{\"x\":3}}"),
            ("{\"kind\":\"Pod\"}", "{\"kind\":\"Pod\", \"d\": {\"x\":3}}"),
        ] {
            let line = if old.starts_with('#') { 2 } else { 1 };
            let fixes = BTreeMap::from([(line, object("Pod", "", [("d.x", json!(3))]))]);
            assert_eq!(fixed(old, fixes), (new.to_owned(), 1));
        }
    }

    #[test]
    fn text_that_cannot_be_fixed_is_unchanged() {
        for (line, name, field) in [
            (1, "shop", "spec.hostPID"),
            (2, "shop", "spec.containers[3].image"),
            (2, "shop", "spec.volumes[0].name"),
            (2, "shop", "kind.a"),
            (2, "another", "spec.hostPID"),
        ] {
            let fixes = BTreeMap::from([(line, object("Pod", name, [(field, json!("x"))]))]);
            assert_eq!(fixed(TEXT, fixes), (TEXT.to_owned(), 0), "{line} {name} {field}");
        }
        let twice = object("Pod", "", [("a", json!("A")), ("a", json!("B"))]);
        assert_eq!(fixed("kind: Pod\n", BTreeMap::from([(1, twice)])), ("kind: Pod\na: A\n".to_owned(), 1));
        for odd in ["{{ .Values.a }}", "a: [", "\t", "", "kind: Pod\na: &a {}\nb: *a\n"] {
            let fixes = BTreeMap::from([(1, object("Pod", "", [("a.b", json!(1))]))]);
            assert_eq!(fixed(odd, fixes), (odd.to_owned(), 0));
        }
    }

    fn patch(value: &Value) -> ResultFix {
        ResultFix::Patch(ObjectPatch::new(value).unwrap())
    }

    fn patched(text: &str, patches: impl IntoIterator<Item = Value>) -> (String, usize) {
        let object = ObjectRef { kind: "Pod".to_owned(), name: "shop".into(), ..ObjectRef::default() };
        let fixes = patches.into_iter().map(|value| patch(&value)).collect();
        let line = 1 + text.lines().take_while(|line| line.starts_with('#')).count();
        fixed(text, BTreeMap::from([(line, FixedObject { object: Arc::new(object), fixes })]))
    }

    #[test]
    fn a_block_scalar_at_the_end_of_a_document_leaves_the_next_document() {
        let text = "kind: Pod\nmetadata: {name: shop}\nspec:\n  a: |\n    x\n---\nkind: Other\n";
        let fixed = "kind: Pod\nmetadata: {name: shop}\nspec:\n  a: new\n---\nkind: Other\n";
        let patch = json!([{"op": "replace", "path": "/spec/a", "value": "new"}]);
        assert_eq!(patched(text, [patch]), (fixed.to_owned(), 1));
    }

    #[test]
    fn patches_change_several_fields_and_items_of_lists() {
        let volume = json!({"name": "tmp", "emptyDir": {"medium": "Memory"}});
        let operations = json!([
            {"op": "test", "path": "/spec/hostPID", "value": true},
            {"op": "remove", "path": "/spec/hostPID"},
            {"op": "add", "path": "/spec/volumes", "value": [volume]},
            {"op": "add", "path": "/spec/containers/1", "value": {"name": "x", "image": "x:1"}},
            {"op": "remove", "path": "/spec/containers/0"},
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "last", "args": []}},
            {"op": "add", "path": "/spec/containers/3/args/-", "value": "a b"},
            {"op": "replace", "path": "/spec/containers/0/image", "value": "x:2"},
        ]);
        let text = TEXT.split("---").next().unwrap();
        let (new, applied) = patched(text, [operations]);
        assert_eq!(applied, 1);
        insta::assert_snapshot!("json_patch", new);
        let merge = json!({"metadata": {"labels": {"app": "shop", "none": null}}, "spec": {"hostPID": null, "containers": null, "os": {"name": "linux"}}});
        let (new, applied) = patched(text, [merge]);
        assert_eq!(applied, 1);
        insta::assert_snapshot!("merge_patch", new);
    }

    #[test]
    fn patches_of_one_object_are_applied_together_or_not_at_all() {
        let text = "kind: Pod\nmetadata: {name: shop}\na:\n# One.\n- b: 0 # zero\n- b: 1 # one\n- b: 2\nc: {}\n";
        let remove = |index: usize| json!([{"op": "remove", "path": format!("/a/{index}")}]);
        let both = "kind: Pod\nmetadata: {name: shop}\na:\n# One.\n- b: 1 # one\nc: {}\n";
        assert_eq!(patched(text, [remove(0), remove(2)]), (both.to_owned(), 2));
        assert_eq!(patched(text, [remove(2), remove(0), remove(2)]), (both.to_owned(), 3), "the same twice");
        // The item has another index after the first patch, so the second one has to wait.
        let insert = json!([{"op": "add", "path": "/a/1", "value": {"b": 9}}]);
        let (new, applied) = patched(
            text,
            [insert.clone(), json!([{"op": "remove", "path": "/a/0"}, {"op": "remove", "path": "/a/1"}])],
        );
        assert_eq!((new.contains("- b: 9\n"), new.contains("b: 2"), applied), (true, true, 1), "{new}");
        // Values in items are set before the items move.
        let (new, applied) = patched(text, [insert, json!([{"op": "replace", "path": "/a/2/b", "value": 8}])]);
        assert!(applied == 2 && new.ends_with("- b: 0 # zero\n- b: 9\n- b: 1 # one\n- b: 8\nc: {}\n"), "{new}");
        let all = json!([{"op": "remove", "path": "/a/0"}, {"op": "remove", "path": "/a/0"}, {"op": "remove", "path": "/a/0"}]);
        assert_eq!(patched(text, [all]).0, "kind: Pod\nmetadata: {name: shop}\na: []\nc: {}\n");
        for half in [
            json!([{"op": "remove", "path": "/a/0"}, {"op": "remove", "path": "/d"}]),
            json!([{"op": "add", "path": "/c/d", "value": 1}, {"op": "test", "path": "/c/d", "value": 2}]),
            json!([{"op": "replace", "path": "", "value": {}}, {"op": "remove", "path": "/c"}]),
        ] {
            assert_eq!(patched(text, [half.clone()]), (text.to_owned(), 0), "{half}");
        }
        let anchors = "kind: Pod\nmetadata: {name: shop}\na: &a\n- b: 0\n- *a\n";
        assert_eq!(patched(anchors, [remove(0)]), (anchors.to_owned(), 0));
        let (set, field) = (json!({"c": {"d": 1}}), json!([{"op": "replace", "path": "/c", "value": {"e": 2}}]));
        assert_eq!(patched(text, [set, field]).1, 1, "the second would undo the first");
    }

    /// A value with few keys, so that patches find them.
    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            Just(json!(1)),
            Just(json!("x y")),
            Just(json!("0o7")),
            Just(json!({})),
            Just(json!([]))
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// All paths below a value, and some that do not exist.
    fn paths(value: &Value, own: &str, all: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                all.push(format!("{own}/new"));
                members.iter().for_each(|(key, value)| {
                    all.push(format!("{own}/{key}"));
                    paths(value, &format!("{own}/{key}"), all);
                });
            }
            Value::Array(items) => {
                all.push(format!("{own}/-"));
                all.push(format!("{own}/{}", items.len()));
                items.iter().enumerate().for_each(|(index, value)| {
                    all.push(format!("{own}/{index}"));
                    paths(value, &format!("{own}/{index}"), all);
                });
            }
            _ => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

        #[test]
        fn a_patch_of_the_text_equals_the_patch_of_the_value(
            spec in tree(), merged in tree(),
            operations in prop::collection::vec((0..3_usize, any::<prop::sample::Index>(), tree()), 1..4),
        ) {
            let object = json!({"kind": "Pod", "metadata": {"name": "shop"}, "spec": {"a": spec}});
            let mut all = Vec::new();
            paths(&object["spec"], "/spec", &mut all);
            let operations = operations.iter().map(|(operation, path, value)| {
                let operation = ["add", "remove", "replace"][*operation];
                json!({"op": operation, "path": path.get(&all), "value": value})
            });
            for value in [operations.collect::<Value>(), json!({"spec": {"a": merged}})] {
                let mut wanted = object.clone();
                let is_applicable = match ObjectPatch::new(&value).unwrap() {
                    ObjectPatch::Json(patch) => json_patch::patch(&mut wanted, &patch).is_ok(),
                    ObjectPatch::Merge(_) => {
                        json_patch::merge(&mut wanted, &value);
                        true
                    }
                };
                let block = serde_saphyr::to_string(&object).unwrap();
                let pretty = serde_json::to_string_pretty(&object).unwrap();
                for text in [block, pretty, object.to_string()] {
                    let (new, applied) = patched(&text, [value.clone()]);
                    prop_assert_eq!(applied, usize::from(is_applicable), "{}\n{}", value, text);
                    prop_assert_eq!(parse(&new).unwrap(), if is_applicable { &wanted } else { &object }.clone());
                    prop_assert!(is_applicable || new == text);
                }
            }
        }
    }
}
