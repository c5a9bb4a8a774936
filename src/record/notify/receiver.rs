//! A receiver: which notifications it gets, and how they are sent.

use crate::blocking::spawn_blocking;
use std::{sync::Arc, time::Duration};

use hyper::body::Bytes;

use super::{
    bus::{Bus, record::BusRecord},
    file::{self, RotatedFile},
    formats::ReceiverFormat,
    http::{Endpoint, Message, RequestError},
    notification::{AuditIdentity, Batch},
    queue::Batching,
    route::NotificationMatch,
};

/// A receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Name in logs, metrics and conditions: a DNS label.
    pub(super) name: String,
    pub(super) matching: NotificationMatch,
    pub(super) batching: Batching,
    pub(super) target: ReceiverTarget,
}

/// Where notifications go.
#[derive(Debug)]
pub(super) enum ReceiverTarget {
    Http(Box<(Endpoint, ReceiverFormat)>),
    File(Arc<RotatedFile>),
    Bus(Box<Bus>),
}

/// What one attempt sends.
#[derive(Debug, Clone)]
pub(super) enum Outgoing {
    /// A request, or lines of a file.
    Message(Message),
    /// Records of an event bus.
    Records(Vec<BusRecord>),
}

impl Outgoing {
    /// Returns how many notifications are not sent yet.
    pub(super) fn notifications(&self) -> usize {
        match self {
            Self::Message(message) => message.notifications,
            Self::Records(records) => {
                records.iter().filter(|record| record.is_notification && !record.is_acknowledged()).count()
            }
        }
    }

    /// Returns the records that are not sent yet one by one, so that one that is refused does not affect the others;
    /// `None` if it cannot be split.
    pub(super) fn split(&self) -> Option<Vec<Self>> {
        let Self::Records(records) = self else { return None };
        let records: Vec<_> = records.iter().filter(|record| !record.is_acknowledged()).collect();
        (records.len() > 1).then(|| records.into_iter().map(|record| Self::Records(vec![record.clone()])).collect())
    }
}

impl Receiver {
    /// Returns what carries a batch, in the order in which it is sent.
    ///
    /// # Errors
    /// If the batch cannot be formatted; a retry would fail again.
    pub(super) fn outgoing(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Outgoing>, String> {
        match &self.target {
            ReceiverTarget::Http(http) => {
                Ok(http.1.messages(batch, audit)?.into_iter().map(Outgoing::Message).collect())
            }
            ReceiverTarget::Bus(bus) => Ok(bus.groups(batch, audit)?.into_iter().map(Outgoing::Records).collect()),
            ReceiverTarget::File(_) => {
                let body = Bytes::from(file::lines(batch, audit).map_err(|error| error.to_string())?);
                Ok(vec![Outgoing::Message(Message {
                    id: String::new(),
                    content_type: "application/x-ndjson".into(),
                    headers: Vec::new(),
                    body,
                    notifications: batch.notifications.len(),
                })])
            }
        }
    }

    /// Makes one attempt to send.
    pub(super) async fn send(&self, outgoing: &Outgoing) -> Result<(), RequestError> {
        match (&self.target, outgoing) {
            (ReceiverTarget::Http(http), Outgoing::Message(message)) => http.0.post(message).await,
            (ReceiverTarget::Bus(bus), Outgoing::Records(records)) => bus.publish(records).await,
            (ReceiverTarget::File(file), Outgoing::Message(message)) => {
                let (file, body) = (Arc::clone(file), message.body.clone());
                let later = |why: String| RequestError::Later(Duration::ZERO, format!("cannot be written: {why}"));
                let written = spawn_blocking(move || file.append(&body)).await;
                written.map_err(|error| later(error.to_string()))?.map_err(|error| later(error.to_string()))
            }
            // Its own function above never makes these.
            (ReceiverTarget::Bus(_), Outgoing::Message(_))
            | (ReceiverTarget::Http(_) | ReceiverTarget::File(_), Outgoing::Records(_)) => {
                Err(RequestError::Refused("was not sent a message of another kind of receiver".into()))
            }
        }
    }

    /// Returns how often all open violations are sent again; `None` is never.
    pub(super) fn resend_every(&self) -> Option<Duration> {
        let ReceiverTarget::Http(http) = &self.target else { return None };
        if let ReceiverFormat::Alertmanager(alertmanager) = &http.1 { Some(alertmanager.resend_every) } else { None }
    }
}
