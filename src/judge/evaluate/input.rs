//! Converts an object's JSON to the evaluator's value, and builds the input document of each dialect.

use std::{cell::Cell, collections::BTreeMap, sync::Arc};

use regorus::Value;

use super::job::Job;
use crate::{
    judge::{depth, dialects::gatekeeper::matching::Matchable, reads::Projection},
    model::object::{Object, ObjectKey},
    rego::value,
};

/// The operation that the input describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// The object as it is now: a CREATE in the admission dialect, no operation in Gatekeeper's.
    Audit,
    Update,
    Delete,
}

/// How much of an object is converted to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Only the fields that the policies can read; the verdict is the same.
    Read,
    /// Everything: to display it, and to verify the projection in tests.
    All,
}

/// The states of a job's object as the evaluator's values, from which the input documents are built.
#[derive(Clone)]
pub(super) struct JobValues<'a> {
    key: &'a ObjectKey,
    uid: &'a str,
    pub(super) object: Value,
    previous: Option<Value>,
    namespace: Option<Value>,
    /// Whether values nested too deep were replaced by null.
    pub(super) is_cut: bool,
}

impl<'a> JobValues<'a> {
    /// Reads the JSON of a job: its object's states to this extent, its Namespace completely.
    ///
    /// # Errors
    /// Returns why the JSON cannot be read.
    pub(super) fn read(job: &'a Job, extent: Extent) -> Result<Self, String> {
        let is_cut = Cell::new(false);
        let uncut = |(value, cut)| {
            is_cut.set(is_cut.get() || cut);
            value
        };
        let state = |object: &Object| match extent {
            Extent::Read => with_json(object, |json| job.policies.projection(&job.object.key.kind).read(json)),
            Extent::All => with_json(object, value::from_json),
        };
        let state = |object: &Object| state(object).map(uncut);
        // For a deletion, only the last state counts.
        let previous = job.previous.as_ref().filter(|_| !job.deleted);
        Ok(Self {
            key: &job.object.key,
            uid: &job.object.uid,
            object: state(&job.object)?,
            previous: previous.map(state).transpose()?,
            namespace: job.namespace.as_ref().map(read).transpose()?,
            is_cut: is_cut.get(),
        })
    }

    /// Reads parts of the object's present state from its JSON, and its Namespace completely.
    ///
    /// # Errors
    /// Returns why the JSON cannot be read, e.g. because it is nested too deep.
    pub(super) fn read_parts(job: &'a Job, json: &[u8], parts: &Projection) -> Result<Self, String> {
        Ok(Self {
            key: &job.object.key,
            uid: &job.object.uid,
            object: parts.read(json).map_err(|why| why.to_string())?,
            previous: None,
            namespace: job.namespace.as_ref().map(read).transpose()?,
            is_cut: false,
        })
    }

    /// Returns the values with the name and the namespace of another key, if the object has these fields.
    pub(super) fn renamed(mut self, key: &'a ObjectKey) -> Self {
        self.key = key;
        let metadata = self.object.as_object_mut().ok().and_then(|fields| fields.get_mut(&text("metadata")));
        if let Some(Ok(metadata)) = metadata.map(Value::as_object_mut) {
            for (field, name) in [("name", Some(&key.name)), ("namespace", key.namespace.as_ref())] {
                if let (Some(own), Some(name)) = (metadata.get_mut(&text(field)), name) {
                    *own = Value::String(Arc::clone(name));
                }
            }
        }
        self
    }

    /// Returns the change that caused the job; `None` if the job has another cause.
    pub(super) fn change(job: &Job) -> Option<Operation> {
        match (job.deleted, &job.previous) {
            (true, _) => Some(Operation::Delete),
            (false, Some(_)) => Some(Operation::Update),
            (false, None) => None,
        }
    }

    /// Returns the states after and before an operation.
    fn states(&self, operation: Operation) -> (Value, Value) {
        match operation {
            Operation::Audit => (self.object.clone(), Value::Null),
            Operation::Update => (self.object.clone(), self.previous.clone().unwrap_or(Value::Null)),
            Operation::Delete => (Value::Null, self.object.clone()),
        }
    }

    /// Returns the admission request that the API server would send.
    fn request(&self, operation: Operation) -> Vec<(&'static str, Value)> {
        let kind = &self.key.kind;
        let (object, old) = self.states(operation);
        let name = match operation {
            Operation::Audit => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        };
        let mut request = vec![
            ("uid", text(self.uid)),
            ("kind", self.triple("kind", &kind.kind)),
            ("resource", self.triple("resource", &kind.plural)),
            ("requestKind", self.triple("kind", &kind.kind)),
            ("requestResource", self.triple("resource", &kind.plural)),
            ("name", text(&self.key.name)),
            ("operation", text(name)),
            ("userInfo", Value::new_object()),
            ("object", object),
            ("oldObject", old),
            ("dryRun", Value::from(false)),
            ("options", Value::Null),
        ];
        request.extend(self.key.namespace.as_deref().map(|namespace| ("namespace", text(namespace))));
        request
    }

    fn triple(&self, last: &str, name: &str) -> Value {
        let kind = &self.key.kind;
        fields([("group", text(&kind.group)), ("version", text(&kind.version)), (last, text(name))])
    }

    /// Returns the `AdmissionReview` of the operation.
    pub(super) fn admission(&self, operation: Operation) -> Value {
        fields([
            ("apiVersion", text("admission.k8s.io/v1")),
            ("kind", text("AdmissionReview")),
            ("request", fields(self.request(operation))),
        ])
    }

    /// Returns the review that Gatekeeper would evaluate: for its audit an object without an admission request, for its
    /// webhook a change.
    pub(super) fn review(&self, operation: Operation) -> Review {
        let (object, old) = self.states(operation);
        let request = if operation == Operation::Audit {
            let known = |text: &&str| !text.is_empty();
            let metadata = |field: &str| value::text(&self.object["metadata"][field]).map(|name| &**name).filter(known);
            let mut request = vec![
                ("uid", text("")),
                ("kind", self.triple("kind", &self.key.kind.kind)),
                ("resource", fields(["group", "version", "resource"].map(|field| (field, text(""))))),
                ("operation", text("")),
                ("userInfo", Value::new_object()),
                ("object", object.clone()),
                ("oldObject", Value::Null),
                ("options", Value::Null),
            ];
            request.extend(["name", "namespace"].into_iter().filter_map(|field| Some((field, text(metadata(field)?)))));
            request
        } else {
            self.request(operation)
        };
        Review::new(
            request.into_iter().map(|(key, value)| (Value::from(key), value)).collect(),
            object,
            old,
            self.namespace.as_ref(),
        )
    }
}

/// `input.review` of a Gatekeeper template, and the states that Constraints are matched against.
pub(super) struct Review {
    pub(super) document: Value,
    object: Value,
    old: Value,
    namespace: Option<Value>,
    /// Whether the object is one that another would create.
    pub(super) is_generated: bool,
}

impl Review {
    fn new(mut request: BTreeMap<Value, Value>, object: Value, old: Value, namespace: Option<&Value>) -> Self {
        // As in Gatekeeper, `object` of a deletion is the old object.
        let deleted = request.get(&text("operation")) == Some(&text("DELETE"));
        let object = if deleted { old.clone() } else { object };
        request.insert(text("object"), object.clone());
        request.insert(text("namespaceObject"), namespace.cloned().unwrap_or(Value::Null));
        Self { document: Value::from(request), object, old, namespace: namespace.cloned(), is_generated: false }
    }

    /// Builds a review from a given `AdmissionReview`; missing fields of the request are filled in as Gatekeeper does.
    ///
    /// # Errors
    /// Returns which part of the request is missing.
    pub(super) fn given(review: &Value, namespace: Option<&Value>) -> Result<Self, String> {
        let triple = |last: &str| fields([("group", text("")), ("version", text("")), (last, text(""))]);
        let mut request = BTreeMap::from(
            [
                ("uid", text("")),
                ("kind", triple("kind")),
                ("resource", triple("resource")),
                ("operation", text("")),
                ("userInfo", Value::new_object()),
                ("object", Value::Null),
                ("oldObject", Value::Null),
                ("options", Value::Null),
            ]
            .map(|(key, value)| (text(key), value)),
        );
        let given = value::object(&review["request"]).ok_or_else(|| "the AdmissionReview has no request".to_owned())?;
        request.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
        let state = |name: &str| request.get(&text(name)).cloned().unwrap_or(Value::Null);
        let (object, old) = (state("object"), state("oldObject"));
        if old == Value::Null && request.get(&text("operation")) == Some(&text("DELETE")) {
            return Err("an AdmissionReview of a DELETE needs request.oldObject".to_owned());
        }
        if object == Value::Null && old == Value::Null {
            return Err("the AdmissionReview has neither request.object nor request.oldObject".to_owned());
        }
        Ok(Self::new(request, object, old, namespace))
    }

    /// Returns the states of the object; a Constraint matches if it matches one of them.
    pub(super) fn subjects(&self) -> impl Iterator<Item = Matchable<'_>> {
        [&self.object, &self.old].into_iter().filter(|state| matches!(state, Value::Object(_))).map(|object| {
            let version = value::text(&object["apiVersion"]).map_or("", |version| &**version);
            Matchable {
                group: version.split_once('/').map_or("", |(group, _)| group),
                kind: value::text(&object["kind"]).map_or("", |kind| &**kind),
                object,
                namespace: self.namespace.as_ref(),
                is_generated: self.is_generated,
            }
        })
    }
}

/// Reads an object's JSON.
///
/// # Errors
/// Returns why the JSON cannot be read.
pub(super) fn read(object: &Object) -> Result<Value, String> {
    with_json(object, value::from_json).map(|(value, _)| value)
}

/// Reads an object's JSON; also returns whether values nested too deep were replaced by null.
fn with_json(
    object: &Object,
    read: impl Fn(&[u8]) -> Result<Value, serde_json::Error>,
) -> Result<(Value, bool), String> {
    let json = object.body.json().map_err(|why| why.to_string())?;
    depth::shallow(&json, read).map_err(|why| why.to_string())
}

fn text(text: &str) -> Value {
    Value::from(text)
}

/// Creates an object value from fields.
pub(super) fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::from(fields.into_iter().map(|(key, value)| (Value::from(key), value)).collect::<BTreeMap<_, _>>())
}
