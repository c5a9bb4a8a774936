//! The formats of the kinds of receivers: a batch of notifications becomes requests.

pub(super) mod alertmanager;
pub(super) mod cloudevents;
pub(super) mod slack;
pub(super) mod webhook;

use self::{alertmanager::Alertmanager, cloudevents::CloudEvents, slack::Slack, webhook::Webhook};
use super::{
    http::Message,
    notification::{AuditIdentity, Batch},
};

/// The format that a receiver expects.
#[derive(Debug)]
pub(super) enum ReceiverFormat {
    Webhook(Webhook),
    CloudEvents(CloudEvents),
    Slack(Slack),
    Alertmanager(Alertmanager),
}

impl ReceiverFormat {
    /// Returns the requests that carry a batch.
    ///
    /// # Errors
    /// If the batch cannot be formatted; a retry would fail again.
    pub(super) fn messages(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Message>, String> {
        match self {
            Self::Webhook(webhook) => webhook.messages(batch, audit),
            Self::CloudEvents(cloud_events) => cloud_events.messages(batch, audit),
            Self::Slack(slack) => slack.messages(batch, audit),
            Self::Alertmanager(alertmanager) => alertmanager.messages(batch, audit),
        }
    }
}
