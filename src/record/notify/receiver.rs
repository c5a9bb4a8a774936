//! A receiver: which notifications it gets, and how they are sent.

use crate::blocking::spawn_blocking;
use std::{sync::Arc, time::Duration};

use hyper::body::Bytes;

use super::{
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
}

impl Receiver {
    /// Returns the requests that carry a batch.
    ///
    /// # Errors
    /// If the batch cannot be formatted; a retry would fail again.
    pub(super) fn messages(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Message>, String> {
        let ReceiverTarget::Http(http) = &self.target else {
            let body = Bytes::from(file::lines(batch, audit).map_err(|error| error.to_string())?);
            let (id, notifications) = (String::new(), batch.notifications.len());
            return Ok(vec![Message {
                id,
                content_type: "application/x-ndjson",
                headers: Vec::new(),
                body,
                notifications,
            }]);
        };
        http.1.messages(batch, audit)
    }

    /// Makes one attempt to send a message.
    pub(super) async fn send(&self, message: &Message) -> Result<(), RequestError> {
        let file = match &self.target {
            ReceiverTarget::Http(http) => return http.0.post(message).await,
            ReceiverTarget::File(file) => Arc::clone(file),
        };
        let body = message.body.clone();
        let later = |why: String| RequestError::Later(Duration::ZERO, format!("cannot be written: {why}"));
        let written = spawn_blocking(move || file.append(&body)).await;
        written.map_err(|error| later(error.to_string()))?.map_err(|error| later(error.to_string()))
    }

    /// Returns how often all open violations are sent again; `None` is never.
    pub(super) fn resend_every(&self) -> Option<Duration> {
        let ReceiverTarget::Http(http) = &self.target else { return None };
        if let ReceiverFormat::Alertmanager(alertmanager) = &http.1 { Some(alertmanager.resend_every) } else { None }
    }
}
