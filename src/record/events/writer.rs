//! How an Event looks, and how it gets to the server.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::pending::{Turn, Violated};
use crate::{
    client::describe,
    metrics::Metrics,
    object::ObjectKey,
    record::{CONTROLLER, Failure, Health, failure},
};

/// Annotation with the id of the violation that an Event is about.
pub(super) const VIOLATION: &str = "kaudit.dev/violation";
/// Annotation with the time of its first sight.
pub(super) const SINCE: &str = "kaudit.dev/since";
/// Reasons of Events about violations.
pub(super) const APPEARED: &str = "PolicyViolation";
pub(super) const RESOLVED: &str = "PolicyResolved";

/// Attempts at a write that the server answers with an error that may pass.
const ATTEMPTS: u32 = 8;
/// Longest note that the API takes, in bytes.
const NOTE_BYTES: usize = 1024;
/// Where Events of cluster-scoped objects go, as the API demands.
const CLUSTER_SCOPED: &str = "default";

pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) instance: String,
    /// What Events about kaudit itself are about.
    pub(super) own: ObjectReference,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Health,
}

/// What makes an Event what it is.
pub(super) struct Notice<'a> {
    pub(super) regarding: ObjectReference,
    pub(super) warning: bool,
    pub(super) reason: &'a str,
    pub(super) note: &'a str,
    pub(super) name: String,
    pub(super) at: Timestamp,
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

impl Writer {
    /// Makes the Event about a violation. Its name is the same whenever the same thing is told, so that nothing is told
    /// twice; names of objects would break the server's rules for names.
    pub(super) fn about(&self, violated: &Violated) -> Event {
        let Violated { object, uid, violation, turn, at, .. } = violated;
        let finding = &violation.finding;
        let (id, since) = (violation.id.to_string(), violation.since.to_string());
        let (reason, what) = match turn {
            Turn::Appeared => (APPEARED, "appeared"),
            Turn::Resolved => (RESOLVED, "resolved"),
            Turn::Happened => (APPEARED, "happened"),
        };
        let name = hashed(&[&id, &since, what]);
        let memory = [(VIOLATION.to_owned(), id), (SINCE.to_owned(), since)];
        self.event(Notice {
            regarding: reference(object, uid),
            warning: *turn != Turn::Resolved,
            reason,
            note: &format!("{}/{}: {}", finding.policy, finding.rule, finding.message),
            name,
            at: *at,
            // What happened does not stand, so there is nothing to remember.
            annotations: (*turn != Turn::Happened).then(|| memory.into()),
        })
    }

    pub(super) fn event(&self, notice: Notice<'_>) -> Event {
        let namespace = notice.regarding.namespace.clone().unwrap_or_else(|| CLUSTER_SCOPED.to_owned());
        Event {
            metadata: ObjectMeta {
                name: Some(notice.name),
                namespace: Some(namespace),
                annotations: notice.annotations,
                ..ObjectMeta::default()
            },
            action: Some("Audit".to_owned()),
            event_time: Some(MicroTime(notice.at)),
            note: Some(cut(notice.note, NOTE_BYTES).to_owned()),
            reason: Some(notice.reason.to_owned()),
            regarding: Some(notice.regarding),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        }
    }

    /// Writes an Event, with patience for what may pass.
    pub(super) async fn post(&self, event: Event, queued: Option<Instant>) {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let mut wait = Duration::from_millis(250);
        let mut answered = 0;
        loop {
            let Err(error) = api.create(&PostParams::default(), &event).await else {
                self.metrics.recorder_wrote("events");
                if let Some(queued) = queued {
                    self.metrics.event_after(queued.elapsed());
                }
                self.health.send_if_modified(|trouble| !std::mem::take(trouble).is_empty());
                return;
            };
            // New credentials may take longer than the attempts.
            answered += u32::from(matches!(&error, kube::Error::Api(status) if status.code != 401));
            match failure(&error) {
                Failure::Normal(reason) => {
                    debug!(namespace, reason, "Event not written");
                    if reason != "already_exists" {
                        self.metrics.recorder_dropped("events", reason, 1);
                    }
                    return;
                }
                Failure::Later if answered < ATTEMPTS => self.trouble(&format!("Events wait: {}", describe(&error))),
                Failure::Later | Failure::Refused(_) => {
                    self.trouble(&format!("Events cannot be written in namespace {namespace}: {}", describe(&error)));
                    let reason = if let Failure::Refused(reason) = failure(&error) { reason } else { "unavailable" };
                    self.metrics.recorder_dropped("events", reason, 1);
                    return;
                }
            }
            sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(10));
        }
    }

    fn trouble(&self, what: &str) {
        let new = self.health.send_if_modified(|known| {
            known != what && {
                what.clone_into(known);
                true
            }
        });
        if new {
            warn!("{what}");
        }
    }
}

pub(super) fn reference(object: &ObjectKey, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.kind.api_version()),
        kind: Some(object.kind.kind.clone()),
        name: Some(object.name.to_string()),
        namespace: object.namespace.as_deref().map(str::to_owned),
        uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
        ..ObjectReference::default()
    }
}

/// Returns a name for an Event, out of what makes it what it is.
pub(super) fn hashed(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
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
}
