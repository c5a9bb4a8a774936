//! `CloudEvents` 1.0: over HTTP, in each of the three modes of its protocol binding, and as records of event buses.

use std::sync::Arc;

use cloudevents::{AttributesReader as _, Data, Event, EventBuilder as _, EventBuilderV10, event::AttributeValue};
use hyper::body::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::record::notify::{
    http::{Message, json},
    notification::{AuditIdentity, Batch, Notification},
};
use crate::{cluster::identity::API_VERSION, record::message_name::message_name};

const JSON: &str = "application/json";
/// The content type of an event in the JSON format.
const EVENT_JSON: &str = "application/cloudevents+json; charset=utf-8";
/// The same for several events.
const BATCH_JSON: &str = "application/cloudevents-batch+json; charset=utf-8";
/// The prefix of attributes in headers of HTTP.
const HTTP_PREFIX: &str = "ce-";
/// The header of the data's type, in HTTP and in Kafka.
const CONTENT_TYPE: &str = "content-type";
/// The prefix of every `type`.
const TYPE: &str = "dev.kaudit.violation";

/// How an event becomes a request or a record.
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

/// A receiver of `CloudEvents` over HTTP.
#[derive(Debug, Default)]
pub(crate) struct CloudEvents {
    pub(crate) mode: CloudEventsMode,
}

/// An event, and the notification that it is about.
pub(crate) struct ReportedEvent {
    event: Event,
    pub(crate) time: Timestamp,
    /// `None` for the event that counts notifications that were left out.
    pub(crate) notification: Option<Arc<Notification>>,
}

impl CloudEvents {
    pub(super) fn messages(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Message>, String> {
        let reported = events(batch, audit)?;
        if self.mode == CloudEventsMode::Batched {
            let events: Vec<&Event> = reported.iter().map(|reported| &reported.event).collect();
            let (id, notifications) = (batch.name(), batch.notifications.len());
            let body = json(&events)?;
            return Ok(vec![Message { id, content_type: BATCH_JSON.into(), headers: Vec::new(), body, notifications }]);
        }
        let message = |reported: ReportedEvent| {
            let (mut headers, body) = reported.content(self.mode, HTTP_PREFIX)?;
            headers.retain(|(name, _)| name != CONTENT_TYPE);
            let headers = headers.into_iter().map(|(name, value)| (name, header_value(&value))).collect();
            let content_type = if self.mode == CloudEventsMode::Binary { JSON } else { EVENT_JSON }.into();
            let notifications = usize::from(reported.notification.is_some());
            Ok(Message { id: reported.id().to_owned(), content_type, headers, body, notifications })
        };
        reported.into_iter().map(message).collect()
    }
}

impl ReportedEvent {
    /// Returns the id of the event.
    pub(crate) fn id(&self) -> &str {
        self.event.id()
    }

    /// Returns headers and body in binary mode, with this prefix in the names of attributes, or else in structured mode.
    ///
    /// # Errors
    /// If the event cannot be written as JSON.
    pub(crate) fn content(
        &self,
        mode: CloudEventsMode,
        prefix: &str,
    ) -> Result<(Vec<(String, String)>, Bytes), String> {
        if mode != CloudEventsMode::Binary {
            return Ok((vec![(CONTENT_TYPE.to_owned(), EVENT_JSON.to_owned())], json(&self.event)?));
        }
        let header = |(name, value): (&str, AttributeValue<'_>)| match name {
            "datacontenttype" => (CONTENT_TYPE.to_owned(), value.to_string()),
            // The type would show the offset of UTC in numbers, which the JSON format does not.
            "time" => (format!("{prefix}{name}"), self.time.to_string()),
            _ => (format!("{prefix}{name}"), value.to_string()),
        };
        let body = match self.event.data() {
            Some(Data::Json(data)) => json(data)?,
            _ => Bytes::new(),
        };
        Ok((self.event.iter().map(header).collect(), body))
    }
}

/// Returns the events of a batch, in order, after one with the count of notifications that were left out, if any were.
///
/// # Errors
/// If an event is invalid.
pub(crate) fn events(batch: &Batch, audit: &AuditIdentity) -> Result<Vec<ReportedEvent>, String> {
    let reported = batch.notifications.iter().map(|notification| event(notification, audit));
    left_out(batch, audit).into_iter().chain(reported).collect()
}

fn event(notification: &Arc<Notification>, audit: &AuditIdentity) -> Result<ReportedEvent, String> {
    let builder = builder(audit, notification.time)
        .id(&notification.id)
        .ty(format!("{TYPE}.{}", notification.event.word()))
        .subject(format!("{}/{}", notification.resource.kind_with_group(), notification.resource.path()))
        .data(JSON, serde_json::to_value(&**notification).map_err(|error| error.to_string())?);
    let event = builder.build().map_err(|error| error.to_string())?;
    Ok(ReportedEvent { event, time: notification.time, notification: Some(Arc::clone(notification)) })
}

/// Returns the event about notifications that were left out, if any were.
fn left_out(batch: &Batch, audit: &AuditIdentity) -> Option<Result<ReportedEvent, String>> {
    let before = batch.notifications.first().filter(|_| batch.left_out > 0)?;
    let builder = builder(audit, before.time)
        .id(message_name(&[&before.id, "left out"]))
        .ty(format!("{TYPE}s.leftout"))
        .subject(format!("{}/{}", audit.namespace, audit.name))
        .data(JSON, json!({"leftOut": batch.left_out}));
    let event = builder.build().map_err(|error| error.to_string());
    Some(event.map(|event| ReportedEvent { event, time: before.time, notification: None }))
}

/// Returns a builder with the attributes that all events have.
fn builder(audit: &AuditIdentity, time: Timestamp) -> EventBuilderV10 {
    let builder = EventBuilderV10::new().source(source(audit)).time(time.to_string());
    // An extension: `source` may be the same in several clusters.
    match &audit.cluster {
        Some(cluster) => builder.extension("cluster", &**cluster),
        None => builder,
    }
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
    use serde_json::Value;

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
        for message in &structured {
            assert!(serde_json::from_slice::<Event>(&message.body).is_ok());
        }
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
