//! From what is to be told to an Event on the server.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::{
    APPEARED, AUDIT, RESOLVED, SINCE, VIOLATION,
    pauses::REFUSED,
    queue::{About, CLUSTER_SCOPED, Turn, Violated},
};
use crate::{
    cluster::{error::describe, identity::CONTROLLER},
    model::object::ObjectKey,
    record::{Failure, failure},
};

/// Longest note that the API takes, in bytes.
const NOTE_BYTES: usize = 1024;
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long to wait when there is too much to do for the server, which may itself say longer.
const BUSY: Duration = Duration::from_secs(1);

/// Writes Events as one kaudit.
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) instance: String,
    /// What Events about kaudit itself are about.
    pub(super) own: ObjectReference,
    /// The same as an annotation.
    pub(super) audit: String,
}

/// Why an Event is not written.
#[derive(Debug)]
pub(super) enum Failed {
    /// It need not be any more, and that is in order.
    Normal(&'static str),
    /// It never will be.
    Never(&'static str, String),
    /// The namespace takes none for at least this long.
    Namespace(Duration, String),
    /// The server takes none for at least this long.
    Server(Duration, String),
}

impl Writer {
    /// Returns the Event.
    pub(super) fn event(&self, about: &About) -> Event {
        match about {
            About::Violation(violated) => self.about(violated),
            About::Own(_, event) => Event::clone(event),
        }
    }

    fn about(&self, violated: &Violated) -> Event {
        let Violated { object, uid, violation, turn, at } = violated;
        let finding = &violation.finding;
        let since = violation.since.to_string();
        let (kind, word) = match turn {
            Turn::Appeared => (("Warning", APPEARED), "appeared"),
            Turn::Happened => (("Warning", APPEARED), "happened"),
            Turn::Resolved => (("Normal", RESOLVED), "resolved"),
        };
        let id = violation.id.to_string();
        let name = hashed(&[&id, &since, word]);
        let note = format!("{}/{}: {}", finding.policy, finding.rule, finding.message);
        let mut event = self.make(reference(object, uid), kind, &note, (name, *at));
        let annotations = event.metadata.annotations.get_or_insert_default();
        annotations.insert(VIOLATION.to_owned(), id);
        // Nothing of a moment stands, so there is nothing that it stands since.
        if *turn != Turn::Happened {
            annotations.insert(SINCE.to_owned(), since);
        }
        event
    }

    /// Makes an Event about kaudit itself.
    pub(super) fn about_self(&self, regarding: ObjectReference, reason: &str, note: &str, at: Timestamp) -> Event {
        let name = hashed(&[regarding.name.as_deref().unwrap_or_default(), reason, note, &at.to_string()]);
        self.make(regarding, ("Warning", reason), note, (name, at))
    }

    fn make(
        &self,
        regarding: ObjectReference,
        (type_, reason): (&str, &str),
        note: &str,
        (name, at): (String, Timestamp),
    ) -> Event {
        let metadata = ObjectMeta {
            name: Some(name),
            namespace: regarding.namespace.clone().or_else(|| Some(CLUSTER_SCOPED.to_owned())),
            annotations: Some([(AUDIT.to_owned(), self.audit.clone())].into()),
            ..ObjectMeta::default()
        };
        Event {
            metadata,
            action: Some("Audit".to_owned()),
            event_time: Some(MicroTime(at)),
            note: Some(cut(note, NOTE_BYTES).to_owned()),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(type_.to_owned()),
            ..Event::default()
        }
    }

    /// Makes one attempt.
    pub(super) async fn post(&self, event: &Event) -> Result<(), Failed> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or(CLUSTER_SCOPED);
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let Ok(answer) = timeout(ANSWER, api.create(&PostParams::default(), event)).await else {
            let why = format!("the API server did not answer within {} seconds", ANSWER.as_secs());
            return Err(Failed::Server(Duration::ZERO, why));
        };
        match answer {
            Ok(_) => Ok(()),
            Err(error) => Err(sort(&error)),
        }
    }
}

fn sort(error: &kube::Error) -> Failed {
    let why = describe(error);
    let status = if let kube::Error::Api(status) = error { Some(status) } else { None };
    let told = status.and_then(|status| status.details.as_ref()).map_or(0, |details| details.retry_after_seconds);
    let told = Duration::from_secs(told.into());
    match (failure(error), status.map_or(0, |status| status.code)) {
        (Failure::Normal(reason), _) => Failed::Normal(reason),
        (Failure::Refused(reason), 400 | 422) => Failed::Never(reason, why),
        (_, 403) => Failed::Namespace(REFUSED, why),
        // Not answered by who would know the namespace, or not for its sake.
        (_, 0 | 401 | 502..=504) => Failed::Server(told, why),
        (_, 429) => Failed::Server(told.max(BUSY), why),
        // Such as a webhook that cannot be reached.
        _ => Failed::Namespace(told, why),
    }
}

fn reference(object: &ObjectKey, uid: &Arc<str>) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.kind.api_version()),
        kind: Some(object.kind.kind.clone()),
        name: Some(object.name.to_string()),
        namespace: object.namespace.as_deref().map(str::to_owned),
        uid: Some(uid.to_string()).filter(|uid| !uid.is_empty()),
        ..ObjectReference::default()
    }
}

/// A name that is the same whenever the same thing is told, so that nothing is told twice. Names of objects would
/// break the server's rules for names.
fn hashed(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().take(16).fold("kaudit-".to_owned(), |name, byte| name + &format!("{byte:02x}"))
}

/// Cuts at a character, at most `bytes` long.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use kube::core::{Status, response::StatusDetails};

    use super::*;

    #[test]
    fn notes_are_cut_at_a_character() {
        let long = "ä".repeat(600);
        assert_eq!(cut(&long, 1023).len(), 1022);
        assert_eq!(cut("short", 1024), "short");
    }

    #[test]
    fn names_do_not_confuse_neighbouring_parts() {
        assert_ne!(hashed(&["ab", "c"]), hashed(&["a", "bc"]));
        assert_eq!(hashed(&["ab", "c"]).len(), "kaudit-".len() + 32);
    }

    #[test]
    fn refusals_are_those_of_the_namespace_or_of_the_server() {
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
            match sort(&kube::Error::Api(Box::new(status))) {
                Failed::Normal(reason) => format!("normal {reason}"),
                Failed::Never(reason, _) => format!("never {reason}"),
                Failed::Namespace(wait, _) => format!("namespace {wait:?}"),
                Failed::Server(wait, _) => format!("server {wait:?}"),
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
