//! NATS `JetStream`: each record is a message that a stream has stored and acknowledged.
//!
//! `Nats-Msg-Id` is the id of the event, so a stream drops a message that it got twice. Nothing is published while there
//! is no connection: a message that waits inside the client would be sent at an unknown time.

use std::{error::Error as _, time::Duration};

use async_nats::{
    HeaderMap,
    jetstream::{
        self, ErrorCode,
        context::{PublishError, PublishErrorKind},
        message::PublishMessage,
    },
};
use tokio::time::timeout;

use super::{
    connection::ConnectionSlot,
    record::{BusRecord, RecordMode, groups_of_distinct_keys, records},
    template::BusTemplate,
};
use crate::{
    bus::nats::{NatsConnection, NatsServers},
    cluster::error::reasons,
    record::notify::{
        formats::cloudevents::CloudEventsMode,
        http::RequestError,
        notification::{AuditIdentity, Batch},
    },
};

/// A `JetStream` of NATS.
#[derive(Debug)]
pub(crate) struct Nats {
    pub(crate) servers: NatsServers,
    pub(crate) subject: BusTemplate,
    connection: ConnectionSlot<NatsConnection>,
}

impl Nats {
    pub(crate) fn new(servers: NatsServers, subject: BusTemplate) -> Self {
        Self { servers, subject, connection: ConnectionSlot::default() }
    }

    /// Returns groups in which each violation occurs once: the messages of a group are published without waiting for
    /// each other, so one that fails must not be overtaken.
    pub(super) fn groups(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Vec<BusRecord>>, String> {
        // The binding for NATS has no binary mode.
        let mode = RecordMode { events: CloudEventsMode::Structured, prefix: "" };
        Ok(groups_of_distinct_keys(records(batch, audit, &self.subject, mode)?))
    }

    /// Makes one attempt to publish the records that are not acknowledged yet.
    pub(super) async fn publish(&self, records: &[BusRecord]) -> Result<(), RequestError> {
        let later = |why: String| RequestError::Later(Duration::ZERO, why);
        let connected = self.connection.get(NatsConnection::is_connected, self.servers.connect());
        let no_answer = || later("cannot be reached: it did not respond in time".into());
        let connection = timeout(self.servers.timeout, connected).await.map_err(|_| no_answer())?.map_err(later)?;
        let published = timeout(self.servers.timeout, publish(&connection, records)).await;
        let published = published.unwrap_or_else(|_| Err(PublishFailure::NoAnswer));
        let Err(failure) = published else { return Ok(()) };
        if matches!(failure, PublishFailure::NoAnswer) {
            self.connection.close().await;
        }
        Err(failure.explain(&connection))
    }
}

/// Why messages are not published.
enum PublishFailure {
    /// The server did not answer, or the connection is closed.
    NoAnswer,
    Publish(String, PublishError),
}

async fn publish(connection: &NatsConnection, records: &[BusRecord]) -> Result<(), PublishFailure> {
    let (mut acknowledgements, mut failed) = (Vec::new(), Ok(()));
    for record in records.iter().filter(|record| !record.is_acknowledged()) {
        let subject = record.address.clone();
        match connection.context.send_publish(subject, message(record)).await {
            Ok(acknowledgement) => acknowledgements.push((record, acknowledgement)),
            Err(error) => {
                failed = Err(PublishFailure::new(record, error));
                break;
            }
        }
    }
    for (record, acknowledgement) in acknowledgements {
        match acknowledgement.await {
            Ok(_) => record.acknowledge(),
            Err(error) => failed = failed.and(Err(PublishFailure::new(record, error))),
        }
    }
    failed
}

impl PublishFailure {
    fn new(record: &BusRecord, error: PublishError) -> Self {
        match error.kind() {
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => Self::NoAnswer,
            _ => Self::Publish(record.address.clone(), error),
        }
    }

    fn explain(self, connection: &NatsConnection) -> RequestError {
        let later = |why: String| RequestError::Later(Duration::ZERO, connection.redact(&why));
        let (subject, error) = match self {
            Self::NoAnswer => {
                let reported = connection.take_reported();
                let reported = reported.map(|what| format!(": the server reported {what}")).unwrap_or_default();
                return later(format!("did not acknowledge a message in time{reported}"));
            }
            Self::Publish(subject, error) => (subject, error),
        };
        match (error.kind(), answer(&error)) {
            (PublishErrorKind::StreamNotFound, _) => {
                later(format!("has no stream with the subject {subject}: add the subject to a stream"))
            }
            (_, Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM)) | (PublishErrorKind::MaxPayloadExceeded, _) => {
                RequestError::Refused(
                    connection.redact(&format!("refused a message that is too large: {}", reasons(&error))),
                )
            }
            (_, Some(_)) => later(format!("did not store a message: {}", reasons(&error))),
            (_, None) => later(format!("was not sent a message: {}", reasons(&error))),
        }
    }
}

/// Returns the code in the server's answer, if the server answered.
fn answer(error: &PublishError) -> Option<ErrorCode> {
    error.source()?.downcast_ref::<jetstream::Error>().map(jetstream::Error::error_code)
}

fn message(record: &BusRecord) -> PublishMessage {
    let mut headers = HeaderMap::new();
    for (name, value) in &record.headers {
        headers.insert(name.as_str(), value.as_str());
    }
    PublishMessage::build().payload(record.body.clone()).headers(headers).message_id(&record.id)
}
