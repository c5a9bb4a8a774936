//! Sets of fields, as owned by field managers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::schema::{ListKind, Schema};

/// A set of fields: a tree with edges as in `fieldsV1`: `f:NAME`, `k:{KEYS}` and `v:VALUE`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// Whether the field at the root of this subtree belongs to the set.
    member: bool,
    children: BTreeMap<String, Self>,
}

/// The differences between two states of an object.
#[derive(Debug, Default)]
pub(super) struct FieldChanges {
    /// New fields, and fields with another value.
    pub(super) written: FieldSet,
    pub(super) removed: FieldSet,
}

impl FieldSet {
    fn leaf() -> Self {
        Self { member: true, children: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// Returns the fields that an applied configuration contains.
    ///
    /// # Errors
    /// If the schema does not allow a field, with its path.
    pub(super) fn applied(value: &Value, schema: Schema<'_>) -> Result<Self, String> {
        let mut wrong = Vec::new();
        let set = Self::part(value, schema, "", &mut wrong);
        match &wrong[..] {
            [] => Ok(set),
            [one] => Err(one.clone()),
            several => Err(format!("errors:\n  {}", several.join("\n  "))),
        }
    }

    fn part(value: &Value, schema: Schema<'_>, path: &str, wrong: &mut Vec<String>) -> Self {
        let mut set = Self::default();
        match value {
            Value::Object(map) if !schema.is_atomic_map() => {
                for (name, value) in map {
                    let path = format!("{path}.{name}");
                    let Some((inner, declared)) = schema.field(name) else {
                        wrong.push(format!("{path}: field not declared in schema"));
                        continue;
                    };
                    let mut child = Self::part(value, inner, &path, wrong);
                    let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                    child.member |= is_empty || !declared;
                    set.children.insert(format!("f:{name}"), child);
                }
            }
            Value::Array(items) => {
                let kind = schema.list_kind();
                for item in items {
                    let Some(element) = element(item, &kind) else { return Self::leaf() };
                    let mut child = match kind {
                        ListKind::Map(_) => Self::part(item, schema.item(), &format!("{path}[]"), wrong),
                        _ => Self::leaf(),
                    };
                    child.member = true;
                    set.children.insert(element, child);
                }
                set.member = matches!(kind, ListKind::Atomic) || items.is_empty();
            }
            _ => {
                wrong.extend(schema.misfit(value).map(|why| format!("{path}: {why}")));
                set.member = true;
            }
        }
        set
    }

    fn insert(&mut self, edge: String, child: Self) {
        if !child.is_empty() {
            self.children.insert(edge, child);
        }
    }

    pub(super) fn union(&mut self, other: &Self) {
        self.member |= other.member;
        for (edge, child) in &other.children {
            self.children.entry(edge.clone()).or_default().union(child);
        }
    }

    #[must_use]
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut set = Self { member: self.member && other.member, children: BTreeMap::new() };
        for (edge, child) in &self.children {
            if let Some(other) = other.children.get(edge) {
                set.insert(edge.clone(), child.intersection(other));
            }
        }
        set
    }

    #[must_use]
    pub(super) fn difference(&self, other: &Self) -> Self {
        let mut set = Self { member: self.member && !other.member, children: BTreeMap::new() };
        for (edge, child) in &self.children {
            let rest = other.children.get(edge).map_or_else(|| child.clone(), |other| child.difference(other));
            set.insert(edge.clone(), rest);
        }
        set
    }

    /// Removes the fields of `removed` and all below them.
    #[must_use]
    pub(super) fn without(&self, removed: &Self) -> Self {
        if removed.member {
            return Self::default();
        }
        let mut set = Self { member: self.member, children: BTreeMap::new() };
        for (edge, child) in &self.children {
            let rest = removed.children.get(edge).map_or_else(|| child.clone(), |removed| child.without(removed));
            set.insert(edge.clone(), rest);
        }
        set
    }

    /// Removes the field at this path of names.
    pub(super) fn cut(&mut self, path: &[&str]) {
        let Some((name, rest)) = path.split_first() else { return };
        let edge = format!("f:{name}");
        if rest.is_empty() {
            self.children.remove(&edge);
        } else if let Some(child) = self.children.get_mut(&edge) {
            child.cut(rest);
            if child.is_empty() {
                self.children.remove(&edge);
            }
        }
    }

    /// Returns the differences between two states; null if the object does not exist.
    pub(super) fn changes(old: &Value, new: &Value, schema: Schema<'_>) -> FieldChanges {
        let mut changes = FieldChanges::default();
        compare(Some(old), Some(new), schema, &mut changes.written, &mut changes.removed);
        changes
    }

    /// Returns the set with the declared fields that have members below them.
    #[must_use]
    pub(super) fn with_parents(&self, schema: Schema<'_>) -> Self {
        let mut set = self.clone();
        for (edge, child) in &mut set.children {
            let (inner, declared) = match edge.strip_prefix("f:") {
                Some(name) => schema.field(name).unwrap_or((Schema::Any, false)),
                None => (schema.item(), false),
            };
            *child = child.with_parents(inner);
            child.member |= declared && !child.children.is_empty();
        }
        set
    }

    /// Removes from a value the fields of this set that have become empty.
    pub(super) fn remove_hollow(&self, value: &mut Value) {
        let Some(map) = value.as_object_mut() else { return };
        for (edge, child) in &self.children {
            let Some(name) = edge.strip_prefix("f:") else { continue };
            let Some(field) = map.get_mut(name) else { continue };
            if !child.children.is_empty() {
                child.remove_hollow(field);
                if is_hollow(field) {
                    map.remove(name);
                }
            }
        }
    }

    /// Removes these fields from a value; their parents may become empty.
    pub(super) fn remove_from(&self, value: &mut Value, schema: Schema<'_>) {
        match value {
            Value::Object(map) => {
                for (edge, child) in &self.children {
                    let Some(name) = edge.strip_prefix("f:") else { continue };
                    let Some(field) = map.get_mut(name) else { continue };
                    if let Some((inner, _)) = schema.field(name) {
                        child.remove_from(field, inner);
                    }
                    if child.member {
                        map.remove(name);
                    }
                }
            }
            Value::Array(items) => {
                let kind = schema.list_kind();
                items.retain_mut(|item| {
                    let Some(child) = element(item, &kind).and_then(|edge| self.children.get(&edge)) else {
                        return true;
                    };
                    if !child.member {
                        child.remove_from(item, schema.item());
                    }
                    !child.member
                });
            }
            _ => {}
        }
    }

    /// Returns the paths of the members, as in messages.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, path: &str, paths: &mut Vec<String>) {
        if self.member {
            paths.push(path.to_owned());
        }
        for (edge, child) in &self.children {
            let step = match edge.split_once(':') {
                Some(("f", name)) => format!(".{name}"),
                Some(("k", keys)) => {
                    let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                    let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                    format!("[{}]", keys.join(","))
                }
                Some((_, value)) => format!("[={value}]"),
                None => String::new(),
            };
            child.collect_paths(&format!("{path}{step}"), paths);
        }
    }

    /// Returns the set as `fieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let children = self.children.iter().map(|(edge, child)| (edge.clone(), child.to_json()));
        let mut map: Map<String, Value> = children.collect();
        if self.member && !map.is_empty() {
            map.insert(".".to_owned(), json!({}));
        }
        Value::Object(map)
    }

    pub(super) fn from_json(value: &Value) -> Self {
        let Some(map) = value.as_object() else { return Self::default() };
        let children = map.iter().filter(|(edge, _)| *edge != ".");
        let children = children.map(|(edge, child)| {
            let mut set = Self::from_json(child);
            set.member |= set.children.is_empty();
            (edge.clone(), set)
        });
        Self { member: map.contains_key("."), children: children.collect() }
    }
}

fn is_hollow(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Returns the edge of a list item; `None` in atomic lists.
fn element(item: &Value, kind: &ListKind) -> Option<String> {
    match kind {
        ListKind::Atomic => None,
        ListKind::Set => Some(format!("v:{item}")),
        ListKind::Map(keys) => {
            let key = |key: &String| item.get(key).map(|value| (key.clone(), value.clone()));
            let keys: Map<String, Value> = keys.iter().filter_map(key).collect();
            Some(format!("k:{}", Value::Object(keys)))
        }
    }
}

/// Adds the differences between two values of a field to `written` and `removed`.
fn compare(
    old: Option<&Value>,
    new: Option<&Value>,
    schema: Schema<'_>,
    written: &mut FieldSet,
    removed: &mut FieldSet,
) {
    if old == new {
        return;
    }
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) if !schema.is_atomic_map() => {
            compare_maps(old, new, schema, written, removed);
        }
        (None, Some(Value::Object(new))) if !schema.is_atomic_map() => {
            written.member = true;
            compare_maps(&Map::new(), new, schema, written, removed);
        }
        (Some(Value::Object(old)), None) if !schema.is_atomic_map() => {
            removed.member = true;
            compare_maps(old, &Map::new(), schema, written, removed);
        }
        (old, new) => {
            let kind = schema.list_kind();
            let list = |value: Option<&Value>| value.is_none_or(Value::is_array);
            if matches!(kind, ListKind::Atomic) || !list(old) || !list(new) {
                let set = if new.is_some() { written } else { removed };
                set.member = true;
                return;
            }
            written.member |= old.is_none();
            removed.member |= new.is_none();
            compare_lists(old, new, &kind, schema, written, removed);
        }
    }
}

fn compare_maps(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    schema: Schema<'_>,
    written: &mut FieldSet,
    removed: &mut FieldSet,
) {
    let names = new.keys().chain(old.keys().filter(|name| !new.contains_key(*name)));
    for name in names {
        let inner = schema.field(name).map_or(Schema::Any, |(inner, _)| inner);
        descend(format!("f:{name}"), old.get(name), new.get(name), inner, written, removed);
    }
}

fn compare_lists(
    old: Option<&Value>,
    new: Option<&Value>,
    kind: &ListKind,
    schema: Schema<'_>,
    written: &mut FieldSet,
    removed: &mut FieldSet,
) {
    let items = |list: Option<&Value>| -> BTreeMap<String, Value> {
        let items = list.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(|item| Some((element(item, kind)?, item.clone()))).collect()
    };
    let (old, new) = (items(old), items(new));
    let names: Vec<&String> = new.keys().chain(old.keys().filter(|name| !new.contains_key(*name))).collect();
    for edge in names {
        let inner = if matches!(kind, ListKind::Set) { Schema::Any } else { schema.item() };
        descend(edge.clone(), old.get(edge), new.get(edge), inner, written, removed);
    }
}

fn descend(
    edge: String,
    old: Option<&Value>,
    new: Option<&Value>,
    schema: Schema<'_>,
    written: &mut FieldSet,
    removed: &mut FieldSet,
) {
    let (mut into, mut from) = (FieldSet::default(), FieldSet::default());
    compare(old, new, schema, &mut into, &mut from);
    written.insert(edge.clone(), into);
    removed.insert(edge, from);
}

/// Merges an applied configuration into an object.
pub(super) fn merge(into: &mut Value, from: &Value, schema: Schema<'_>) {
    match (&mut *into, from) {
        (Value::Object(into), Value::Object(from)) if !schema.is_atomic_map() => {
            for (name, value) in from {
                let inner = schema.field(name).map_or(Schema::Any, |(inner, _)| inner);
                merge(into.entry(name.clone()).or_insert(Value::Null), value, inner);
            }
        }
        (Value::Array(into), Value::Array(from)) if !matches!(schema.list_kind(), ListKind::Atomic) => {
            *into = merge_lists(into, from, schema);
        }
        _ => into.clone_from(from),
    }
}

/// Merges two lists with keyed items. The items of the second list keep their order, and those that are only in the
/// first keep their positions between them.
fn merge_lists(old: &[Value], new: &[Value], schema: Schema<'_>) -> Vec<Value> {
    let kind = schema.list_kind();
    let edges = |list: &[Value]| -> Vec<Option<String>> { list.iter().map(|item| element(item, &kind)).collect() };
    let (old_edges, new_edges) = (edges(old), edges(new));
    let merged = |place: usize| {
        let known = old_edges.iter().position(|edge| *edge == new_edges[place]);
        let mut item = known.map_or_else(|| new[place].clone(), |known| old[known].clone());
        merge(&mut item, &new[place], schema.item());
        item
    };
    let mut shared = new_edges.iter().filter(|edge| old_edges.contains(edge)).peekable();
    let (mut left, mut right, mut list) = (0, 0, Vec::new());
    while left < old.len() || right < new.len() {
        let edge = old_edges.get(left);
        if edge.is_some_and(|edge| !new_edges.contains(edge)) && (right == new.len() || edge != new_edges.get(right)) {
            list.push(old[left].clone());
            left += 1;
        } else if right < new.len()
            && edge.is_some()
            && edge != Some(&new_edges[right])
            && shared.peek().copied() != edge
        {
            // The item follows later in the new list.
            left += 1;
        } else if right < new.len() {
            list.push(merged(right));
            left += usize::from(edge == Some(&new_edges[right]));
            shared.next_if(|next| **next == new_edges[right]);
            right += 1;
        } else {
            left += 1;
        }
    }
    list
}
