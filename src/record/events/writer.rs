//! Makes Events and posts them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;

use super::{
    annotations::{self, AUDIT},
    note::note,
    pauses::REFUSED,
    queue::{CLUSTER_SCOPED, EventContent, ViolationChange},
};
use crate::{
    audit::ledger::Lifecycle,
    cluster::{error::describe, identity::CONTROLLER},
    model::{object::ObjectRef, text::truncate},
    record::{
        event_reasons::{APPEARED, RESOLVED},
        exception_notice::ExceptionNotice,
        failure::WriteFailure,
        message_name::{lifecycle_name, message_name},
    },
};

/// Longest note that the API takes, in bytes.
const NOTE_BYTES: usize = 1024;
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The least time to wait when the server is overloaded (429); `Retry-After` may be longer.
const BUSY: Duration = Duration::from_secs(1);

/// Makes and posts the Events of one kaudit.
pub(super) struct EventWriter {
    pub(super) client: Client,
    pub(super) instance: String,
    /// The object that Events about kaudit itself refer to.
    pub(super) own: ObjectRef,
    /// Namespace and name of that object, for the annotation.
    pub(super) audit: String,
}

/// Why an Event was not written.
#[derive(Debug)]
pub(super) enum PostError {
    /// It need not be written, which is not a failure.
    Normal(&'static str),
    /// It cannot be written, ever.
    Never(&'static str, String),
    /// The namespace accepts no Events for at least this long.
    Namespace(Duration, String),
    /// The server accepts no Events for at least this long.
    Server(Duration, String),
}

impl EventWriter {
    /// Returns the Event to post.
    pub(super) fn event(&self, content: &EventContent) -> Event {
        match content {
            EventContent::Violation(change) => self.violation_event(change),
            EventContent::Own(_, event) => Event::clone(event),
        }
    }

    fn violation_event(&self, change: &ViolationChange) -> Event {
        let ViolationChange { object, violation, lifecycle, at } = change;
        let kind = match lifecycle {
            Lifecycle::Appeared | Lifecycle::Happened => ("Warning", APPEARED),
            Lifecycle::Resolved => ("Normal", RESOLVED),
        };
        let name = lifecycle_name(*lifecycle, violation);
        let note = note(&violation.finding, violation.dependents, *lifecycle);
        let mut event = self.make(object, kind, &note, (name, *at));
        event.metadata.annotations.get_or_insert_default().extend(annotations::of(violation, *lifecycle));
        event
    }

    /// Returns an Event about kaudit itself.
    pub(super) fn own_event(&self, regarding: &ObjectRef, reason: &str, note: &str, at: Timestamp) -> Event {
        let name = message_name(&[&regarding.name, reason, note, &at.to_string()]);
        self.make(regarding, ("Warning", reason), note, (name, at))
    }

    /// Returns an Event about an exception, whose name is the same after a restart.
    pub(super) fn exception_event(&self, notice: &ExceptionNotice) -> Event {
        let ExceptionNotice { object, reason, identity, note, at } = notice;
        let name = message_name(&[&self.audit, &object.reference.uid, reason, identity]);
        self.make(&object.reference, ("Warning", reason), note, (name, *at))
    }

    fn make(
        &self,
        regarding: &ObjectRef,
        (type_, reason): (&str, &str),
        note: &str,
        (name, at): (String, Timestamp),
    ) -> Event {
        let metadata = ObjectMeta {
            name: Some(name),
            namespace: Some(regarding.namespace.as_deref().unwrap_or(CLUSTER_SCOPED).to_owned()),
            annotations: Some([(AUDIT.to_owned(), self.audit.clone())].into()),
            ..ObjectMeta::default()
        };
        Event {
            metadata,
            action: Some("Audit".to_owned()),
            event_time: Some(MicroTime(at)),
            note: Some(truncate(note, NOTE_BYTES).to_owned()),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding.into()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(type_.to_owned()),
            ..Event::default()
        }
    }

    /// Makes one attempt to create an Event.
    pub(super) async fn post(&self, event: &Event) -> Result<(), PostError> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or(CLUSTER_SCOPED);
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let Ok(answer) = timeout(REQUEST_TIMEOUT, api.create(&PostParams::default(), event)).await else {
            let why = format!("the API server did not answer within {} seconds", REQUEST_TIMEOUT.as_secs());
            return Err(PostError::Server(Duration::ZERO, why));
        };
        match answer {
            Ok(_) => Ok(()),
            Err(error) => Err(classify(&error)),
        }
    }
}

fn classify(error: &kube::Error) -> PostError {
    let why = describe(error);
    let status = if let kube::Error::Api(status) = error { Some(status) } else { None };
    let retry_after =
        status.and_then(|status| status.details.as_ref()).map_or(0, |details| details.retry_after_seconds);
    let retry_after = Duration::from_secs(retry_after.into());
    match (WriteFailure::of(error), status.map_or(0, |status| status.code)) {
        (WriteFailure::Normal(reason), _) => PostError::Normal(reason),
        (WriteFailure::Refused(reason), 400 | 422) => PostError::Never(reason, why),
        (_, 403) => PostError::Namespace(REFUSED, why),
        // Not specific to the namespace: there is no response, a gateway responds, or kaudit's credentials are
        // rejected.
        (_, 0 | 401 | 502..=504) => PostError::Server(retry_after, why),
        (_, 429) => PostError::Server(retry_after.max(BUSY), why),
        // For example, an admission webhook cannot be reached.
        _ => PostError::Namespace(retry_after, why),
    }
}

impl From<&ObjectRef> for ObjectReference {
    fn from(object: &ObjectRef) -> Self {
        Self {
            api_version: Some(object.api_version.clone()),
            kind: Some(object.kind.clone()),
            name: Some(object.name.to_string()),
            namespace: object.namespace.as_deref().map(str::to_owned),
            uid: Some(object.uid.to_string()).filter(|uid| !uid.is_empty()),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{Status, response::StatusDetails};

    use super::*;

    #[test]
    fn errors_are_classified_as_those_of_the_namespace_or_the_server() {
        let sorted = |code: u16, reason: &str, retry_after_seconds: u32| {
            let details = StatusDetails {
                name: String::new(),
                group: String::new(),
                kind: String::new(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds,
            };
            let status = Status::failure("why", reason).with_code(code).with_details(details);
            match classify(&kube::Error::Api(Box::new(status))) {
                PostError::Normal(reason) => format!("normal {reason}"),
                PostError::Never(reason, _) => format!("never {reason}"),
                PostError::Namespace(wait, _) => format!("namespace {wait:?}"),
                PostError::Server(wait, _) => format!("server {wait:?}"),
            }
        };
        assert_eq!(sorted(409, "AlreadyExists", 0), "normal already_exists");
        assert_eq!(sorted(404, "NotFound", 0), "normal not_found");
        assert_eq!(sorted(422, "Invalid", 0), "never invalid");
        assert_eq!(sorted(403, "Forbidden", 0), "namespace 30s");
        assert_eq!(sorted(500, "InternalError", 0), "namespace 0ns");
        assert_eq!(sorted(401, "Unauthorized", 0), "server 0ns");
        assert_eq!(sorted(429, "TooManyRequests", 0), "server 1s");
        assert_eq!(sorted(429, "TooManyRequests", 7), "server 7s");
        assert_eq!(sorted(503, "ServiceUnavailable", 2), "server 2s");
    }
}
