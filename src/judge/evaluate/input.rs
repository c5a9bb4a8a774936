//! The object's JSON as the evaluator's value, and the documents that policies expect around it.

use std::collections::BTreeMap;

use regorus::Value;

use super::Job;
use crate::{
    judge::gatekeeper::Subject,
    model::object::{Object, ObjectKey},
    rego::value,
};

/// What is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// The object as it is.
    Standing,
    /// How it came to be as it is.
    Update,
    /// Its end.
    Delete,
}

/// How much of an object becomes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    /// What the policies can read; the verdict is the same.
    Read,
    /// Everything, to prove that.
    #[cfg(test)]
    All,
}

/// The values of a job, and the documents made of them.
pub(super) struct Documents<'a> {
    key: &'a ObjectKey,
    uid: &'a str,
    pub(super) object: Value,
    previous: Option<Value>,
    namespace: Option<Value>,
}

impl<'a> Documents<'a> {
    /// Reads the JSON of a job: of the object in its states what `parts` says, of its Namespace everything.
    ///
    /// # Errors
    /// Returns why it cannot be read, e.g. because it is nested deeper than 127 levels.
    pub(super) fn read(job: &'a Job, parts: Parts) -> Result<Self, String> {
        let state = |object: &Object| match parts {
            Parts::Read => with_json(object, |json| job.policies.projection(&job.object.key.kind).read(json)),
            #[cfg(test)]
            Parts::All => read(object),
        };
        // A deletion is told by the last state alone.
        let previous = job.previous.as_ref().filter(|_| !job.deleted);
        Ok(Self {
            key: &job.object.key,
            uid: &job.object.uid,
            object: state(&job.object)?,
            previous: previous.map(state).transpose()?,
            namespace: job.namespace.as_ref().map(read).transpose()?,
        })
    }

    /// Returns the change that the job is about, if it says.
    pub(super) fn change(job: &Job) -> Option<Moment> {
        match (job.deleted, &job.previous) {
            (true, _) => Some(Moment::Delete),
            (false, Some(_)) => Some(Moment::Update),
            (false, None) => None,
        }
    }

    /// Returns the states after and before a moment.
    fn states(&self, moment: Moment) -> (Value, Value) {
        match moment {
            Moment::Standing => (self.object.clone(), Value::Null),
            Moment::Update => (self.object.clone(), self.previous.clone().unwrap_or(Value::Null)),
            Moment::Delete => (Value::Null, self.object.clone()),
        }
    }

    /// Returns the request that the API server would send for review.
    fn request(&self, moment: Moment) -> Vec<(&'static str, Value)> {
        let kind = &self.key.kind;
        let (object, old) = self.states(moment);
        let operation = match moment {
            Moment::Standing => "CREATE",
            Moment::Update => "UPDATE",
            Moment::Delete => "DELETE",
        };
        let mut request = vec![
            ("uid", text(self.uid)),
            ("kind", self.triple("kind", &kind.kind)),
            ("resource", self.triple("resource", &kind.plural)),
            ("requestKind", self.triple("kind", &kind.kind)),
            ("requestResource", self.triple("resource", &kind.plural)),
            ("name", text(&self.key.name)),
            ("operation", text(operation)),
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

    /// Returns the `AdmissionReview` of the object: of its creation, unless the moment is a change.
    pub(super) fn admission(&self, moment: Moment) -> Value {
        fields([
            ("apiVersion", text("admission.k8s.io/v1")),
            ("kind", text("AdmissionReview")),
            ("request", fields(self.request(moment))),
        ])
    }

    /// Returns what Gatekeeper reviews: its audit an object without a request around it, its webhook a change.
    pub(super) fn review(&self, moment: Moment) -> Review {
        let (object, old) = self.states(moment);
        let request = if moment == Moment::Standing {
            let known = |text: &&str| !text.is_empty();
            let metadata =
                |field: &str| self.object["metadata"][field].as_string().map(|name| &**name).ok().filter(known);
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
            self.request(moment)
        };
        Review::new(
            request.into_iter().map(|(key, value)| (Value::from(key), value)).collect(),
            object,
            old,
            self.namespace.as_ref(),
        )
    }
}

/// `input.review` of a Gatekeeper template, and what Constraints are matched with.
pub(super) struct Review {
    pub(super) document: Value,
    object: Value,
    old: Value,
    namespace: Option<Value>,
}

impl Review {
    fn new(mut request: BTreeMap<Value, Value>, object: Value, old: Value, namespace: Option<&Value>) -> Self {
        // As Gatekeeper does: a deleted object is reviewed as what it was.
        let deleted = request.get(&text("operation")) == Some(&text("DELETE"));
        let object = if deleted { old.clone() } else { object };
        request.insert(text("object"), object.clone());
        request.insert(text("namespaceObject"), namespace.cloned().unwrap_or(Value::Null));
        Self { document: Value::from(request), object, old, namespace: namespace.cloned() }
    }

    /// Makes a review of an `AdmissionReview` that someone wrote, with what its request leaves out as Gatekeeper fills it.
    ///
    /// # Errors
    /// Returns what the request lacks to be reviewed.
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
        let given = review["request"].as_object().map_err(|_| "an AdmissionReview without request".to_owned())?;
        request.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
        let state = |name: &str| request.get(&text(name)).cloned().unwrap_or(Value::Null);
        let (object, old) = (state("object"), state("oldObject"));
        if old == Value::Null && request.get(&text("operation")) == Some(&text("DELETE")) {
            return Err("an AdmissionReview of a DELETE needs request.oldObject".to_owned());
        }
        if object == Value::Null && old == Value::Null {
            return Err("an AdmissionReview without request.object and request.oldObject".to_owned());
        }
        Ok(Self::new(request, object, old, namespace))
    }

    /// Returns the states of the object, each to be matched by itself; one that matches is enough.
    pub(super) fn subjects(&self) -> impl Iterator<Item = Subject<'_>> {
        [&self.object, &self.old].into_iter().filter(|state| state.as_object().is_ok()).map(|object| {
            let version = object["apiVersion"].as_string().map_or("", |version| &**version);
            Subject {
                group: version.split_once('/').map_or("", |(group, _)| group),
                kind: object["kind"].as_string().map_or("", |kind| &**kind),
                object,
                namespace: self.namespace.as_ref(),
            }
        })
    }
}

/// Reads an object's JSON.
///
/// # Errors
/// Returns why it cannot be read.
pub(super) fn read(object: &Object) -> Result<Value, String> {
    with_json(object, value::from_json)
}

fn with_json(object: &Object, read: impl FnOnce(&[u8]) -> Result<Value, serde_json::Error>) -> Result<Value, String> {
    let json = object.body.json().map_err(|why| why.to_string())?;
    read(&json).map_err(|why| why.to_string())
}

fn text(text: &str) -> Value {
    Value::from(text)
}

/// Makes an object of a few fields.
pub(super) fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::from(fields.into_iter().map(|(key, value)| (Value::from(key), value)).collect::<BTreeMap<_, _>>())
}
