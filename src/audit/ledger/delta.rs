//! What a verdict, or the end of an object, changes in the results of one object.

use std::sync::Arc;

use super::{dependents::Labels, lifecycle::Lifecycle, violation::Violation};
use crate::{
    audit::queue::Lane,
    model::object::{ObjectKey, ObjectRef},
    telemetry::Span,
};

/// What changed in the results of one object.
#[derive(Debug, Clone)]
pub struct Delta {
    /// The key by which the pipeline keeps the object.
    pub(crate) key: ObjectKey,
    /// The object.
    pub object: Arc<ObjectRef>,
    /// Its topmost owner, if it has or had results.
    pub owner: Option<Arc<ObjectRef>>,
    /// Those labels of that owner that recorders need, or the object's own if it has no owner; `None` if they are not known.
    pub labels: Option<Labels>,
    /// Violations that are new, or were not reported before.
    pub appeared: Vec<Violation>,
    /// Violations that are no longer open.
    pub resolved: Vec<Violation>,
    /// Violations by the transition itself: reported once, never open.
    pub transitions: Vec<Violation>,
    /// All present results that no owner covers, errors and excused ones too; none if the object was deleted.
    pub results: Vec<Violation>,
    /// Whether it follows a change of one object, or comes with many others from a snapshot or new policies.
    pub lane: Lane,
    /// The span of the change that it follows, if that is traced.
    pub span: Span,
}

/// Why there is a delta.
#[derive(Debug)]
pub struct Cause {
    /// As in [`Delta::lane`].
    pub lane: Lane,
    /// As in [`Delta::span`].
    pub span: Span,
}

impl From<Lane> for Cause {
    fn from(lane: Lane) -> Self {
        Self { lane, span: Span::default() }
    }
}

/// The topmost owner of an object, and labels, as in a [`Delta`].
pub(super) type DeltaOwner = (Option<Arc<ObjectRef>>, Option<Labels>);

impl Delta {
    /// Makes a delta in which nothing changed, of an object without results.
    pub(super) fn new(key: ObjectKey, uid: &Arc<str>, (owner, labels): DeltaOwner, cause: impl Into<Cause>) -> Self {
        let Cause { lane, span } = cause.into();
        Self {
            object: Arc::new(ObjectRef::new(&key, uid)),
            key,
            owner,
            labels,
            appeared: Vec::new(),
            resolved: Vec::new(),
            transitions: Vec::new(),
            results: Vec::new(),
            lane,
            span,
        }
    }

    /// Returns what happened to which violation, in the order in which it is reported. Resolutions come first: where only the
    /// outcome of a violation changes, the last report about its rule and message is that it is open.
    pub fn changes(&self) -> impl Iterator<Item = (Lifecycle, &Violation)> {
        let resolved = self.resolved.iter().map(|violation| (Lifecycle::Resolved, violation));
        let transitions = self.transitions.iter().map(|violation| (Lifecycle::Happened, violation));
        let appeared = self.appeared.iter().map(|violation| (Lifecycle::Appeared, violation));
        resolved.chain(transitions).chain(appeared)
    }
}

#[cfg(test)]
impl Delta {
    /// A change of a Pod from which nothing comes, to be filled in; violations are those of [`Violation::sample`].
    pub(crate) fn sample() -> Self {
        let kind = crate::model::object::Kind::sample("", "pods", "Pod");
        let key = ObjectKey { kind, namespace: None, name: "a".into(), copy: 0 };
        Self::new(key, &"u".into(), (None, None), Lane::Change)
    }
}
