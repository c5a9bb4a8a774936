//! A receiver: who is told what, and how.

use crate::blocking::spawn_blocking;
use std::{sync::Arc, time::Duration};

use hyper::body::Bytes;

use super::{
    file::{self, RotatedFile},
    formats::Format,
    http::{Endpoint, Message, SendError},
    notification::{Batch, Teller},
    queue::Batching,
    route::Match,
};

/// A receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    /// What it is called in logs, metrics and conditions: a DNS label.
    pub(super) name: String,
    pub(super) matching: Match,
    pub(super) batching: Batching,
    pub(super) target: Target,
}

/// Where notifications go.
#[derive(Debug)]
pub(super) enum Target {
    Http(Box<(Endpoint, Format)>),
    File(Arc<RotatedFile>),
}

impl Receiver {
    /// Returns the requests that tell a batch.
    ///
    /// # Errors
    /// When the batch cannot be told, ever.
    pub(super) fn messages(&self, batch: &Batch, teller: &Teller) -> Result<Vec<Message>, String> {
        let Target::Http(http) = &self.target else {
            let body = Bytes::from(file::lines(batch, teller).map_err(|error| error.to_string())?);
            let (id, tells) = (String::new(), batch.notifications.len());
            return Ok(vec![Message { id, content_type: "application/x-ndjson", headers: Vec::new(), body, tells }]);
        };
        http.1.messages(batch, teller)
    }

    /// Makes one attempt to send a message.
    pub(super) async fn send(&self, message: &Message) -> Result<(), SendError> {
        let file = match &self.target {
            Target::Http(http) => return http.0.post(message).await,
            Target::File(file) => Arc::clone(file),
        };
        let body = message.body.clone();
        let later = |why: String| SendError::Later(Duration::ZERO, format!("cannot be written: {why}"));
        let written = spawn_blocking(move || file.append(&body)).await;
        written.map_err(|error| later(error.to_string()))?.map_err(|error| later(error.to_string()))
    }

    /// Returns how often everything that stands is sent again; `None` is never.
    pub(super) fn resend_every(&self) -> Option<Duration> {
        let Target::Http(http) = &self.target else { return None };
        if let Format::Alertmanager(alertmanager) = &http.1 { Some(alertmanager.resend_every) } else { None }
    }
}
