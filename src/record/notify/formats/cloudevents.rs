//! `CloudEvents` 1.0 over HTTP, in each of the three modes of its HTTP protocol binding.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::record::notify::{
    http::{Message, json},
    notification::{AuditIdentity, Batch, Notification},
};
use crate::{cluster::identity::API_VERSION, record::message_name::message_name};

const SPEC_VERSION: &str = "1.0";
const JSON: &str = "application/json";
/// The prefix of every `type`.
const TYPE: &str = "dev.kaudit.violation";

/// How an event becomes a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CloudEventsMode {
    /// Its attributes are headers, its data is the body.
    Binary,
    /// The body is one event.
    #[default]
    Structured,
    /// The body is a list of events.
    Batched,
}

/// A receiver of `CloudEvents`.
#[derive(Debug, Default)]
pub(crate) struct CloudEvents {
    pub(crate) mode: CloudEventsMode,
}

/// An event in the JSON format.
#[derive(Serialize)]
struct CloudEvent {
    specversion: &'static str,
    id: String,
    source: String,
    #[serde(rename = "type")]
    kind: String,
    subject: String,
    time: String,
    datacontenttype: &'static str,
    /// An extension: `source` may be the same in several clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Arc<str>>,
    data: Value,
}

impl CloudEvents {
    pub(super) fn messages(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Message>, String> {
        let reported = batch.notifications.iter().map(|notification| event(notification, audit));
        let events: Vec<CloudEvent> = left_out(batch, audit).into_iter().chain(reported).collect();
        let count = |event: &CloudEvent| usize::from(event.kind != left_out_type());
        match self.mode {
            CloudEventsMode::Batched => {
                let (id, notifications) = (batch.name(), batch.notifications.len());
                let content_type = "application/cloudevents-batch+json; charset=utf-8";
                Ok(vec![Message { id, content_type, headers: Vec::new(), body: json(&events)?, notifications }])
            }
            CloudEventsMode::Structured => {
                let structured = |event: CloudEvent| {
                    let content_type = "application/cloudevents+json; charset=utf-8";
                    let (body, notifications) = (json(&event)?, count(&event));
                    Ok(Message { id: event.id, content_type, headers: Vec::new(), body, notifications })
                };
                events.into_iter().map(structured).collect()
            }
            CloudEventsMode::Binary => {
                let binary = |event: CloudEvent| {
                    let (body, notifications) = (json(&event.data)?, count(&event));
                    let cluster = event.cluster.map(|name| ("ce-cluster", header_value(&name)));
                    let headers = [
                        ("ce-specversion", event.specversion.to_owned()),
                        ("ce-id", event.id.clone()),
                        ("ce-source", event.source),
                        ("ce-type", event.kind),
                        ("ce-subject", header_value(&event.subject)),
                        ("ce-time", event.time),
                    ];
                    let headers = headers.into_iter().chain(cluster).collect();
                    Ok(Message { id: event.id, content_type: JSON, headers, body, notifications })
                };
                events.into_iter().map(binary).collect()
            }
        }
    }
}

fn event(notification: &Notification, audit: &AuditIdentity) -> CloudEvent {
    CloudEvent {
        specversion: SPEC_VERSION,
        id: notification.id.clone(),
        source: source(audit),
        kind: format!("{TYPE}.{}", notification.event.word()),
        subject: format!("{}/{}", notification.resource.kind_with_group(), notification.resource.path()),
        time: notification.time.to_string(),
        datacontenttype: JSON,
        cluster: audit.cluster.clone(),
        data: serde_json::to_value(notification).unwrap_or_default(),
    }
}

fn left_out_type() -> String {
    format!("{TYPE}s.leftout")
}

/// Returns the event about notifications that were left out, if any were.
fn left_out(batch: &Batch, audit: &AuditIdentity) -> Option<CloudEvent> {
    let before = batch.notifications.first().filter(|_| batch.left_out > 0)?;
    Some(CloudEvent {
        specversion: SPEC_VERSION,
        id: message_name(&[&before.id, "left out"]),
        source: source(audit),
        kind: left_out_type(),
        subject: format!("{}/{}", audit.namespace, audit.name),
        time: before.time.to_string(),
        datacontenttype: JSON,
        cluster: audit.cluster.clone(),
        data: json!({"leftOut": batch.left_out}),
    })
}

/// Returns the path of the `Audit` object in the API, as a URI reference without a host.
fn source(audit: &AuditIdentity) -> String {
    format!("/apis/{API_VERSION}/namespaces/{}/audits/{}", audit.namespace, audit.name)
}

/// Percent-encodes the characters that the protocol binding does not allow in headers: all but printable ASCII, and the
/// space, the quote and the percent sign.
fn header_value(text: &str) -> String {
    use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
    const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(mode: CloudEventsMode) -> Vec<Message> {
        CloudEvents { mode }.messages(&Batch::sample(), &AuditIdentity::sample()).unwrap()
    }

    #[test]
    fn each_event_is_a_request_or_all_are_one() {
        let parsed = |message: &Message| serde_json::from_slice::<Value>(&message.body).unwrap();
        let (structured, batched, binary) = (
            messages(CloudEventsMode::Structured),
            messages(CloudEventsMode::Batched),
            messages(CloudEventsMode::Binary),
        );
        insta::assert_snapshot!(serde_json::to_string_pretty(&parsed(&structured[1])).unwrap());
        assert_eq!(parsed(&structured[0])["data"], json!({"leftOut": 2}));
        assert_eq!(structured.iter().map(parsed).collect::<Value>(), parsed(&batched[0]));
        assert_eq!((structured.len(), batched.len(), binary.len()), (4, 1, 4));
        let notifications = |messages: &[Message]| messages.iter().map(|message| message.notifications).sum::<usize>();
        assert_eq!([&structured[..], &batched, &binary].map(notifications), [3, 3, 3]);
        assert_eq!(parsed(&binary[1]), parsed(&structured[1])["data"]);
        let headers: Vec<_> = binary[1].headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        insta::assert_snapshot!(headers.join("\n"));
    }
}
